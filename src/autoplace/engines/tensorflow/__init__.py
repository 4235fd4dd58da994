"""TensorFlow with Keras 3: trace, pin, run, compare.

In: a Keras model, a batch, a placement. Out: a `Trace`, `Arm`s (whole steps under a placement) and
`UnitProbe`s (single units on one device). Never: the user's own variables are trained here; every arm and
every probe works on copies.
"""
