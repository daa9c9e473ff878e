"""Who is calling: the modules whose functions are at work in this thread, from the caller on outwards."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["is_called_by"]


def is_called_by(is_one: Callable[[str], bool], *, deepest: int) -> bool:
    """Whether a module with such a name is among the callers of the function that asks. `deepest`: frames to look at."""
    frame = sys._getframe(2)  # noqa: SLF001 - the cheap way to one's callers
    for _ in range(deepest):
        if is_one(frame.f_globals.get("__name__", "")):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
