"""How many calls a provider still grants, by the headers of its answers. Nothing here raises, whatever a server sends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cloudretry.core.headers import Headers, HeaderSource, Unit, asked_delay
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Remaining", "remaining_of"]

_KINDS: Final = {"GET": "reads", "HEAD": "reads", "DELETE": "deletes"}
_NAMES: Final = {
    kind: (
        "x-ms-user-quota-remaining",  # Resource Graph's: for each user
        "x-ms-ratelimit-remaining-resource",  # behind the front door a provider may have a stricter limit of its own
        f"x-ms-ratelimit-remaining-subscription-{kind}",
        f"x-ms-ratelimit-remaining-tenant-{kind}",
        "x-ms-ratelimit-remaining-subscription-resource-requests",
        "x-ms-ratelimit-remaining-tenant-resource-requests",
    )
    for kind in ("reads", "writes", "deletes")
}
"""The first that an answer has counts. Those of all regions together, `-global-`, are too far off to matter."""
_RESET: Final = HeaderSource("x-ms-user-quota-resets-after", Unit.CLOCK)
_NUMBER: Final = re.compile(r"(?:^|[;,])\s*(\d{1,9})\s*(?=,|$)", re.ASCII)
"""A plain number, or what comes after a name: `Microsoft.Compute/HighCostGet3Min;46,Microsoft.Compute/HighCostGet30Min;300`."""


class Remaining(NamedTuple):
    """Calls left; seconds until the quota is full again, where it is not refilled all the time."""

    calls: float
    resets_after: float | None


def remaining_of(method: str, headers: Mapping[str, Any]) -> Remaining | None:
    """What an answer tells; of several windows the one with the least left counts."""
    names = _NAMES[_KINDS.get(method, "writes")]
    for name in names:
        value = headers.get(name)
        if value is None:
            continue
        numbers = _NUMBER.findall(value) if isinstance(value, str) else ()
        if numbers:
            return Remaining(min(map(float, numbers)), _reset(headers) if name is names[0] else None)
    return None


def _reset(headers: Mapping[str, Any]) -> float | None:
    return asked_delay((_RESET,), Headers(headers), error_text=None, wall=current_clock().wall())
