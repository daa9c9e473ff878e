"""Which hosts can't be reached from here, such as regional endpoints that a firewall blocks. Pure: time is passed in.

A host that has answered once is never held to be unreachable: what happens to it later is an ordinary broken connection.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Reachability"]

_FIRST_PAUSE: Final = 60.0
_FACTOR: Final = 4.0
_LONGEST_PAUSE: Final = 3600.0
_MOST_HOSTS: Final = 10_000  # S3 has one for each bucket


class Reachability:
    """What is known of each host. Times are monotonic seconds. Thread-safe: each method is one dictionary operation."""

    __slots__ = ("_reached", "_unreachable")

    def __init__(self) -> None:
        self._reached: dict[str, None] = {}
        self._unreachable: dict[str, tuple[float, float]] = {}  # host → (until, pause)

    def reached(self, host: str) -> None:
        """A host answered."""
        if host not in self._reached:
            if len(self._reached) >= _MOST_HOSTS:
                self._reached.clear()
            self._reached[host] = None
            self._unreachable.pop(host, None)

    def missed(self, host: str, now: float) -> bool:
        """A connection to a host was not answered, or its name is not known. True: it is held to be unreachable from now on."""
        if host in self._reached:
            return False
        _, pause = self._unreachable.get(host, (0.0, _FIRST_PAUSE / _FACTOR))
        pause = min(_LONGEST_PAUSE, pause * _FACTOR)
        self._unreachable[host] = (now + pause, pause)
        return True

    def is_unreachable(self, host: str, now: float) -> bool:
        """Whether a call to a host should not even try; after the pause one may."""
        until, _ = self._unreachable.get(host, (0.0, 0.0))
        return now < until

    def forget(self) -> None:
        """Know nothing again."""
        self._reached.clear()
        self._unreachable.clear()
