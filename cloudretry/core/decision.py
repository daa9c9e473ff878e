"""What happens after an attempt: Retry or Stop, with the reason; Ask while a user's strategy has to be heard first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cloudretry.core.context import BackoffContext

__all__ = ["EXHAUSTED", "Ask", "Decision", "Retry", "RetryReason", "Source", "Stop", "StopReason"]


class RetryReason(str, Enum):
    """Why a call goes out again."""

    THROTTLED = "throttled"
    TRANSIENT = "transient"
    NOT_SENT = "not_sent"


class StopReason(str, Enum):
    """Why a call does not go out again."""

    ANSWERED = "answered"
    NOT_RETRYABLE = "not_retryable"  # the same request would fail again
    NOT_REPLAYABLE = "not_replayable"  # the server may have acted on it, and it must not act twice
    BODY_NOT_REWINDABLE = "body_not_rewindable"
    MAX_RETRIES = "max_retries"
    TRANSIENT_RETRIES = "transient_retries"
    TIME_BUDGET = "time_budget"
    MAX_HEADER_DELAY = "max_header_delay"  # the provider wants a longer pause than we may make
    UNREACHABLE = "unreachable"  # nobody answered at the host: a blocked or dead region
    POOL_EXHAUSTED = "pool_exhausted"  # every member of the egress pool was tried in vain
    POOL_RETRIES = "pool_retries"  # as many members as one call may try were tried in vain
    POOL_UNAVAILABLE = "pool_unavailable"  # no member could be had
    QUEUE_TIMEOUT = "queue_timeout"  # its turn would have come too late
    PLUGIN = "plugin"  # getDelay() said so
    SDK = "sdk"  # observe mode: the SDK's own retry decided
    CANCELLED = "cancelled"  # the program ended the call, for example by Ctrl-C


EXHAUSTED: Final = frozenset({StopReason.MAX_RETRIES, StopReason.TRANSIENT_RETRIES, StopReason.TIME_BUDGET})
"""The call was sent again as often, or for as long, as it may be."""


class Source(str, Enum):
    """Where the length of a wait comes from."""

    EXPONENTIAL = "exponential"
    RESPONSE_HEADER = "response_header"
    PLUGIN = "plugin"
    FALLBACK = "fallback"  # exponential, because the header or the plugin gave nothing usable


@dataclass(frozen=True, slots=True)
class Retry:
    """Send the call again after `delay` seconds."""

    delay: float
    reason: RetryReason
    source: Source


@dataclass(frozen=True, slots=True)
class Stop:
    """Give the caller what the last attempt came to. `retry_after`: seconds that the provider asked for, if it did."""

    reason: StopReason
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A user's strategy decides: call its getDelay() with `context` and hand the reply to `RetryMachine.answer`."""

    context: BackoffContext


Decision = Retry | Stop
