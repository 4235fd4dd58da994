"""For tests of autoplace and of what is built on it: strategies that make graphs, costs and pins.

In: bounds. Out: hypothesis strategies. Never: imported by autoplace itself; hypothesis is needed here only.
"""
