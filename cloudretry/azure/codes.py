"""Which Azure answers say "too much, too fast": one table, to be read and corrected by someone who knows Azure.

Sources: the throttling pages of Azure's documentation for Resource Manager, Compute, Network, Storage and Resource Graph;
public captures for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cloudretry.core.outcome import Kind

__all__ = ["is_lock_conflict", "kind_of", "telling"]

LOCK_CONFLICTS: Final = frozenset({"RetryableErrorDueToAnotherOperation"})
"""Network: refused with 429 because somebody else is writing. Nothing was done, and waiting helps, but it is no rate."""

LOOKS_LIKE_A_THROTTLE: Final = re.compile(
    r"throttl|too_?many_?(requests|calls)|rate_?limit|request_?rate|too_?high_?read|server_?busy", re.IGNORECASE
)
"""TooManyRequests, SubscriptionRequestsThrottled, RateLimiting, RetryableErrorDueToTooManyCalls, ServerBusy …"""

LOOKS_LIKE_A_QUOTA: Final = re.compile(r"quota_?(exceeded|limit|reached)|insufficient_?quota", re.IGNORECASE)
"""Used up for a day or until somebody pays: waiting does not help, unless the answer says how long."""

TOO_MANY_REQUESTS: Final = 429
UNAVAILABLE: Final = 503
TRANSIENT_STATUSES: Final = frozenset({408, 500, 502, 503, 504})


def is_lock_conflict(code: str | None) -> bool:
    """Whether an answer means another writer's lock: retried like a throttle, but no reason for anybody to go slower."""
    return code in LOCK_CONFLICTS


def telling(codes: Iterable[str]) -> str | None:
    """The code that tells most; providers hide it beneath ones that say little, such as Compute's OperationNotAllowed."""
    known = tuple(codes)
    judges = (is_lock_conflict, LOOKS_LIKE_A_QUOTA.search, LOOKS_LIKE_A_THROTTLE.search)
    return next((code for judge in judges for code in known if judge(code)), known[0] if known else None)


def kind_of(status: int, code: str | None, *, asked: bool, foreign: bool) -> Kind:
    """What an error answer comes to.

    Args:
        status: 400 or above.
        code: the telling one.
        asked: the answer says how long to wait.
        foreign: the answer is a page that did not come from Azure, but from a proxy on the way.
    """
    refused = status == TOO_MANY_REQUESTS or (status == UNAVAILABLE and asked) or _is_throttle(code)
    if foreign:
        return Kind.TRANSIENT if refused or status in TRANSIENT_STATUSES else Kind.FATAL
    if refused:
        hopeless = code is not None and LOOKS_LIKE_A_QUOTA.search(code) is not None and not asked
        return Kind.FATAL if hopeless else Kind.THROTTLED
    return Kind.TRANSIENT if status in TRANSIENT_STATUSES else Kind.FATAL


def _is_throttle(code: str | None) -> bool:
    return code is not None and LOOKS_LIKE_A_THROTTLE.search(code) is not None
