"""Handwritten digits in the shapes of the three models.

The digits are the 1,797 images of 8 x 8 pixels that scikit-learn ships (UCI ML, Alpaydin and Kaynak, 1998):
nothing is downloaded.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoplace.errors import MissingExtraError

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]

BLANK = 10
"""Label of a step of a sequence on which there is no digit."""

STRIP_DIGITS, STRIP_WIDTH = 13, 217
SEQUENCE_CELLS, SEQUENCE_STEPS = 4, 24
BLANK_SHARE = 0.2


def digits() -> tuple[Floats, Integers]:
    """Return images of shape (1797, 8, 8) with values from 0 to 1, and their labels of shape (1797,).

    Raises:
        MissingExtraError: AP107, without scikit-learn.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingExtraError(
            "the demo trains on handwritten digits that scikit-learn ships",
            expected="the package scikit-learn",
            received=str(error),
            fix="pip install 'autoplace[demo]', or pip install scikit-learn",
        ) from None
    loaded = load_digits()
    return (loaded.images / 16).astype(np.float32), loaded.target.astype(np.int32)


def enlarged(images: Floats, factor: int) -> Floats:
    """Return images with each pixel repeated `factor` times in both directions."""
    larger: Floats = images.repeat(factor, axis=-2).repeat(factor, axis=-1)
    return larger


def features(rows: int, seed: int) -> tuple[Floats, Floats]:
    """Digits as 1024 features, and the digit as a number.

    Returns:
        Arrays of shape (rows, 1024) and (rows, 1).
    """
    images, labels = digits()
    chosen = np.random.default_rng(seed).integers(len(images), size=rows)
    wide = enlarged(images[chosen], 4).reshape(rows, 1024)
    return wide, labels[chosen, np.newaxis].astype(np.float32)


def strips(rows: int, seed: int) -> tuple[tuple[Floats, Floats, Floats], Floats]:
    """Two digits as 1024 features each, and a strip of thirteen digits side by side.

    The target is the sum of the two digits and of the mean digit of the strip.

    Returns:
        Inputs of shape (rows, 1024), (rows, 1024) and (rows, 16, 217, 1); targets of shape (rows, 1).
    """
    images, labels = digits()
    chosen = np.random.default_rng(seed).integers(len(images), size=(rows, 2 + STRIP_DIGITS))
    wide = enlarged(images[chosen[:, :2]], 4).reshape(rows, 2, 1024)
    tall = enlarged(images[chosen[:, 2:]], 2)
    strip = np.zeros((rows, 16, STRIP_WIDTH, 1), np.float32)
    strip[:, :, : 16 * STRIP_DIGITS, 0] = tall.transpose(0, 2, 1, 3).reshape(rows, 16, -1)
    numbers = labels[chosen].astype(np.float32)
    target = numbers[:, :2].sum(axis=1) + numbers[:, 2:].mean(axis=1)
    return (wide[:, 0], wide[:, 1], strip), target[:, np.newaxis].astype(np.float32)


def sequences(rows: int, seed: int) -> tuple[Floats, Integers]:
    """Four cells in a row, a digit or nothing in each, read along the first axis.

    Returns:
        Images of shape (rows, 96, 32, 1) and labels of shape (rows, 24): the digit that a step is in, or `BLANK`.
    """
    images, labels = digits()
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(images), size=(rows, SEQUENCE_CELLS))
    is_blank = rng.random((rows, SEQUENCE_CELLS)) < BLANK_SHARE
    cells = enlarged(images[chosen], 3) * ~is_blank[..., np.newaxis, np.newaxis]
    lines = np.zeros((rows, 96, 32, 1), np.float32)
    # Reading goes down the first axis, so a digit lies on its side: its columns are steps.
    lying = cells.transpose(0, 1, 3, 2).reshape(rows, 96, 24)
    for row, offset in enumerate(rng.integers(0, 9, size=rows)):
        lines[row, :, offset : offset + 24, 0] = lying[row]
    steps = np.where(is_blank, BLANK, labels[chosen])
    return lines, steps.repeat(SEQUENCE_STEPS // SEQUENCE_CELLS, axis=1).astype(np.int32)
