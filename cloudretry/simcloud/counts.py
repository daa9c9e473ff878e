"""What became of the requests: the log of verdicts and their counts. Pure: times are passed in."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, Final, NamedTuple

__all__ = ["Counts", "Verdict"]

_LOGGED: Final = 200_000


class Verdict(NamedTuple):
    """One request. `time` is the server's monotonic clock."""

    time: float
    account: str
    region: str
    service: str
    action: str
    verdict: str
    """`accepted`, `throttled`, or the kind of a fault; see cloudretry.simcloud.faults.KINDS."""
    done: str = ""
    """What was done to the request, where it was more than to serve or to throttle it."""


class Counts:
    """The latest verdicts, and how many there were of each. Not thread-safe.

    A verdict is a tuple whose first value is its time; then come the four of `place`, a word, and what was done.
    """

    def __init__(self, place: tuple[str, str, str, str]) -> None:
        self.log: deque[tuple[Any, ...]] = deque(maxlen=_LOGGED)
        self._place = place
        self._counts: Counter[tuple[str, ...]] = Counter()

    def record(self, verdict: tuple[Any, ...]) -> None:
        """Log and count one request."""
        self.log.append(verdict)
        self._counts[verdict[1:6]] += 1

    def clear(self) -> None:
        """Forget all."""
        self.log.clear()
        self._counts.clear()

    def totals(self) -> dict[str, Any]:
        """Counts by verdict, and under `rows` the same for each place."""
        rows: dict[tuple[str, ...], dict[str, int]] = {}
        totals = Counter({"accepted": 0, "throttled": 0})
        for (*what, verdict), count in sorted(self._counts.items()):
            rows.setdefault(tuple(what), {"accepted": 0, "throttled": 0})[verdict] = count
            totals[verdict] += count
        return {**totals, "rows": [dict(zip(self._place, what, strict=True)) | counts for what, counts in rows.items()]}
