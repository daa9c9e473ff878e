"""What a user's getDelay() is told: a frozen value of plain facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from cloudretry.core.backoff import exponential_delay
from cloudretry.core.headers import NO_HEADERS, Headers
from cloudretry.core.settings import RetrySettings

__all__ = ["BackoffContext"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffContext:
    """One throttled attempt, as a plugin sees it.

    Args:
        retry_number: 1 before the first retry, and so on.
        headers: the response's headers, case-insensitive; empty where there was no response.
        exception: the SDK's own exception where there was no response.
        elapsed_ms: milliseconds since the call began.
        previous_delays_ms: milliseconds waited before each earlier retry of this call.
        wall: the wall clock when the attempt ended (seconds since the epoch), for headers that name a moment.
        random: draws that belong in a test's seed come from here.
    """

    provider: str = "aws"
    service: str = ""
    operation: str = ""
    region: str | None = None
    account: str | None = None
    retry_number: int = 1
    max_retries: int = 8
    status: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    headers: Headers = NO_HEADERS
    exception: BaseException | None = None
    elapsed_ms: float = 0.0
    previous_delays_ms: tuple[float, ...] = ()
    wall: float = 0.0
    settings: RetrySettings = field(default_factory=RetrySettings)
    random: Random = field(default_factory=Random)

    def exponential_ms(self) -> float:
        """A draw of what exponential backoff would wait, for a plugin that has nothing better to say this time."""
        delay = exponential_delay(
            self.retry_number,
            base=self.settings.base_delay,
            cap=self.settings.max_delay,
            window=self.settings.additional_delay_window,
            rng=self.random,
        )
        return delay * 1000.0
