"""Reads from a header's text when a quota window opens. Pure: the time is passed in. Nothing here raises, whatever is sent.

A text is a duration (seconds, or hh:mm:ss with days before it where .NET writes them: "1.00:05:30") or a moment (HTTP date,
ISO 8601 in its extended or basic spelling, or epoch seconds). A moment without a zone is UTC.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Final

__all__ = ["http_date", "seconds_until_open"]

_LONGEST_TEXT: Final = 200
_FIRST_EPOCH: Final = 1e9  # 2001 as a moment, 31 years as a duration: no quota window lasts that long

_NUMBER: Final = re.compile(r"\+?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_CLOCK: Final = re.compile(r"(?:([0-9]+)\.)?([0-9]+):([0-5]?[0-9]):([0-5]?[0-9](?:\.[0-9]+)?)")
_ISO: Final = re.compile(
    r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})[Tt ]([0-9]{2}):?([0-9]{2})(?::?([0-9]{2})(?:[.,]([0-9]+))?)?"
    r" ?([Zz]|([+-])([0-9]{2}):?([0-9]{2})?)?"
)
_BETWEEN_VALUES: Final = re.compile(r"(?<!day|Mon|Tue|Wed|Thu|Fri|Sat|Sun),")  # the comma in "Thu, 01 Jan" is no such


def seconds_until_open(text: str, *, now: float) -> float | None:
    """Seconds from `now` (epoch seconds) until the window opens; 0 where it is open, None where the text can't be read.

    A header that was sent several times arrives as one text with commas: the latest opening counts.
    """
    if len(text) > _LONGEST_TEXT:
        return None
    read = [_one(part.strip(), now) for part in _BETWEEN_VALUES.split(text)]
    return max((seconds for seconds in read if seconds is not None), default=None)


def http_date(text: str) -> float | None:
    """An HTTP date, in any of its three spellings, as epoch seconds."""
    if len(text) > _LONGEST_TEXT or not text[:1].isalpha():
        return None  # the standard library's parser takes nearly anything for a date
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return _epoch(moment)


def _one(text: str, now: float) -> float | None:
    if number := _NUMBER.fullmatch(text):
        seconds = float(number[1])
        return seconds if seconds < _FIRST_EPOCH else max(0.0, seconds - now)
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    moment = _iso(text)
    moment = http_date(text) if moment is None else moment
    return None if moment is None else max(0.0, moment - now)


def _iso(text: str) -> float | None:
    """By hand: Python 3.10 reads neither "Z" nor the seven decimals that .NET writes."""
    found = _ISO.fullmatch(text)
    if not found:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    ahead = timedelta(hours=int(found[10] or 0), minutes=int(found[11] or 0))
    try:
        zone = timezone(-ahead if found[9] == "-" else ahead)
        whole = _epoch(datetime(year, month, day, hour, minute, second, tzinfo=zone))
    except (ValueError, OverflowError):
        return None
    return None if whole is None else whole + float(f"0.{found[7] or 0}")


def _epoch(moment: datetime) -> float | None:
    """Epoch seconds, by the difference: `timestamp()` asks the platform, which may know fewer years than the calendar."""
    try:
        aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return (aware - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds()
    except (ValueError, OverflowError):
        return None
