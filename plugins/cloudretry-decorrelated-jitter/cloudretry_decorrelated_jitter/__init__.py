"""Decorrelated jitter as a getDelay() plugin of cloudretry. Pure: time and randomness come with the context.

The rule is the one that the AWS Architecture Blog compares with others ("Exponential Backoff And Jitter", 2015).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudretry import BackoffContext

__all__ = ["DecorrelatedJitter"]


class DecorrelatedJitter:
    """Waits min(cap, uniform(base, 3 · previous wait)); before the first retry, the base stands for the previous wait.

    Args:
        base_ms: the shortest wait, in milliseconds.
        cap_ms: the longest.

    Raises:
        TypeError: an option is not a number.
        ValueError: not 0 < base_ms ≤ cap_ms, or not finite.
    """

    __slots__ = ("_base_ms", "_cap_ms")

    def __init__(self, *, base_ms: float = 500.0, cap_ms: float = 20_000.0) -> None:
        self._base_ms = _number("base_ms", base_ms)
        self._cap_ms = _number("cap_ms", cap_ms)
        if not 0.0 < self._base_ms <= self._cap_ms:
            raise ValueError(f"base_ms must be above 0 and at most cap_ms, not {base_ms} and {cap_ms}")

    def getDelay(self, context: BackoffContext) -> float:  # noqa: N802 - the name is the contract
        """Milliseconds until the next attempt."""
        previous = context.previous_delays_ms[-1] if context.previous_delays_ms else self._base_ms
        # A wait that something else decided, such as that for a lost connection, may have been shorter than the base.
        longest = max(self._base_ms, 3.0 * previous)
        return min(self._cap_ms, context.random.uniform(self._base_ms, longest))


def _number(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of milliseconds, not {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite")
    return float(value)
