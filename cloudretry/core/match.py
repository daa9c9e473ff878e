"""Patterns that tell for which calls something holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudretry.core.call import Call

__all__ = ["Match"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Shell patterns (`*`, `?`, `[…]`), case-sensitive except for the service; one that is left out matches everything."""

    service: str = "*"
    operation: str = "*"
    region: str = "*"
    account: str = "*"

    def matches(self, call: Call) -> bool:
        """Whether every pattern fits; an unknown region or account fits `*` alone."""
        return (
            fnmatchcase(call.service.lower(), self.service.lower())
            and fnmatchcase(call.operation, self.operation)
            and fnmatchcase(call.region or "", self.region)
            and fnmatchcase(call.account or "", self.account)
        )
