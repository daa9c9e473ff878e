"""The call that a thread is at work on: botocore does not tell its transport whose request it sends.

A call may contain others: signing it may need credentials, whose client is hooked too. So each remembers the one around it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cloudretry.core.machine import RetryMachine

__all__ = ["CURRENT"]

CURRENT: Final[ContextVar[RetryMachine | None]] = ContextVar("cloudretry", default=None)
