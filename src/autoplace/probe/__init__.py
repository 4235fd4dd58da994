"""Measures: what units and transfers cost, whether they are right, and which whole step is fastest.

In: a `Session` of an engine and a `Policy`. Out: a `Plan` with its evidence, and the arm that carries it out.
Never: the user's own state; an `import` of a framework.
"""
