"""The trials of one member that is not eligible: who holds one of the few places, and for how long (SPEC B3). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import Probe

__all__ = ["Trials"]


class Trials:
    """Leases by their owner's number. An expired one counts until another owner takes its place."""

    __slots__ = ("_expiries",)

    def __init__(self) -> None:
        self._expiries: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._expiries)

    def free_at(self, now: float, probe: Probe) -> float:
        """When a place is free; `now`: at once."""
        crowd = len(self._expiries) - probe.concurrency
        return now if crowd < 0 else max(now, sorted(self._expiries.values())[crowd])

    def take(self, owner: int, now: float, probe: Probe) -> None:
        """Take a place that is free at `now`."""
        surplus = max(0, len(self._expiries) - probe.concurrency + 1)
        for other in sorted(self._expiries, key=self._expiries.__getitem__)[:surplus]:
            del self._expiries[other]
        self._expiries[owner] = now + probe.lease

    def give_back(self, owner: int) -> None:
        """The owner's trial has ended, well or not; nothing happens if its place was lost."""
        self._expiries.pop(owner, None)

    def forget(self) -> None:
        """All places are free: their owners live in another process."""
        self._expiries.clear()
