"""The call that a thread or task is at work on: an SDK does not tell its transport whose request it sends.

A call may contain others: signing it may need credentials, whose client is hooked too. So each remembers the one around it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cloudretry.core.machine import RetryMachine

__all__ = ["CURRENT"]

CURRENT: Final[ContextVar[RetryMachine | None]] = ContextVar("cloudretry_call", default=None)
