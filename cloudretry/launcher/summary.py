"""What the processes of a run have counted, put together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from cloudretry.core.call import spelled
from cloudretry.launcher.counts import CALL_FIELDS
from cloudretry.report import LostCall, OperationReport
from cloudretry.report.completeness import completeness

__all__ = ["Summary", "merge"]

_SHOWN: Final = 20  # operations with lost calls; the report has them all

Key = tuple[str, ...]


@dataclass(slots=True)
class Summary:
    """The sums of a run, by operation, region and account; `lost` has the records of the calls that were given up.

    `recovered`: those of calls that were answered when the program's own loop called again.
    """

    operations: dict[Key, OperationReport] = field(default_factory=dict)
    lost: list[LostCall] = field(default_factory=list)
    recovered: list[LostCall] = field(default_factory=list)
    processes: int = 0
    unreadable: list[str] = field(default_factory=list)

    @property
    def total(self) -> OperationReport:
        """Over all operations."""
        return OperationReport.sum(self.operations.values())

    @property
    def is_incomplete(self) -> bool:
        """Whether a call was lost, or may have been: what can't be read may tell of some."""
        return bool(self.total.lost or self.unreadable)

    def lines(self) -> Iterator[str]:
        """What a person reads at the end of a run."""
        yield f"cloudretry: {self._sums(self.total)}"
        yield from (f"cloudretry: {line}" for line in self._lost_lines())
        yield from (f"cloudretry: {path}: not readable, what it counted is missing here" for path in self.unreadable)

    def _sums(self, total: OperationReport) -> str:
        if not total.calls:
            return "no call was counted" if self.unreadable else "no call was made"
        return (
            f"{_some(total.calls, 'call', 'calls')} in {_some(self.processes, 'process', 'processes')}, "
            f"{_some(total.attempts, 'attempt', 'attempts')}, {total.throttled} throttled, "
            f"{total.waited:.1f} s waited, {total.queued:.1f} s queued, {total.lost} lost{_reasons(self.lost)}"
            f"{f', {total.repeated} repeated by loops around them' if total.repeated else ''}"
            f"{f', {total.recovered} recovered by them' if total.recovered else ''}"
            f"{f', {total.cut} bodies cut short' if total.cut else ''}"
        )

    def _lost_lines(self) -> Iterator[str]:
        """A line for each operation with lost calls, the one that lost most first."""
        listed: dict[Key, list[LostCall]] = {}
        for lost in self.lost:
            listed.setdefault(tuple(getattr(lost, name) or "" for name in CALL_FIELDS), []).append(lost)
        losing = sorted(((counts.lost, key) for key, counts in self.operations.items() if counts.lost), key=_most_first)
        for count, key in losing[:_SHOWN]:
            records = listed.get(key, [])
            yield f"lost {_name(key)}: {_some(count, 'call', 'calls')}{_reasons(records)}{_missing(records)}"
        if more := sum(count for count, _ in losing[_SHOWN:]):
            yield f"and {more} more"

    def completeness(self, *, finished: bool) -> str:
        """What may be believed of what the program found, as JSON: account → region → operation → `complete` or not.

        `finished`: the program succeeded; else nobody knows what it would have asked yet, and nothing is complete.
        """
        counts = (
            (account or principal, region, f"{service}:{operation}", each)
            for (_, service, operation, region, account, principal), each in self._sorted()
        )
        return json.dumps(completeness(counts, finished=finished), indent=2)

    def _sorted(self) -> list[tuple[Key, OperationReport]]:
        return sorted(self.operations.items(), key=itemgetter(0))

    def as_json(self, about: Mapping[str, str]) -> str:
        """All of it, after what is to be said about the run."""
        operations = [
            {**{name: part or None for name, part in zip(CALL_FIELDS, key, strict=True)}, **asdict(counts)}
            for key, counts in self._sorted()
        ]
        document = {**about, "processes": self.processes, "total": asdict(self.total)}
        records = {"lost": self.lost, "recovered": self.recovered}
        listed = {name: [each.to_dict() for each in found] for name, found in records.items()}
        return json.dumps({**document, "operations": operations, **listed}, indent=2)


def _name(key: Key) -> str:
    _, service, operation, region, account, principal = key
    return spelled(service, operation, account or principal, region)


def _most_first(losing: tuple[int, Key]) -> tuple[int, Key]:
    count, key = losing
    return -count, key


def _reasons(lost: Iterable[LostCall]) -> str:
    reasons = Counter(each.reason for each in lost)
    return f" ({', '.join(f'{reason} {count}' for reason, count in reasons.most_common())})" if reasons else ""


def _missing(lost: Iterable[LostCall]) -> str:
    """Of a listing all pages from the lost one on are missing, for it alone would have led to the next."""
    first = min((each.page for each in lost if each.page is not None), default=1)
    return f", pages from {first} on are missing" if first > 1 else ""


def _some(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def merge(paths: Iterable[str]) -> Summary:
    """Add up the files of a run. One that can't be read is named."""
    summary = Summary()
    for path in paths:
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            parts = [_part(raw) for raw in document["operations"]]
            lost, recovered = ([LostCall.from_dict(raw) for raw in document[name]] for name in ("lost", "recovered"))
        except (OSError, ValueError, KeyError, TypeError):
            summary.unreadable.append(path)
            continue
        summary.processes += 1
        summary.lost += lost
        summary.recovered += recovered
        for key, counts in parts:
            summary.operations.setdefault(key, OperationReport()).add(counts)
    return summary


def _part(raw: Mapping[str, Any]) -> tuple[Key, OperationReport]:
    return tuple(raw[name] or "" for name in CALL_FIELDS), OperationReport(
        **{name: raw[name] for name in OperationReport.__slots__}
    )
