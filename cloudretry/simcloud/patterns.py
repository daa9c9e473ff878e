"""The patterns by which rules of faults and of Retry-After choose requests. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Protocol

__all__ = ["Request", "fits"]


class Request(Protocol):
    """A request to a simulated cloud, as far as rules look at it."""

    @property
    def place(self) -> tuple[str, str, str, str]:
        """By what it is counted: whose it is (two names), to which service, and for what."""

    def fits(self, pattern: str) -> bool:
        """Whether a rule with this pattern is for it."""


def fits(place: tuple[str, str, str, str], pattern: str) -> bool:
    """Whether `service:action@first/second` matches; patterns of fnmatch, and what is missing is any."""
    operation, _, where = pattern.partition("@")
    first, second = where.partition("/")[::2]
    service, action = operation.partition(":")[::2]
    parts = (first, second, service, action)
    return all(fnmatchcase(value, part or "*") for value, part in zip(place, parts, strict=True))
