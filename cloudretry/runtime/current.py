"""The call that a thread or task is at work on: an SDK does not tell its transport whose request it sends.

A call may contain others: signing it may need credentials, whose client is hooked too. So whoever sets this puts back later
what was there.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from cloudretry.core.machine import RetryMachine
    from cloudretry.runtime.engine import Engine

__all__ = ["CURRENT", "Current"]


class Current(NamedTuple):
    """A call, and the engine that drives it."""

    engine: Engine
    machine: RetryMachine


CURRENT: Final[ContextVar[Current | None]] = ContextVar("cloudretry_call", default=None)
