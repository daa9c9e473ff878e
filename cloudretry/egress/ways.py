"""The ways of one client: for each member that it uses, an SDK session of its own, made when first needed.

A way that nobody used for long is closed. A forked child begins without any: its parent's connections are not its own.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import Member

__all__ = ["IDLE", "Way", "Ways"]

IDLE: Final = 300.0
"""Seconds after which an unused way is closed."""


class Way(Protocol):
    """What is kept here."""

    def close(self) -> Any:
        """Close the connections that nobody uses now."""

    def is_usable(self) -> bool:
        """False: make another one, this one's event loop is gone."""

    def is_busy(self) -> bool:
        """Whether somebody is sending through it, or reading an answer, and closing it would cut that off."""


W = TypeVar("W", bound=Way)


class Ways(Generic[W]):
    """Thread-safe.

    Args:
        make: a way for this member. Raises ConfigurationError for one that can't be.
    """

    def __init__(self, make: Callable[[Member], W]) -> None:
        self._make = make
        self._begin()
        _every.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._ways: dict[Hashable, W] = {}
        self._used: dict[Hashable, float] = {}
        self._look_again = 0.0

    def of(self, member: Member, *edition: Hashable) -> W:
        """The way of this member. Another `edition` is made anew, with the references of now; who uses the other may end."""
        key = (member.url, member.connect_to, *edition)
        now = current_clock().monotonic()
        self._used[key] = now
        way = self._ways.get(key)
        if way is None or not way.is_usable():
            way = self._made(key, member)
        if now >= self._look_again:
            self._drop_idle(now)
        return way

    def close(self) -> None:
        """Close all."""
        for key in list(self._ways):
            self._drop(key)

    def _made(self, key: Hashable, member: Member) -> W:
        with self._lock:
            way = self._ways.get(key)
            if way is None or not way.is_usable():
                way = self._ways[key] = self._make(member)
            return way

    def _drop_idle(self, now: float) -> None:
        with self._lock:
            self._look_again = now + IDLE / 5
            idle = [key for key, used in list(self._used.items()) if used <= now - IDLE]
        for key in idle:
            way = self._ways.get(key)
            if way is None or not way.is_busy():
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        with self._lock:
            way = self._ways.pop(key, None)
            self._used.pop(key, None)
        if way is not None:
            way.close()

    def __len__(self) -> int:
        return len(self._ways)


_every: Final[weakref.WeakSet[Ways[Any]]] = weakref.WeakSet()


def _in_the_child() -> None:
    for ways in list(_every):
        ways._begin()  # noqa: SLF001 - of this file


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_the_child)
