"""How many calls a provider still grants, by the headers of its answers. Nothing here raises, whatever a server sends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from cloudretry.core.headers import Headers, HeaderSource, Unit, asked_delay
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["remaining_of"]

_OF_THE_PROVIDER: Final = "x-ms-ratelimit-remaining-resource"
_USERS: Final = "x-ms-user-quota-remaining"
_USERS_RESET: Final = HeaderSource("x-ms-user-quota-resets-after", Unit.CLOCK)
_SCOPES: Final = ("subscription", "subscription-global", "tenant", "tenant-global")
_KINDS: Final = {"GET": "reads", "HEAD": "reads", "DELETE": "deletes"}
_OTHERS: Final = (
    "x-ms-ratelimit-remaining-subscription-resource-requests",
    "x-ms-ratelimit-remaining-subscription-resource-entities-read",
    "x-ms-ratelimit-remaining-tenant-resource-requests",
    "x-ms-ratelimit-remaining-tenant-resource-entities-read",
)
_NAMES: Final = {
    kind: (*(f"x-ms-ratelimit-remaining-{scope}-{kind}" for scope in _SCOPES), *_OTHERS)
    for kind in ("reads", "writes", "deletes")
}
_NUMBER: Final = re.compile(r"(?:^|;)\s*(\d{1,9})\s*(?:,|$)", re.ASCII)
"""A plain number, or what comes after a name: `Microsoft.Compute/HighCostGet3Min;46,Microsoft.Compute/HighCostGet30Min;300`."""


def remaining_of(method: str, headers: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """(calls left, seconds until there are more); None for what the answer doesn't tell.

    Behind Resource Manager's front door a provider may have a stricter limit of its own, which then counts. Of several numbers
    the smallest does.
    """
    of_user = _smallest(headers.get(_USERS))
    if of_user is not None:
        return of_user, asked_delay((_USERS_RESET,), Headers(headers), error_text=None, wall=current_clock().wall())
    of_provider = _smallest(headers.get(_OF_THE_PROVIDER))
    if of_provider is not None:
        return of_provider, None
    known = (_smallest(headers.get(name)) for name in _NAMES[_KINDS.get(method, "writes")])
    return min((number for number in known if number is not None), default=None), None


def _smallest(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    return min(map(float, _NUMBER.findall(value)), default=None)
