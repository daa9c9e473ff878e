"""Recovery without a crowd (SPEC B3): how many requests may begin within any 50 ms. Pure: times are monotonic seconds."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final

__all__ = ["STEEPEST", "WINDOW", "Pace", "Ramp"]

WINDOW: Final = 0.05
STEEPEST: Final = 8
_DOUBLINGS: Final = 3  # 1, 2, 4, 8
_AT_STEEPEST: Final = 1.0
_PACE_DOUBLES: Final = 2.0  # seconds
_PACE_DOUBLINGS: Final = 6  # after 512 in 50 ms it is over
_STANDSTILL: Final = 1.0  # seconds


class _Window:
    """The last requests that began; more than `most` of them never matter."""

    __slots__ = ("_begun",)

    def __init__(self, most: int) -> None:
        self._begun: deque[float] = deque(maxlen=most)

    @property
    def last(self) -> float:
        """When the last one began."""
        return self._begun[-1] if self._begun else -inf

    def begin(self, now: float) -> None:
        """Note that one begins."""
        self._begun.append(now)

    def ready_at(self, most: int) -> float:
        """When one more may begin, so that no 50 ms see more than `most`."""
        return self._begun[-most] + WINDOW if len(self._begun) >= most else -inf


class Ramp:
    """What a member that has just recovered admits in any 50 ms: 1, 2, 4, then 8 requests; after a second at 8 it is over."""

    __slots__ = ("_since", "_window")

    def __init__(self, now: float) -> None:
        self._since = now
        self._window = _Window(STEEPEST)

    def most(self, now: float) -> int | None:
        """How many may begin within any 50 ms; None once the ramp is over."""
        step = 0
        while step < _DOUBLINGS and now >= self._step_at(step + 1):
            step += 1
        return None if now >= self._step_at(_DOUBLINGS) + _AT_STEEPEST else 2**step

    def ready_at(self, now: float) -> float:
        """When one more request may begin; `now` or earlier: at once."""
        most = self.most(now)
        if most is None:
            return now
        ready = self._window.ready_at(most)
        return min(ready, self._next_step(now)) if ready > now else ready

    def begin(self, now: float) -> None:
        """Note that a request begins."""
        self._window.begin(now)

    def slip(self, now: float) -> None:
        """Begin again at 1, unless it is over: a request failed."""
        if self.most(now) is not None:
            self._since = now

    def _step_at(self, step: int) -> float:
        return self._since + step * WINDOW

    def _next_step(self, now: float) -> float:
        """When it becomes steeper, or ends."""
        for step in range(1, _DOUBLINGS + 1):
            if now < self._step_at(step):
                return self._step_at(step)
        return self._step_at(_DOUBLINGS) + _AT_STEEPEST


class Pace:
    """How quickly those who have waited for a member are let go: 8 in any 50 ms, and twice as many after every two seconds.

    So 200 of them are no crowd, and a line that more and more join still comes to its end. A standstill begins it again.
    """

    __slots__ = ("_since", "_window")

    def __init__(self) -> None:
        self._since = -inf
        self._window = _Window(STEEPEST * 2**_PACE_DOUBLINGS)

    def ready_at(self, now: float) -> float:
        """When one more may be let go; `now` or earlier: at once."""
        if now - self._window.last > _STANDSTILL:
            return now
        step = int((now - self._since) / _PACE_DOUBLES)
        return now if step > _PACE_DOUBLINGS else self._window.ready_at(STEEPEST * 2**step)

    def begin(self, now: float) -> None:
        """Note that one is let go."""
        if now - self._window.last > _STANDSTILL:
            self._since = now
        self._window.begin(now)
