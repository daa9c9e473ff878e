"""The arithmetic of waiting: two rules, each one function. All times in seconds; randomness is passed in.

The rules are the published ones of ServiceNow's Cloud Request Retry Configuration: the cap is applied before the jitter,
so a delay can reach `max_delay + window`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

__all__ = ["exponential_ceiling", "exponential_delay", "header_delay"]

_LARGEST_EXPONENT = 1023  # 2.0 ** 1024 overflows; the cap has decided long before


def _largest_multiplier(retry_number: int) -> float:
    return 2.0 ** min(retry_number, _LARGEST_EXPONENT) - 1.0


def exponential_ceiling(retry_number: int, *, base: float, cap: float) -> float:
    """Largest delay before jitter of retry 1, 2, 3 …: min(cap, base · (2ⁿ - 1))."""
    return min(cap, base * _largest_multiplier(retry_number))


def exponential_delay(retry_number: int, *, base: float, cap: float, window: float, rng: Random) -> float:
    """min(cap, base · m) + u, where m is uniform on [0, 2ⁿ - 1] and u on [0, window]."""
    multiplier = rng.uniform(0.0, _largest_multiplier(retry_number))
    return min(cap, base * multiplier) + rng.uniform(0.0, window)


def header_delay(asked: float, *, window: float, rng: Random) -> float:
    """What the provider asked for, plus a draw from [0, window]; zero still gets the window."""
    return asked + rng.uniform(0.0, window)
