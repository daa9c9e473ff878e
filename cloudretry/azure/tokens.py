"""Tokens that were fetched, and whose turn it is to fetch the next. Knows nothing of credentials: what fetches is passed in.

At any moment one thread, or on each event loop one task, fetches a token of one kind, and the others take what it gets:
the token, or a copy of its error. A failure is forgotten by then: who comes later tries anew. Whoever is cancelled while it
fetches makes room for the next. A token that should be renewed but is still good is given out until a new one is there.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
import weakref
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

__all__ = ["Key", "LoopLocks", "Seat", "Tokens", "tokens_of"]

logger = logging.getLogger("cloudretry")

Key: TypeAlias = "tuple[Hashable, ...]"

_AHEAD: Final = 300.0  # azure-core renews a token that says nothing of its own in its last 5 minutes
_BETWEEN: Final = 30.0  # azure-identity asks no sooner again for a token that is still good


@dataclass(frozen=True, slots=True)
class _Kept:
    """A token with two moments of the wall clock: when it ends, and when to try to renew it."""

    token: Any = field(repr=False)
    expires: float
    due: float

    @classmethod
    def of(cls, token: Any, now: float) -> _Kept | None:
        """None for what can't be kept: a token that has ended, or a thing that is none."""
        expires, refresh = getattr(token, "expires_on", None), getattr(token, "refresh_on", None)
        if not isinstance(expires, (int, float)) or not now < expires:
            return None
        due = refresh if isinstance(refresh, (int, float)) and refresh else expires - _AHEAD
        return cls(token, expires, min(max(due, now + _BETWEEN), expires))


class LoopLocks:
    """One lock for each event loop, of asyncio or trio: a lock of the one is of no use to the other."""

    def __init__(self) -> None:
        self._locks: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def here(self) -> Any:
        """The lock of the loop that runs now."""
        loop, new = _running()
        lock = self._locks.get(loop)
        if lock is None:
            lock = self._locks[loop] = new()
        return lock


def _running() -> tuple[Any, Callable[[], Any]]:
    import asyncio  # a synchronous program never needs it, and it is slow to import

    try:
        return asyncio.get_running_loop(), asyncio.Lock
    except RuntimeError:
        if "trio" not in sys.modules:
            raise
        import trio

        return trio.lowlevel.current_trio_token(), trio.Lock


class Seat:
    """One kind of token: the one that is kept, and the turn to fetch another. Thread-safe."""

    __slots__ = ("_ended", "_failure", "_kept", "_lock", "_locks")

    def __init__(self) -> None:
        self._kept: _Kept | None = None
        self._failure: Exception | None = None
        self._ended = 0  # how many fetches have ended, by a token or an error
        self._lock = Lock()
        self._locks = LoopLocks()

    def get(self, fetch: Callable[[bool], Any]) -> Any:
        """The token that is kept, or what `fetch` gives. Raises what it raises, unless a good token is there.

        `fetch` is told whether the token is urgent, or only to be renewed ahead of its end.
        """
        ended, kept, now = self._ended, self._kept, current_clock().wall()  # in this order: a fetch may end meanwhile
        if kept is not None and now < kept.due:
            return kept.token
        if kept is None or now >= kept.expires:
            self._lock.acquire()
        elif not self._lock.acquire(blocking=False):
            return kept.token
        try:
            heard = self._heard_since(ended)
            if heard is not None:
                return heard.token
            try:
                return self.keep(fetch(not self._is_good()))
            except Exception as error:  # noqa: BLE001 - raised again, for those who wait too
                return self._failed(error)
        finally:
            self._lock.release()

    async def get_async(self, fetch: Callable[[bool], Awaitable[Any]]) -> Any:
        """The async twin."""
        ended, kept, now = self._ended, self._kept, current_clock().wall()
        if kept is not None and now < kept.due:
            return kept.token
        lock = self._locks.here()
        if kept is not None and now < kept.expires and lock.locked():
            return kept.token
        async with lock:
            heard = self._heard_since(ended)
            if heard is not None:
                return heard.token
            try:
                return self.keep(await fetch(not self._is_good()))
            except Exception as error:  # noqa: BLE001 - raised again, for those who wait too
                return self._failed(error)

    def keep(self, token: Any) -> Any:
        """Give out this one from now on, as long as it is good; returns it."""
        self._kept, self._failure = _Kept.of(token, current_clock().wall()), None
        self._ended += 1
        return token

    def fresh_lock(self) -> None:
        """For a forked child, which has no thread that could give the old one back."""
        self._lock = Lock()

    def _is_good(self) -> bool:
        return self._kept is not None and current_clock().wall() < self._kept.expires

    def _heard_since(self, ended: int) -> _Kept | None:
        """What a fetch that ended while we waited came to. Raises its error."""
        if self._ended == ended:
            return None
        if self._failure is not None:
            raise _own_copy(self._failure)
        return self._kept

    def _failed(self, error: Exception) -> Any:
        """The token that is still good, or the error."""
        kept = self._kept
        if kept is None or not self._is_good():
            self._failure = _own_copy(error)  # without the frames of those who tried
            self._ended += 1
            raise error
        logger.warning("a token could not be renewed ahead of its end, and is used on: %s", type(error).__name__)
        self._kept = replace(kept, due=min(current_clock().wall() + _BETWEEN, kept.expires))
        self._ended += 1
        return kept.token


class Tokens:
    """The seats of one credential. Shows and pickles nothing of what it keeps."""

    def __init__(self) -> None:
        self._seats: dict[Key, Seat] = {}
        _ALL.add(self)

    def seat(self, key: Key) -> Seat:
        """The seat for one kind of token."""
        return self._seats.get(key) or self._seats.setdefault(key, Seat())

    def drop(self, key: Key) -> None:
        """Forget one kind; who waits for it still gets it."""
        self._seats.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._seats.clear()

    def fresh_locks(self) -> None:
        """For a forked child; the tokens stay."""
        for seat in list(self._seats.values()):
            seat.fresh_lock()

    def __reduce__(self) -> tuple[type[Tokens], tuple[()]]:
        return Tokens, ()


def tokens_of(credential: object) -> Tokens:
    """What is kept for a credential, the same for everybody who asks, as long as the credential lives."""
    with _finding:
        tokens = _by_credential.get(id(credential))
        if tokens is None:
            tokens = Tokens()
            try:
                weakref.finalize(credential, _by_credential.pop, id(credential), None).atexit = False
            except TypeError:  # with slots it can't be watched, so nobody would know when its id means another
                return tokens
            _by_credential[id(credential)] = tokens
        return tokens


def _own_copy(error: Exception) -> Exception:
    """An error for one more thread to raise: each adds its frames and its context."""
    try:
        twin = copy.copy(error)
    except Exception:  # noqa: BLE001 - a class whose constructor takes something else
        return error
    if type(twin) is not type(error):
        return error
    twin.__cause__ = error.__cause__
    return twin


_ALL: Final[weakref.WeakSet[Tokens]] = weakref.WeakSet()
_by_credential: Final[dict[int, Tokens]] = {}
_finding = Lock()


def _after_fork() -> None:
    global _finding  # noqa: PLW0603 - as above: the child's own
    _finding = Lock()
    for tokens in list(_ALL):
        tokens.fresh_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
