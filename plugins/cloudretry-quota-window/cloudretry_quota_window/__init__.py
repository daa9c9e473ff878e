"""Waiting until the quota window opens, as a getDelay() plugin of cloudretry.

Keeps no state: one instance serves all threads. What a header may say is in opening.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from cloudretry_quota_window.opening import http_date, seconds_until_open

if TYPE_CHECKING:
    from cloudretry import BackoffContext

__all__ = ["QuotaWindow"]

_QUOTA_HEADERS: Final = ("x-ms-user-quota-resets-after", "Retry-After")
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, section 5.1
_IN_MILLISECONDS: Final = re.compile(r".*-ms|x-amz-retry-after", re.IGNORECASE)
_MOST_MS: Final = 1e12  # 31 years; a timedelta ends somewhere beyond


class QuotaWindow:
    """Waits until a header says that the window opens, plus uniform(0, jitter), so that workers don't return as a crowd.

    The first of the headers that can be read counts. Where none can, the wait is the exponential one of the call's own
    settings: min(max_delay, base_delay · m) + uniform(0, additional_delay_window), m uniform on [0, 2ⁿ - 1].

    Args:
        headers: names in order, or a single one.
        longest_wait_ms: a window that opens later than this ends the call at once. The jitter may come on top.
        jitter_ms: the longest jitter.

    Raises:
        TypeError: an option is of the wrong type.
        ValueError: no header, or one whose name can't be or that counts milliseconds; a number below 0 or beyond 31 years.
    """

    __slots__ = ("_headers", "_jitter_s", "_longest_wait_s")

    def __init__(
        self,
        *,
        headers: str | Sequence[str] = _QUOTA_HEADERS,
        longest_wait_ms: float = 300_000.0,
        jitter_ms: float = 1000.0,
    ) -> None:
        self._headers = _names(headers)
        self._longest_wait_s = _milliseconds("longest_wait_ms", longest_wait_ms) / 1000.0
        self._jitter_s = _milliseconds("jitter_ms", jitter_ms) / 1000.0

    def getDelay(self, context: BackoffContext) -> timedelta | None:  # noqa: N802 - the name is the contract
        """Time until the next attempt; None if the window opens too late to wait for it."""
        seconds = self._until_open(context)
        if seconds is None:
            return timedelta(milliseconds=context.exponential_ms())
        if seconds > self._longest_wait_s:
            return None
        return timedelta(seconds=seconds + context.random.uniform(0.0, self._jitter_s))

    def _until_open(self, context: BackoffContext) -> float | None:
        # The server's own Date, where there is one: a moment then means the same whatever this machine's clock says.
        sent = http_date(context.headers.get("Date", ""))
        now = context.wall if sent is None else sent
        texts = (context.headers.get(name, "") for name in self._headers)
        return next((seconds for text in texts if (seconds := seconds_until_open(text, now=now)) is not None), None)


def _names(headers: str | Sequence[str]) -> tuple[str, ...]:
    names = (headers,) if isinstance(headers, str) else tuple(headers)
    if not names:
        raise ValueError("headers must name at least one header")
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"headers must be names, not {type(name).__name__}")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} can't be the name of a header")
        if _IN_MILLISECONDS.fullmatch(name):
            raise ValueError(f"{name} counts milliseconds, which would be read as seconds")
    return names


def _milliseconds(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of milliseconds, not {type(value).__name__}")
    if not 0.0 <= value <= _MOST_MS:
        raise ValueError(f"{name} must be between 0 and {_MOST_MS:g}, not {value}")
    return float(value)
