"""What the processes of a run have counted, put together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from operator import itemgetter
from typing import Any, Final

from cloudretry.core.call import spelled
from cloudretry.launcher.counts import CALL_FIELDS
from cloudretry.launcher.files import is_whole, open_regular
from cloudretry.report import LostCall, OperationReport
from cloudretry.report.completeness import completeness

__all__ = ["Summary", "merge"]

_SHOWN: Final = 20  # operations with lost calls; the report has them all

Key = tuple[str, ...]


@dataclass(slots=True)
class Summary:
    """The sums of a run, by operation, region and account; `lost` has the records of the calls that were given up.

    `recovered`: those of calls that were answered when the program's own loop called again. `going_on`: processes that have
    outlived the program. `passed_by`: some calls were made without cloudretry, because of a fault of ours.
    """

    operations: dict[Key, OperationReport] = field(default_factory=dict)
    lost: list[LostCall] = field(default_factory=list)
    recovered: list[LostCall] = field(default_factory=list)
    processes: int = 0
    going_on: int = 0
    unreadable: list[str] = field(default_factory=list)
    passed_by: bool = False

    @property
    def total(self) -> OperationReport:
        """Over all operations."""
        return OperationReport.sum(self.operations.values())

    @property
    def is_incomplete(self) -> bool:
        """Whether a call was lost, or may have been: what can't be read, or was not counted, may tell of some."""
        return bool(self.total.lost or self.unreadable or self.passed_by)

    def lines(self) -> Iterator[str]:
        """What a person reads at the end of a run."""
        yield f"cloudretry: {self._sums(self.total)}"
        yield from (f"cloudretry: {line}" for line in self._lost_lines())
        yield from (f"cloudretry: {path}: can't be read to its end, so counts are missing here" for path in self.unreadable)
        if self.passed_by:
            yield "cloudretry: what was left as it is, or ran without it, is not counted"
        if self.going_on:
            yield (
                f"cloudretry: {_some(self.going_on, 'process goes on; what it does', 'processes go on; what they do')} "
                "from now on is not counted"
            )

    def _sums(self, total: OperationReport) -> str:
        if not total.calls:
            return "no call was counted" if self.unreadable else "no call was made"
        unfinished = _some(total.unfinished, "listing not read to its end", "listings not read to their end")
        return (
            f"{_some(total.calls, 'call', 'calls')} in {_some(self.processes, 'process', 'processes')}, "
            f"{_some(total.attempts, 'attempt', 'attempts')}, {total.throttled} throttled, "
            f"{total.waited:.1f} s waited, {total.queued:.1f} s queued, {total.lost} lost{_reasons(self.lost)}"
            f"{f', {total.repeated} repeated by loops around them' if total.repeated else ''}"
            f"{f', {total.recovered} recovered by them' if total.recovered else ''}"
            f"{f', {unfinished}' if total.unfinished else ''}"
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

        `finished`: the program succeeded; else nobody knows what it would have asked yet, and nothing is complete. Nor is
        anything while a process of it goes on, or where what one counted is missing.
        """
        counts = (
            (account or principal, region, f"{service}:{operation}", each)
            for (_, service, operation, region, account, principal), each in self._sorted()
        )
        missing = self.going_on or self.unreadable or self.passed_by
        return json.dumps(completeness(counts, finished=finished and not missing), indent=2)

    def _sorted(self) -> list[tuple[Key, OperationReport]]:
        return sorted(self.operations.items(), key=itemgetter(0))

    def as_json(self, about: Mapping[str, str]) -> str:
        """All of it, after what is to be said about the run."""
        operations = [
            {**{name: part or None for name, part in zip(CALL_FIELDS, key, strict=True)}, **asdict(counts)}
            for key, counts in self._sorted()
        ]
        document = {**about, "processes": self.processes, "going_on": self.going_on, "total": asdict(self.total)}
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


def merge(paths: Iterable[str], *, going_on: int = 0) -> Summary:
    """Add up the files of a run. One of which something is missing or can't be read is named, and the rest of it counts."""
    summary = Summary(going_on=going_on)
    read = _Files()
    summary.unreadable += (path for path in paths if not read.take(path))
    summary.processes = len({process for process, _ in read.rows})
    for _, key, counts in read.rows.values():
        summary.operations.setdefault(key, OperationReport()).add(counts)
    summary.recovered += read.recovered
    summary.lost += (read.lost - Counter(read.recovered)).elements()
    return summary


class _Files:
    """What the lines of the files come to; cloudretry/launcher/counts.py says what they are."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], tuple[int, Key, OperationReport]] = {}
        self.lost: Counter[LostCall] = Counter()
        self.recovered: list[LostCall] = []

    def take(self, path: str) -> bool:
        """Whether all of it could be read."""
        last, good = b"", True
        try:
            with open_regular(path) as file:
                for last in file:
                    good = (not last.strip() or self._take_line(last)) and good
        except OSError:
            return False
        return good and is_whole(last)

    def _take_line(self, line: bytes) -> bool:
        try:
            document = json.loads(line)
            process, number = _text(document["process"]), _number(document["number"])
            rows = [(_number(raw["row"]), _key(raw), _counts(raw)) for raw in document["operations"]]
            lost, recovered = ([_lost(raw) for raw in document[name]] for name in ("lost", "recovered"))
        except Exception:  # noqa: BLE001 - whatever stands there, it must not end the command
            return False
        for row, key, counts in rows:
            known = self.rows.get((process, row))
            if known is None or known[0] < number:
                self.rows[process, row] = number, key, counts
        self.lost.update(lost)
        self.recovered += recovered
        return True


def _key(raw: Mapping[str, Any]) -> Key:
    return tuple(_text(raw[name]) for name in CALL_FIELDS)


def _counts(raw: Mapping[str, Any]) -> OperationReport:
    counts = OperationReport()
    for name in counts.__slots__:
        read = _seconds if isinstance(getattr(counts, name), float) else _number
        setattr(counts, name, read(raw[name]))
    return counts


def _lost(raw: Mapping[str, Any]) -> LostCall:
    texts = {
        name: _text(raw[name]) or None for name in ("account", "principal", "region", "code", "request_id", "rule", "token")
    }
    known = {name: _text(raw[name]) for name in ("provider", "service", "operation", "reason")}
    numbers = {name: raw[name] if raw[name] is None else _number(raw[name]) for name in ("page", "status")}
    amounts = {"attempts": _number(raw["attempts"]), "waited": _seconds(raw["waited"])}
    return LostCall.from_dict({**raw, **texts, **known, **numbers, **amounts})


def _text(value: object) -> str:
    """An account may have been given as a number."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    return str(value)


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError
    return float(value)
