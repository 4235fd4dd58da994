"""The demo's data: real digits in the right shapes, the same every time."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the demo's data are scikit-learn's")

from autoplace.demo import data
from autoplace.errors import MissingExtraError


def test_digits() -> None:
    """All of them, scaled."""
    images, labels = data.digits()
    assert images.shape == (1797, 8, 8)
    assert (images.min(), images.max()) == (0.0, 1.0)
    assert images.dtype == np.float32
    assert sorted(set(labels.tolist())) == list(range(10))


def test_features() -> None:
    """A digit as 1024 features: each pixel sixteen times, the target its value."""
    x, y = data.features(50, seed=1)
    assert (x.shape, y.shape) == ((50, 1024), (50, 1))
    assert x.dtype == y.dtype == np.float32
    square = x.reshape(50, 8, 4, 8, 4)
    assert (square == square[:, :, :1, :, :1]).all()
    assert set(y[:, 0]) <= set(range(10))


def test_strips() -> None:
    """Thirteen digits side by side; the last columns are empty; the target is in range."""
    (a, b, strip), y = data.strips(20, seed=1)
    assert a.shape == b.shape == (20, 1024)
    assert strip.shape == (20, 16, 217, 1)
    assert not strip[:, :, 208:].any()
    assert strip[:, :, :208].reshape(20, 16, 13, 16).any(axis=(1, 3)).all()
    assert y.shape == (20, 1)
    assert ((y >= 0) & (y <= 27)).all()


def test_strip_shows_upright_digits() -> None:
    """The first sixteen columns are the first digit of the strip, enlarged."""
    (_, _, strip), _ = data.strips(5, seed=1)
    images, _ = data.digits()
    chosen = np.random.default_rng(1).integers(len(images), size=(5, 15))
    assert np.array_equal(strip[0, ::2, :16:2, 0], images[chosen[0, 2]])


def test_sequences() -> None:
    """A cell of 24 rows is 6 steps of one label; a blank cell is empty, a digit is not."""
    x, y = data.sequences(200, seed=1)
    assert (x.shape, y.shape) == ((200, 96, 32, 1), (200, 24))
    cells = y.reshape(200, 4, 6)
    assert (cells == cells[:, :, :1]).all()
    has_ink = x.reshape(200, 4, 24 * 32).any(axis=2)
    assert np.array_equal(has_ink, cells[:, :, 0] != data.BLANK)
    assert set(np.unique(y)) == set(range(11))


@pytest.mark.parametrize("draw", [data.features, data.strips, data.sequences])
def test_seed_decides(draw: object) -> None:
    """Equal for equal seeds, different for others."""

    def flat(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        x, y = draw(3, seed)  # type: ignore[operator]  # one of the three
        parts = [*(x if isinstance(x, tuple) else (x,)), y]
        return np.concatenate([np.ravel(part).astype(np.float64) for part in parts])

    assert np.array_equal(flat(1), flat(1))
    assert not np.array_equal(flat(1), flat(2))


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """AP107 names the package and how to get it."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtraError) as caught:
        data.digits()
    assert caught.value.code == "AP107"
    assert "scikit-learn" in caught.value.expected
    assert "sklearn" in caught.value.received
    assert "pip install" in caught.value.fix
    assert "digits" in caught.value.what
