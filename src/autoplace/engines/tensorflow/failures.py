"""What a layer or a device raises when it is run for measuring."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autoplace.engines.protocol import NotProbeableError


@contextmanager
def translated() -> Iterator[None]:
    """Turn whatever a unit raises when it is run alone into `NotProbeableError`.

    A layer's code is the user's and may raise anything outside of its model; that is a reason not to place it,
    not to end the training.
    """
    try:
        yield
    except NotProbeableError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        raise NotProbeableError(f"{type(error).__name__}: {text}") from error
