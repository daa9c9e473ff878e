"""Which hosts can't be reached from here, such as regional endpoints that a firewall blocks. Pure: time is passed in.

A host that has answered once is never held to be unreachable: what happens to it later is an ordinary broken connection.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Reachability"]

_FIRST_PAUSE: Final = 30.0
_FACTOR: Final = 4.0
_LONGEST_PAUSE: Final = 3600.0
_MOST_HOSTS: Final = 10_000  # S3 has one for each bucket


class Reachability:
    """What is known of each host. Times are monotonic seconds. Thread-safe: each method is one dictionary operation."""

    __slots__ = ("_reached", "_unreachable")

    def __init__(self) -> None:
        self._reached: dict[str, None] = {}
        self._unreachable: dict[str, tuple[float, float, float]] = {}  # host → (until, pause, patience)

    def reached(self, host: str) -> None:
        """A host answered."""
        if host not in self._reached:
            if len(self._reached) >= _MOST_HOSTS:
                self._reached.clear()
            self._reached[host] = None
            self._unreachable.pop(host, None)

    def missed(self, host: str, now: float, patience: float) -> bool:
        """A connection to a host was not answered for `patience` seconds (infinite where its name is not known).

        True: it is held to be unreachable from now on, by those who would not wait longer.
        """
        if host in self._reached:
            return False
        _, pause, _ = self._unreachable.get(host, (0.0, _FIRST_PAUSE / _FACTOR, 0.0))
        pause = min(_LONGEST_PAUSE, pause * _FACTOR)
        self._unreachable[host] = (now + pause, pause, patience)
        return True

    def is_doubted(self, host: str) -> bool:
        """Whether a host was missed and has not answered since; cheaper than the whole question."""
        return host in self._unreachable

    def is_unreachable(self, host: str, now: float, patience: float) -> bool:
        """Whether a call that would wait `patience` seconds for a connection should not even try; after the pause one may."""
        until, _, waited = self._unreachable.get(host, (0.0, 0.0, 0.0))
        return now < until and patience <= waited

    def forget(self) -> None:
        """Know nothing again."""
        self._reached.clear()
        self._unreachable.clear()
