"""How far the accelerator's values may be from the CPU's: the only place where tolerances stand.

A difference is taken relative to the largest magnitude of the CPU's tensor ("scaled"), as is usual for sums
whose terms cancel: the elementwise relative error of a sum near zero is unbounded on any correct device.

The bounds are multiples of the unit roundoff u of the dtype. A dot product of n terms has an error of at most
n·u relative to the sum of magnitudes (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed.,
section 3.1), in practice about sqrt(n)·u; n is some thousands in the layers that people train, and two
devices may each be off. Measured here: CPU kernels of oneDNN against Eigen's differ by 2.8e-6 in weights after
4 Adam steps.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Pass = Literal["forward", "gradient", "step"]

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}

# The change of all weights together over the checked steps, as a relative Euclidean norm. Wide on purpose: Adam
# divides a gradient by its own size, so that a gradient that is pure rounding noise (a bias before
# BatchNormalization) moves its weight by a whole learning rate in a random direction. One element in a hundred
# doing so gives 2·sqrt(0.01) = 0.2. Wrong gradients of a layer give about 1; those of a small layer are found by
# the unit's own comparison.
UPDATE = 0.25

# Multiples of u for scaled differences. Forward: sqrt(n) for n = 2**20 terms, times 4 for two devices and a
# nonlinearity; the results of a few whole steps run through more.
FACTORS: dict[Pass, float] = {"forward": 2.0**12, "step": 2.0**14}

# Gradients are compared by their relative Euclidean norm. Where rounding moves a value across the kink of an
# activation (ReLU, max pooling), the derivative jumps by its whole size, on any correct device: k of N elements
# doing so give sqrt(k/N), and k/N is some multiple of u. A convolution with ReLU on 786,432 values was seen to
# be off by 0.029 of the scale in single elements, with two right kernels. A wrong gradient gives about 1.
GRADIENT_FACTOR, LARGEST = 64.0, 0.25


def tolerance(dtype: str, which: Pass) -> float:
    """Return the largest allowed difference; 0 for integers, booleans and strings."""
    roundoff = UNIT_ROUNDOFF.get(dtype, 0.0)
    if which == "gradient":
        return min(GRADIENT_FACTOR * math.sqrt(roundoff), LARGEST)
    return min(FACTORS[which] * roundoff, 0.1)


def norm_difference(got: npt.NDArray[Any], want: npt.NDArray[Any]) -> float:
    """Return ||got - want|| / ||want||, or inf where shapes differ or only one of them is finite."""
    if got.shape != want.shape:
        return float("inf")
    if want.dtype.kind not in "fV" or want.size == 0:
        return 0.0 if np.array_equal(got, want) else float("inf")
    a, b = got.astype(np.float32, copy=False).ravel(), want.astype(np.float32, copy=False).ravel()
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    a, b = np.nan_to_num(a, posinf=0, neginf=0), np.nan_to_num(b, posinf=0, neginf=0)
    difference, scale = float(np.linalg.norm(a - b)), float(np.linalg.norm(b))
    if difference == 0.0:
        return 0.0
    return difference / scale if scale > 0.0 else float("inf")


def scaled_difference(got: npt.NDArray[Any], want: npt.NDArray[Any]) -> float:
    """Return max|got - want| / max|want|, or inf where shapes differ or only one of them is finite.

    Args:
        got: Values of the accelerator.
        want: Values of the CPU, of the same shape.
    """
    if got.shape != want.shape:
        return float("inf")
    if want.dtype.kind not in "fV" or want.size == 0:
        return 0.0 if np.array_equal(got, want) else float("inf")
    wide = np.float32 if want.dtype == np.float32 else np.float64
    a: npt.NDArray[np.floating[Any]] = got.astype(wide, copy=False)
    b: npt.NDArray[np.floating[Any]] = want.astype(wide, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        difference, scale = float(np.abs(a - b).max()), float(np.abs(b).max())
    if not (np.isfinite(difference) and np.isfinite(scale)):
        finite = np.isfinite(b)
        if not np.array_equal(finite, np.isfinite(a)):
            return float("inf")
        if not finite.any():
            return 0.0
        difference = float(np.abs(a[finite] - b[finite]).max())
        scale = float(np.abs(b[finite]).max())
    if difference == 0.0:
        return 0.0
    return difference / scale if scale > 0.0 else float("inf")


def lost_finiteness(got: npt.NDArray[Any], want: npt.NDArray[Any]) -> bool:
    """Return whether `got` has a NaN or Inf where `want` is finite."""
    if got.shape != want.shape or want.dtype.kind not in "fV":
        return False
    return bool((~np.isfinite(got.astype(np.float64)) & np.isfinite(want.astype(np.float64))).any())
