"""Frameworks behind one face: what a model is made of there, how it is placed, and what it costs.

In: a framework's model and a placement from `ir`. Out: layer graphs, placed step functions, samples of time.
Never: decisions; those are the planner's.
"""
