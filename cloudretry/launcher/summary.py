"""What the processes of a run have counted, put together."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from cloudretry.launcher.counts import CALL_FIELDS
from cloudretry.report import OperationReport
from cloudretry.report.completeness import completeness

__all__ = ["Summary", "merge"]

_SHOWN: Final = 20  # lines of lost calls; the report has them all
_REASON: Final = re.compile(r" reason=(\S+)")

Key = tuple[str, ...]


@dataclass(slots=True)
class Summary:
    """The sums of a run, by operation, region and account; `lost` has a line for each call that was given up."""

    operations: dict[Key, OperationReport] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
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
        total = self.total
        yield (
            f"cloudretry: {_some(total.calls, 'call', 'calls')} in {_some(self.processes, 'process', 'processes')}, "
            f"{_some(total.attempts, 'attempt', 'attempts')}, {total.throttled} throttled, "
            f"{total.waited:.1f} s waited, {total.queued:.1f} s queued, {total.lost} lost{self._reasons()}"
            f"{f', {total.repeated} repeated by loops around them' if total.repeated else ''}"
        )
        yield from (f"cloudretry: lost {line}" for line in self.lost[:_SHOWN])
        if total.lost > _SHOWN:
            yield f"cloudretry: and {total.lost - min(_SHOWN, len(self.lost))} more"
        yield from (f"cloudretry: {path}: not readable, what it counted is missing here" for path in self.unreadable)

    def _reasons(self) -> str:
        reasons = Counter(match[1] for line in self.lost if (match := _REASON.search(line)))
        return f" ({', '.join(f'{reason} {count}' for reason, count in reasons.most_common())})" if reasons else ""

    def completeness(self, *, finished: bool) -> str:
        """What may be believed of what the program found, as JSON: account → region → operation → `complete` or not.

        `finished`: the program succeeded; else nobody knows what it would have asked yet, and nothing is complete.
        """
        counts = ((account, region, f"{service}:{name}", each) for (_, service, name, region, account), each in self._sorted())
        return json.dumps(completeness(counts, finished=finished), indent=2)

    def _sorted(self) -> list[tuple[Key, OperationReport]]:
        return sorted(self.operations.items(), key=itemgetter(0))

    def as_json(self) -> str:
        """All of it."""
        operations = [
            {**{name: part or None for name, part in zip(CALL_FIELDS, key, strict=True)}, **asdict(counts)}
            for key, counts in self._sorted()
        ]
        document = {"processes": self.processes, "total": asdict(self.total)}
        return json.dumps({**document, "operations": operations, "lost": self.lost}, indent=2)


def _some(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def merge(paths: Iterable[str]) -> Summary:
    """Add up the files of a run. One that can't be read is named."""
    summary = Summary()
    for path in paths:
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            parts = [_part(raw) for raw in document["operations"]]
            lost = [str(line) for line in document["lost"]]
        except (OSError, ValueError, KeyError, TypeError):
            summary.unreadable.append(path)
            continue
        summary.processes += 1
        summary.lost += lost
        for key, counts in parts:
            summary.operations.setdefault(key, OperationReport()).add(counts)
    return summary


def _part(raw: Mapping[str, Any]) -> tuple[Key, OperationReport]:
    return tuple(raw[name] or "" for name in CALL_FIELDS), OperationReport(
        **{name: raw[name] for name in OperationReport.__slots__}
    )
