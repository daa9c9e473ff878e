"""Durations as people write them, `"400ms"`, to seconds and back. Standard library alone."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import Final

__all__ = ["DURATION_PATTERN", "LONGEST", "read_duration", "read_milliseconds", "write_duration"]

LONGEST: Final = 86_400.0
"""No wait between two attempts is sensible beyond a day."""

DURATION_PATTERN: Final = r"^[0-9]{1,15}(\.[0-9]{1,15})?(ms|s|m|h)$"

_NANOSECONDS = 9  # digits
_WRITTEN = re.compile(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,15})?) ?(?P<unit>ms|s|m|h)", re.ASCII)
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


def read_duration(value: object) -> float:
    """Seconds in `"400ms"`, `"1.5s"`, `"5m"`, `"1h"` or a timedelta. Raises ValueError for anything else."""
    if isinstance(value, timedelta):
        return _bounded(value.total_seconds())
    written = _WRITTEN.fullmatch(value.strip()) if isinstance(value, str) else None
    if written is None:
        raise ValueError("not a duration")
    number = float(written["number"])
    # Division is rounded correctly where a product with 0.001 is not: 2300 ms are 2.3 s.
    return _bounded(number / 1000.0 if written["unit"] == "ms" else number * _SECONDS[written["unit"]])


def read_milliseconds(value: object) -> float:
    """Seconds in a number of milliseconds. Raises ValueError for anything else; True is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")  # noqa: TRY004 - the model reports ValueError
    return _bounded(min(value, LONGEST * 1000.0 + 1.0) / 1000.0)  # an integer may be too large for a float


def write_duration(seconds: float) -> str:
    """The shortest usual spelling that `read_duration` reads back to the same number."""
    if 0.0 < seconds < 1.0:
        text = f"{_decimal(seconds * 1000.0)}ms"
        return text if _reads_as(text, seconds) else f"{_decimal(seconds)}s"
    for unit in ("h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0.0:
            return f"{_decimal(seconds / _SECONDS[unit])}{unit}"
    return f"{_decimal(seconds)}s"


def _bounded(seconds: float) -> float:
    if not (math.isfinite(seconds) and 0.0 <= seconds <= LONGEST):
        raise ValueError("out of bounds")
    return round(seconds, _NANOSECONDS)  # so that every duration can be written and read back


def _decimal(number: float) -> str:
    """Without exponent and without a trailing `.0`."""
    text = format(Decimal(repr(number)), "f")
    return text.removesuffix(".0")


def _reads_as(text: str, seconds: float) -> bool:
    try:
        return read_duration(text) == seconds
    except ValueError:
        return False
