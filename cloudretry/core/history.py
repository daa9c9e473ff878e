"""What happened to a call that was given up: attempts, waits, why it ended. Plain data that survives JSON and pickle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from typing import Any

__all__ = ["Attempt", "History", "moment", "one_line", "printable", "words"]

_UNPRINTABLE = re.compile(r"[^!-~]")
_LONGEST_WORD = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt. `ended` is epoch seconds; `delay` the seconds waited after it and `source` where they came from."""

    number: int
    ended: float
    outcome: str
    phase: str
    status: int | None = None
    code: str | None = None
    request_id: str | None = None
    member: str | None = None
    delay: float | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What `cloudretry.history(error)` gives. `total_wait` is in seconds; `reason` is a value of StopReason.

    `retry_at` is the moment (UTC) until which the provider wants us to wait, where its last answer said so.
    """

    call: str
    attempts: tuple[Attempt, ...]
    total_wait: float
    reason: str
    retry_at: datetime | None = None

    def __str__(self) -> str:
        """One line, to be searched for and to be handed to the provider's support."""
        last = self.attempts[-1] if self.attempts else None
        return one_line(
            self.call,
            attempts=len(self.attempts),
            waited=self.total_wait,
            status=last.status if last else None,
            code=last.code if last else None,
            reason=self.reason,
            request_id=last.request_id if last else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` gives back an equal value."""
        attempts = [{name: value for name, value in asdict(item).items() if value is not None} for item in self.attempts]
        return {
            "call": self.call,
            "attempts": attempts,
            "total_wait": self.total_wait,
            "reason": self.reason,
            "retry_at": self.retry_at.isoformat() if self.retry_at else None,
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> History:
        """Read what `to_dict` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        known = {item.name for item in fields(Attempt)}
        attempts = tuple(Attempt(**{key: value for key, value in item.items() if key in known}) for item in raw["attempts"])
        retry_at = datetime.fromisoformat(raw["retry_at"]).astimezone(timezone.utc) if raw["retry_at"] else None
        return cls(
            call=raw["call"],
            attempts=attempts,
            total_wait=raw["total_wait"],
            reason=raw["reason"],
            retry_at=retry_at,
        )


def one_line(
    call: object,
    *,
    attempts: int,
    waited: float,
    status: int | None,
    code: str | None,
    reason: str,
    request_id: str | None,
) -> str:
    """`ec2:DescribeVpcs@111122223333/eu-west-1 attempts=9 waited=31.7s last=503 RequestLimitExceeded reason=… request_id=…`."""
    last = f"{status or '-'} {printable(code)}"
    return f"{call} attempts={attempts} waited={waited:.1f}s last={last} reason={reason} request_id={printable(request_id)}"


def moment(epoch: float) -> datetime | None:
    """A UTC datetime, or None where the provider names a moment beyond the calendar."""
    try:
        return datetime.fromtimestamp(epoch, timezone.utc)
    except (OverflowError, OSError, ValueError):
        return None


def printable(text: str | None) -> str:
    """What a server wrote, as one printable word: it must not forge lines of a log."""
    return _UNPRINTABLE.sub("?", text)[:_LONGEST_WORD] if text else "-"


def words(text: str) -> str:
    """The same for what is several words of ours, with single spaces between them."""
    return " ".join(map(printable, text.split()))
