"""What of an inventory may be believed: a CMDB must not retire what was merely not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloudretry.report.report import OperationReport

__all__ = ["Completeness", "completeness"]

Completeness: TypeAlias = Literal["complete", "partial", "denied"]


def completeness(
    counts: Iterable[tuple[str | None, str | None, str, OperationReport]], *, finished: bool = True
) -> dict[str, dict[str, dict[str, Completeness]]]:
    """Account → region → `service:Operation` → whether all that was asked was answered; `-` where it is not known.

    `partial`: some calls were lost or refused, but for those about what is not there, or a body broke off while it was being
    read, or a listing was not read to its end, or no call has ended yet. `denied`: all were denied. What was never asked is not
    in it.

    Args:
        counts: account, region, `service:Operation`, and what its calls came to.
        finished: False where the program ended before its time: then what was not denied is `partial`.
    """
    summary: dict[str, dict[str, dict[str, Completeness]]] = {}
    for account, region, operation, each in counts:
        of_region = summary.setdefault(account or "-", {}).setdefault(region or "-", {})
        of_region[operation] = _one(each, finished=finished)
    return summary


def _one(counts: OperationReport, *, finished: bool) -> Completeness:
    if counts.denied and counts.denied == counts.calls:
        return "denied"
    whole = finished and counts.calls and not (counts.lost or counts.cut or counts.unfinished)
    return "complete" if whole and counts.refused == counts.absent else "partial"
