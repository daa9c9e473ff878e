"""What the runs came to, side by side, and what can be said about it. Pure: everything is measured elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudretry.demo.discovery import Key, LostCall

__all__ = ["Counted", "Run", "remarks", "table"]

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Counted:
    """What cloudretry's own report says of a run."""

    attempts: int
    throttled: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the discovery. `attempts` and `throttled` are the server's counts, the others the discovery's own."""

    name: str
    found: frozenset[Key]
    complete: frozenset[Key]
    calls: int
    attempts: int
    throttled: int
    lost: tuple[LostCall, ...]
    seconds: float
    counted: Counted | None = None


def table(there: frozenset[Key], runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Rows of text, the first one the head."""
    return [
        ("", *(run.name for run in runs)),
        (f"resources found, of {len(there)}", *(str(len(run.found & there)) for run in runs)),
        ("  with all their details", *(str(len(run.complete & there)) for run in runs)),
        ("calls", *(str(run.calls) for run in runs)),
        ("attempts (requests sent)", *(str(run.attempts) for run in runs)),
        ("throttled attempts", *(str(run.throttled) for run in runs)),
        ("lost calls", *(str(len(run.lost)) for run in runs)),
        ("time", *(f"{run.seconds:.1f} s" for run in runs)),
    ]


def remarks(there: frozenset[Key], runs: Sequence[Run]) -> list[str]:
    """Sentences below the table."""
    return [*_about_time(runs), *(line for run in runs for line in [*_about_counts(run), *_about_holes(there, run)])]


def _about_time(runs: Sequence[Run]) -> list[str]:
    lossy = min(runs, key=lambda run: run.seconds)
    slowest = max(runs, key=lambda run: run.seconds)
    if len(lossy.lost) <= len(slowest.lost):
        return []
    earlier = f"{slowest.seconds - lossy.seconds:.1f} s earlier"
    return [f"{lossy.name} was done {earlier} and gave up {len(lossy.lost)} calls; {slowest.name} gave up {len(slowest.lost)}."]


def _about_counts(run: Run) -> list[str]:
    if run.counted is None:
        return []
    ours = (run.counted.attempts, run.counted.throttled, run.counted.lost)
    theirs = (run.attempts, run.throttled, len(run.lost))
    told = "{} attempts, {} of them throttled, and {} lost calls".format(*ours)
    if ours == theirs:
        return [f"{run.name} counted {told}: exactly what the simulated AWS and the discovery counted."]
    return [f"{run.name} counted {told}. THIS DIFFERS from the simulated AWS and the discovery: {theirs}."]


def _about_holes(there: frozenset[Key], run: Run) -> list[str]:
    missing, partial, invented = len(there - run.found), len(run.found - run.complete), len(run.found - there)
    lines = [f"{run.name} lost {len(run.lost)} calls, among them:" if run.lost else f"{run.name} lost no call."]
    lines += [f"  {lost}" for lost in sorted(run.lost, key=lambda lost: not lost.ends_list)[:_SHOWN]]
    if missing or partial:
        lines.append(
            f"A CMDB fed by {run.name} would have retired {missing} resources that exist, "
            f"and kept {partial} with details missing."
        )
    if invented:
        lines.append(f"{run.name} found {invented} resources that do not exist.")
    return lines
