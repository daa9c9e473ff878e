"""Reading how long a provider wants us to wait. Nothing here raises, whatever a server sends."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Final

__all__ = ["ERROR_TEXT", "KNOWN_UNITS", "NO_HEADERS", "HeaderSource", "Headers", "Unit", "asked_delay"]


class Unit(str, Enum):
    """How a header writes a duration; the values are the configuration's words."""

    MILLISECONDS = "milliseconds"
    SECONDS = "seconds"
    MINUTES = "minutes"
    CLOCK = "hh:mm:ss"


@dataclass(frozen=True, slots=True)
class HeaderSource:
    """A header to read a delay from. `name` is matched without regard to case."""

    name: str
    unit: Unit


ERROR_TEXT: Final = ":error-text"
"""Stands for the error text in a list of headers: "… after '17' seconds …". A colon can't begin a header's name."""

KNOWN_UNITS: Final[Mapping[str, Unit]] = {
    "retry-after": Unit.SECONDS,
    "retry-after-ms": Unit.MILLISECONDS,
    "x-ms-retry-after-ms": Unit.MILLISECONDS,
    "x-amz-retry-after": Unit.MILLISECONDS,
    "x-ms-user-quota-resets-after": Unit.CLOCK,
    "x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after": Unit.SECONDS,
    "x-ms-ratelimit-microsoft.costmanagement-entity-retry-after": Unit.SECONDS,
    "x-ms-ratelimit-microsoft.costmanagement-tenant-retry-after": Unit.SECONDS,
    "x-ms-ratelimit-microsoft.costmanagement-client-retry-after": Unit.SECONDS,
    "x-ms-ratelimit-microsoft.consumption-retry-after": Unit.SECONDS,
    ERROR_TEXT: Unit.SECONDS,
}
"""Headers that carry their own unit, whatever `response_header_delay_unit` says."""


class Headers(Mapping[str, str]):
    """An immutable, case-insensitive view of response headers; iteration gives lower-case names."""

    __slots__ = ("_items",)

    def __init__(self, headers: Mapping[str, object] | Iterable[tuple[str, object]] = ()) -> None:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        self._items: dict[str, str] = {}
        for name, value in pairs:
            key = str(name).lower()
            self._items[key] = f"{self._items[key]}, {value}" if key in self._items else str(value)

    def __getitem__(self, name: str) -> str:
        return self._items[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        """Names alone: a value may be a secret."""
        return f"Headers({sorted(self._items)})"


NO_HEADERS: Final = Headers()

_LONGEST_VALUE = 256  # a real value has under 80 characters; longer ones are not worth reading
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
_CLOCK = re.compile(r"(\d+):([0-5]?\d):([0-5]?\d(?:\.\d+)?)", re.ASCII)
_MERGED = re.compile(r",(?!\s*\d{1,2}[ -][A-Za-z]{3})")  # the comma inside "Wed, 21 Oct …" separates nothing
_IN_TEXT = re.compile(r"\b(?:after|in) '?(\d{1,9}(?:\.\d+)?)'? seconds", re.ASCII | re.IGNORECASE)
_SCALE: Final = {Unit.MILLISECONDS: 0.001, Unit.SECONDS: 1.0, Unit.MINUTES: 60.0}


def asked_delay(
    sources: Sequence[HeaderSource], headers: Mapping[str, str], *, error_text: str | None, wall: float
) -> float | None:
    """Seconds that the first readable source asks for, or None. `wall`: now, for HTTP dates without a `Date` beside them."""
    for source in sources:
        if source.name == ERROR_TEXT:
            found = _IN_TEXT.search(error_text[:4096]) if error_text else None
            delay = _finite(float(found[1])) if found else None
        else:
            delay = _read(headers, source, wall)
        if delay is not None:
            return delay
    return None


def _read(headers: Mapping[str, str], source: HeaderSource, wall: float) -> float | None:
    """Largest readable one of the values that were merged by commas."""
    value = headers.get(source.name)
    if not value or len(value) > _LONGEST_VALUE:
        return None
    sent_at = _sent_at(headers, wall)
    read = (_read_one(part.strip(), source.unit, sent_at) for part in _MERGED.split(value))
    return max((delay for delay in read if delay is not None), default=None)


def _read_one(text: str, unit: Unit, sent_at: float) -> float | None:
    if unit is Unit.CLOCK:
        clock = _CLOCK.fullmatch(text)
        return _finite(float(clock[1]) * 3600 + float(clock[2]) * 60 + float(clock[3])) if clock else None
    if _NUMBER.fullmatch(text):
        return _finite(float(text) * _SCALE[unit])
    moment = _http_date(text) if unit is Unit.SECONDS else None
    return None if moment is None else max(0.0, moment - sent_at)


def _sent_at(headers: Mapping[str, str], wall: float) -> float:
    moment = _http_date(headers.get("Date", ""))
    return wall if moment is None else moment


def _http_date(text: str) -> float | None:
    if not text or len(text) > _LONGEST_VALUE or not text[:1].isalpha():
        return None
    try:
        moment = parsedate_to_datetime(text)
        # A date without a zone, such as asctime's, is in GMT (RFC 9110 §5.6.7); Python would take the machine's own zone.
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
