"""Calls one plugin and makes its reply trustworthy: whatever it does, the caller gets a usable reply and the call lives on."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from enum import Enum
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cloudretry.core.context import BackoffContext

__all__ = ["Plugin", "Reply", "Unusable", "get_delay_of"]

logger = logging.getLogger("cloudretry")

_PROBABLY_SECONDS_MS: Final = 10.0  # a reply of 2 most likely means two seconds; nobody backs off for two milliseconds


class Unusable(Enum):
    """The plugin gave nothing that can be waited for; fall back."""

    UNUSABLE = "unusable"


Reply = float | None | Unusable
"""Seconds to wait; None to stop; UNUSABLE to fall back."""


class Plugin:
    """One built plugin. Thread-safe as far as its getDelay() is. Each kind of misbehaviour is warned of once."""

    def __init__(self, name: str, distribution: str, get_delay: Callable[[BackoffContext], Any]) -> None:
        self.name = name
        self.distribution = distribution
        self._get_delay = get_delay
        self._warned: set[str] = set()

    @property
    def is_async(self) -> bool:
        """Whether getDelay() is an `async def`."""
        return inspect.iscoroutinefunction(self._get_delay)

    def ask(self, context: BackoffContext) -> Reply:
        """The reply for a call of a synchronous client."""
        try:
            reply = self._get_delay(context)
            if inspect.isawaitable(reply):
                _discard(reply)
                return self._unusable("is async, which needs an async client")
            return self._usable(reply)
        except Exception as error:  # noqa: BLE001 - a plugin's fault must never cost the user the response
            return self._unusable(f"raised {type(error).__name__}")

    async def ask_async(self, context: BackoffContext) -> Reply:
        """The reply for a call of an async client; a plain getDelay() works too and must not block."""
        try:
            reply = self._get_delay(context)
            if inspect.isawaitable(reply):
                reply = await reply
            return self._usable(reply)
        except Exception as error:  # noqa: BLE001 - a plugin's fault must never cost the user the response
            return self._unusable(f"raised {type(error).__name__}")

    def _usable(self, reply: object) -> Reply:
        if reply is None:
            return None
        milliseconds = _milliseconds(reply)
        if milliseconds is None:
            return self._unusable(f"returned {_described(reply)}")
        if milliseconds < 0:
            return None
        if 0 < milliseconds < _PROBABLY_SECONDS_MS and not isinstance(reply, timedelta):
            self._warn(f"returned {milliseconds:g}, which is taken as milliseconds; did it mean seconds?", kind="seconds")
        return milliseconds / 1000.0

    def _unusable(self, what: str) -> Unusable:
        self._warn(f"{what}; falling back to exponential backoff", kind=what)
        return Unusable.UNUSABLE

    def _warn(self, what: str, *, kind: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            logger.warning("getDelay() of plugin %r (from %s) %s", self.name, self.distribution, what)


def get_delay_of(strategy: object) -> Callable[[BackoffContext], Any] | None:
    """The getDelay() of a strategy, or its get_delay(); None if it has neither."""
    method = getattr(strategy, "getDelay", None) or getattr(strategy, "get_delay", None)
    return method if callable(method) else None


def _milliseconds(reply: object) -> float | None:
    """A finite number of milliseconds (negative ones too), or None."""
    if isinstance(reply, bool) or not isinstance(reply, Real | timedelta):
        return None
    try:
        number = reply.total_seconds() * 1000.0 if isinstance(reply, timedelta) else float(reply)
    except Exception:  # noqa: BLE001 - a huge int, or a number class of somebody's own making
        return None
    return number if math.isfinite(number) else None


def _described(reply: object) -> str:
    """The kind of a reply; never its text, which is the plugin's and may hold anything."""
    return repr(reply) if isinstance(reply, float) else f"a value of type {type(reply).__name__}"


def _discard(reply: Awaitable[object]) -> None:
    close = getattr(reply, "close", None)
    if close is not None:
        close()  # a coroutine that is never awaited would warn
