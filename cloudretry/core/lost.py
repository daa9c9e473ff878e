"""What was asked for and not answered: the records of the ledger. Plain data that survives JSON and pickle."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from cloudretry.core.call import spelled
from cloudretry.core.history import moment, one_line, printable, words
from cloudretry.errors import PoolUnavailable

if TYPE_CHECKING:
    from cloudretry.core.events import CallEnded

__all__ = ["FIRST", "LostCall", "Page"]

_LONGEST_TOKEN: Final = 4096  # characters; what is longer is data, and would fill the ledger


@dataclass(frozen=True, slots=True)
class Page:
    """Which page of a listing a call asks for.

    Args:
        number: from 1; None where the listing was not begun in this process.
        token: what leads to it, as the program passed it; None for the first. It may hold parameters, so nothing shows it.
        follows: an answer of this process led to it, and nobody had gone there yet.
        leads_on: its answer leads to a next page.
        listing: what tells the listing, where one of its pages was lost just before it was begun, or this one is lost.
    """

    number: int | None
    token: str | None = field(default=None, repr=False)
    follows: bool = field(default=False, compare=False)
    leads_on: bool = field(default=False, compare=False)
    listing: Hashable | None = field(default=None, compare=False, repr=False)


FIRST: Final = Page(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCall:
    """A call that was given up or cut short. `str()` of it is one line, to be searched for and handed to the provider.

    Args:
        account: the account or subscription; where it is not known, `principal` may name who called.
        page: the page of a listing that it asked for, from 1; None: of none, or that is not known.
        token: what leads to that page, as the program passed it; None for the first, and where it has over 4096 characters.
            It may hold parameters, so it is in no line and no log.
        waited: seconds between the attempts.
        status: of the last answer, as `code` and `request_id` are.
        reason: a value of StopReason.
        retry_at: until when (UTC) the provider wants us to wait, where its last answer said so.
        at: when (UTC) the call ended.
        rule: the setting that decided, with its value and where it was written.
    """

    provider: str
    service: str
    operation: str
    account: str | None
    principal: str | None
    region: str | None
    page: int | None
    token: str | None = field(repr=False)
    attempts: int
    waited: float
    status: int | None
    code: str | None
    reason: str
    request_id: str | None
    retry_at: datetime | None
    at: datetime | None
    rule: str | None = None

    @classmethod
    def of(cls, ended: CallEnded, *, page: Page | None = None, at: float | None = None, rule: str | None = None) -> LostCall:
        """The record of a call that ended so. `at`: epoch seconds."""
        call, outcome = ended.call, ended.outcome
        token = page.token if page else None
        return cls(
            provider=call.provider,
            service=call.service,
            operation=call.operation,
            account=call.account,
            principal=call.principal,
            region=call.region,
            page=page.number if page else None,
            token=token if token is None or len(token) <= _LONGEST_TOKEN else None,
            attempts=ended.attempts,
            waited=ended.waited,
            status=outcome.status if outcome else None,
            code=printable(outcome.code) if outcome and outcome.code else None,
            reason=ended.stop.reason.value,
            request_id=printable(outcome.request_id) if outcome and outcome.request_id else None,
            retry_at=_retry_at(ended),
            at=None if at is None else moment(at),
            rule=rule,
        )

    @property
    def call(self) -> str:
        """`ec2:DescribeVpcs@111122223333/eu-west-1`."""
        return spelled(self.service, self.operation, self.account or self.principal, self.region)

    def __str__(self) -> str:
        """One line: the operation, attempts, wait, last answer, reason, request id; page, moment and rule where known."""
        line = one_line(
            self.call,
            attempts=self.attempts,
            waited=self.waited,
            status=self.status,
            code=self.code,
            reason=printable(self.reason),
            request_id=self.request_id,
        )
        more = {"page": self.page, "retry_at": _iso(self.retry_at), "rule": self.rule and words(self.rule)}
        return " ".join([line, *(f"{name}={value}" for name, value in more.items() if value is not None)])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, with the `line` as well; `from_dict` gives back an equal value."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**values, "retry_at": _iso(self.retry_at), "at": _iso(self.at), "line": str(self)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> LostCall:
        """Read what `to_dict` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        values = {item.name: raw[item.name] for item in fields(cls)}
        moments = {name: values[name] and datetime.fromisoformat(values[name]) for name in ("retry_at", "at")}
        return cls(**{**values, **moments})


def _retry_at(ended: CallEnded) -> datetime | None:
    outcome, after = ended.outcome, ended.stop.retry_after
    if outcome is None:
        return None
    if isinstance(outcome.exception, PoolUnavailable):
        return outcome.exception.retry_at
    return None if after is None else moment(outcome.wall + after)


def _iso(when: datetime | None) -> str | None:
    return when.isoformat(timespec="milliseconds") if when else None
