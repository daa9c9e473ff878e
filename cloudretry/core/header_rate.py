"""What is learned of a bucket from headers that count its remaining tokens. Pure: time is passed in.

Between two such answers came in what we took and what the count has changed; others may have had a part of it. That is exact
as long as the bucket was not full in between, for then tokens were lost. So a full bucket never lowers a rate, one with enough
in it for us and for others neither, and below that the rate is what came in.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["HeaderRate"]

_WINDOW: Final = (0.25, 1.0, 8.0, 20.0)  # s over which is measured: a full bucket, shortest, a steady count, longest
_LITTLE: Final = (8.0, 0.3)  # tokens, and share of a small bucket: with so few left, what comes in is all that there is
_NOISE: Final = (3.0, 0.05)  # tokens, and share of the calls, by which a steady count may change
_FULL: Final = 0.9  # share of its size from which on a bucket may have been full
_ENOUGH: Final = 0.5  # share that is enough for us and for others
_LOWEST: Final = (1.0, 0.1)  # calls a second, and 1/s times the size: what is less, headers can't tell, and throttles teach
_EMPTIED: Final = 20.0  # s in which we empty a full bucket at least
_MORE: Final = 1.2  # times the rate that we know: so much more is more than noise
_MUCH_MORE: Final = 2.0  # while nothing was measured
_MOST_ZEROS: Final = 20
_FRESH: Final = 60.0  # s for which a header counts
_DEAF: Final = 60.0  # s for which headers are ignored that claimed tokens while calls were throttled


class HeaderRate:
    """Times are monotonic seconds, counts are of calls or tokens. Not thread-safe.

    Attributes:
        measured: whether a rate was measured.
        resets: whether the bucket is not refilled gradually, but filled up at moments that headers tell.
    """

    __slots__ = ("_deaf_until", "_heard_at", "_window", "_zeros", "measured", "resets")

    def __init__(self) -> None:
        self._heard_at = self._deaf_until = -math.inf
        self._window: tuple[float, float, int] | None = None  # sent, remaining, accepted: where the measurement starts
        self.measured = self.resets = False
        self._zeros = 0

    def listen(self, now: float, sent: float) -> bool:
        """Whether the answer to a call that left at `sent` tells something new."""
        if sent < self._heard_at or now < self._deaf_until:
            return False
        self._heard_at = sent
        return True

    def contradicts(self, remaining: float) -> bool:
        """Whether so many calls in a row were accepted with nothing left that it must count something else."""
        self._zeros = self._zeros + 1 if remaining < 1.0 else 0
        return self._zeros > _MOST_ZEROS

    def is_fresh(self, now: float) -> bool:
        """Whether something was told lately."""
        return now - self._heard_at < _FRESH

    def distrust(self, now: float) -> None:
        """The header counts something else."""
        self._heard_at, self._deaf_until, self._window, self._zeros = -math.inf, now + _DEAF, None, 0

    def measure(self, sent: float, remaining: float, accepted: int, *, rate: float, burst: float, reserved: bool) -> float:
        """The rate that is known now, in calls a second.

        Args:
            sent: when the call left that was answered.
            remaining: tokens, as the answer says.
            accepted: our calls until now.
            rate: as it was known.
            burst: size of the bucket, as far as it is known.
            reserved: we leave a part to others, so that nobody but us empties a full bucket.
        """
        before, self._window = self._window, self._window or (sent, remaining, accepted)
        if before is None or sent - before[0] < _WINDOW[0]:
            return rate
        span = sent - before[0]
        was_full = span > _WINDOW[3] or max(before[1], remaining) >= max(1.0, min(burst * _FULL, burst - 1.0))
        change, count = remaining - before[1], accepted - before[2]
        is_steady = abs(change) <= max(_NOISE[0], _NOISE[1] * count) and remaining > min(_LITTLE[0], burst * _LITTLE[1])
        if not was_full and span < _WINDOW[1 if remaining > burst * _ENOUGH or not is_steady else 2]:
            return rate
        self._window = (sent, remaining, accepted)
        sending = count / span
        if was_full:  # or may have been
            more = min(sending, rate) * (_MORE if self.measured else _MUCH_MORE)
            return max(rate, more, burst / _EMPTIED) if reserved else rate
        came_in = sending + change / span
        if remaining > burst * _ENOUGH or is_steady:  # steady: we send what we may, or it is smaller than believed, and full
            found = came_in if came_in > rate * _MORE else rate
        else:
            found = max(min(_LOWEST[0], burst * _LOWEST[1]), sending / 2.0, came_in)
        before_that, self.measured = self.measured, True
        return min((rate + found) / 2.0, 2.0 * found) if before_that else found
