"""What the runs came to, side by side, and what can be said about it. Pure: everything is measured elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cloudretry.demo.cloud import Key
    from cloudretry.demo.discovery import LostCall

__all__ = ["Counted", "Run", "counted", "remarks", "table"]

_SHOWN: Final = 3
_WIDTH: Final = 100


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
    lost_file: str
    """Where all of `lost` are listed."""
    counted: Counted | None = None


def counted(number: int, noun: str) -> str:
    """The number and the noun, in the plural unless there is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def table(cloud: str, there: frozenset[Key], runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Rows of text, the first one the head."""
    return [
        (cloud, *(run.name for run in runs)),
        (f"complete resources, of {len(there)}", *(str(len(run.complete & there)) for run in runs)),
        ("found, details missing or not", *(str(len(run.found & there)) for run in runs)),
        ("calls", *(str(run.calls) for run in runs)),
        ("attempts (requests sent)", *(str(run.attempts) for run in runs)),
        ("throttled attempts", *(str(run.throttled) for run in runs)),
        ("lost calls", *(str(len(run.lost)) for run in runs)),
        ("time", *(f"{run.seconds:.1f} s" for run in runs)),
    ]


def remarks(there: frozenset[Key], runs: Sequence[Run]) -> list[str]:
    """Sentences below the table."""
    told = (_about_whole(run, runs) if there <= run.complete else _about_holes(there, run) for run in runs)
    return [line for lines in told for line in lines] + [line for run in runs for line in _about_faults(there, run)]


def _about_whole(run: Run, runs: Sequence[Run]) -> list[str]:
    later = [f"{run.seconds - other.seconds:.1f} s after {other.name}" for other in runs if other.seconds < run.seconds]
    return [", ".join([f"{run.name} found every resource with all its details", *later]) + "."]


def _about_holes(there: frozenset[Key], run: Run) -> list[str]:
    missing, partial = len(there - run.found), len((run.found - run.complete) & there)
    wrong = [f"retire {counted(missing, 'resource')} that {'exists' if missing == 1 else 'exist'}"] if missing else []
    wrong += [f"keep {partial if missing else counted(partial, 'resource')} with details missing"] if partial else []
    times = Counter((not lost.ends_list, lost.brief) for lost in run.lost)
    shown = sorted(times.items(), key=lambda item: (item[0][0], -item[1]))[:_SHOWN]
    return [
        f"Fed by {run.name}, a CMDB would {' and '.join(wrong)}.",
        f"{run.name} lost {counted(len(run.lost), 'call')}, all in {run.lost_file}:",
        *(_cropped(f"{number:5} x {brief}") for (_, brief), number in shown),
    ]


def _about_faults(there: frozenset[Key], run: Run) -> list[str]:
    """What should never have to be said: that counts differ, or that resources were invented."""
    lines = []
    theirs = Counted(run.attempts, run.throttled, len(run.lost))
    if run.counted not in {None, theirs}:
        lines.append(
            f"{run.name}'s own report is WRONG. It says {run.counted}; the simulated cloud and the discovery: {theirs}."
        )
    if invented := len(run.found - there):
        lines.append(f"{run.name} found resources that do not exist: {invented}.")
    return lines


def _cropped(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."
