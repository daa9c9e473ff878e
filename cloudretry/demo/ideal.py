"""What the limits of a simulated cloud allow at best, and what was learned of them. Pure: counts and limits are passed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from cloudretry.core.rate import Learning

if TYPE_CHECKING:
    from cloudretry.core.pacer import PacerState
    from cloudretry.core.quota import Quota
    from cloudretry.simcloud import Limit

__all__ = ["Bucket", "Meter", "Metered", "about_limits", "buckets", "limits_table"]

_SHOWN: Final = 6


class Meter(NamedTuple):
    """A bucket of the simulated cloud. `window`: its tokens come back all at once, every `burst / refill` seconds."""

    name: str
    limit: Limit
    window: bool = False


class Metered(NamedTuple):
    """Calls that were accepted, the quota under which pacing has them, but for its host, and what meters them."""

    calls: int
    quota: Quota
    meters: Sequence[Meter]


@dataclass(slots=True)
class Bucket:
    """What a meter counted. `learned`: calls per second that were measured; by several quotas, where pacing has several."""

    meter: Meter
    calls: int = 0
    learned: list[float] = field(default_factory=list)

    @property
    def ideal(self) -> float:
        """Seconds from the first call to the last, however they are sent."""
        burst, refill = self.meter.limit.burst, self.meter.limit.refill
        if self.calls <= burst:
            return 0.0
        return (ceil(self.calls / burst) - 1) * burst / refill if self.meter.window else (self.calls - burst) / refill


def buckets(metered: Sequence[Metered], states: Mapping[Quota, PacerState]) -> list[Bucket]:
    """The tightest first. What was learned of a quota belongs to the tightest of its meters."""
    found: dict[Meter, Bucket] = {}
    passed: dict[Quota, set[Meter]] = {}
    for calls, quota, meters in metered:
        passed.setdefault(quota, set()).update(meters)
        for meter in meters:
            found.setdefault(meter, Bucket(meter)).calls += calls
    for quota, state in states.items():
        meters_passed = passed.get(replace(quota, host=""))
        if meters_passed and state.limit and state.verified and state.learning is Learning.TRACK:
            max((found[meter] for meter in meters_passed), key=lambda bucket: bucket.ideal).learned.append(state.limit.rate)
    return sorted(found.values(), key=lambda bucket: -bucket.ideal)


def limits_table(found: Iterable[Bucket]) -> list[tuple[str, ...]]:
    """Rows of text, the first one the head: the limits that were felt; nothing where none was."""
    felt = [bucket for bucket in found if bucket.ideal]
    if not felt:
        return []
    return [
        ("limits that were felt", "calls", "at best", "calls/s granted", "calls/s learned"),
        *(
            (
                bucket.meter.name,
                str(bucket.calls),
                f"{bucket.ideal:.1f} s",
                f"{bucket.meter.limit.refill:.3g}",
                _told(bucket.learned),
            )
            for bucket in felt[:_SHOWN]
        ),
    ]


def _told(rates: Sequence[float]) -> str:
    """Quotas that share a meter without knowing it have each learned what was left by the others, at different times."""
    if len(rates) > 1:
        return f"{min(rates):.3g} to {max(rates):.3g}, {len(rates)} shares"
    return f"{rates[0]:.3g}" if rates else "-"


def about_limits(name: str, seconds: float, found: Sequence[Bucket]) -> list[str]:
    """How near a run came to the shortest time that all limits allow; nothing where they were not felt."""
    ideal = found[0].ideal if found else 0.0
    if not ideal:
        return []
    return [f"These limits allow it in {ideal:.1f} s at best; {name} needed {seconds / ideal:.2f} times that."]
