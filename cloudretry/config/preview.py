"""What the calls of a provider may wait, as a table: exact ranges, sampled means and percentiles. Plain text, no I/O."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudretry.config.durations import write_duration
from cloudretry.core.backoff import exponential_ceiling, exponential_delay

if TYPE_CHECKING:
    from random import Random

    from cloudretry.core.settings import ProviderSettings, RetrySettings

__all__ = ["Wait", "preview", "waits", "worst_wait"]

_MOST_ROWS = 12
_BAR_WIDTH = 40
_LINE = 100


@dataclass(frozen=True, slots=True)
class Wait:
    """What one retry may wait, in seconds, by exponential backoff. The shortest wait is always 0."""

    retry_number: int
    most: float
    mean: float
    p99: float


def waits(retry: RetrySettings, *, samples: int, rng: Random) -> list[Wait]:
    """One for each retry, at most twelve: from there on they are all alike."""
    return [_wait(number, retry, samples, rng) for number in range(1, min(retry.max_retries, _MOST_ROWS) + 1)]


def worst_wait(retry: RetrySettings) -> float:
    """The longest that the waits of one call can sum up to, in seconds; never more than the time budget."""
    longest = retry.additional_delay_window + retry.max_header_delay
    total = 0.0
    for number in range(1, retry.max_retries + 1):
        backoff = _most(number, retry)
        total += {"response_header": max(longest, backoff), "custom": math.inf}.get(retry.strategy, backoff)
    return min(retry.time_budget, total)


def preview(name: str, entry: ProviderSettings, *, samples: int, rng: Random) -> str:
    """The page of one provider."""
    return "\n".join(_page(name, entry, samples, rng)) + "\n"


def _page(name: str, entry: ProviderSettings, samples: int, rng: Random) -> Iterator[str]:
    retry = entry.retry
    yield f"{name}: strategy {retry.strategy}"
    if entry.mode == "observe":
        yield "  mode observe: the SDK's own retry decides; this is what would hold in mode enforce"
    yield from (f"  {line}" for line in _rule(retry))
    yield ""
    if retry.max_retries == 0:
        yield "  no retries"
    else:
        yield from _table(waits(retry, samples=samples, rng=rng), retry)
    yield ""
    worst = f"{retry.max_retries + 1} attempts, {write_duration(worst_wait(retry))} of waiting"
    yield f"  worst case of a call: {worst}{_why(retry)}"
    yield f"  (a wait that would end past the time budget of {write_duration(retry.time_budget)} is not begun)"
    yield f"  {_transient(retry)}"
    if entry.overrides:
        count = f"{len(entry.overrides)} override{'s' if len(entry.overrides) > 1 else ''}"
        yield f"  {count} may change this for single operations: config show --for SERVICE:OPERATION"


def _why(retry: RetrySettings) -> str:
    """Where the worst wait is not the sum of the rows above."""
    if retry.strategy == "response_header":
        return ", if the provider asks for it"
    return ", if the plugin says so" if retry.strategy == "custom" else ""


def _rule(retry: RetrySettings) -> Iterator[str]:
    window = write_duration(retry.additional_delay_window)
    if retry.strategy == "response_header":
        names = ", ".join(
            source.name.removeprefix(":").replace("error-text", "the error text") for source in retry.response_header
        )
        longest = write_duration(retry.max_header_delay)
        yield f"a wait is what the first readable of these asks for, at most {longest}, plus 0s to {window}:"
        yield from textwrap.wrap(
            names or "(no header is configured)", _LINE, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
        yield "without one it is the fall-back:"
    elif retry.strategy == "custom":
        yield f"a wait is what getDelay() of the plugin {retry.plugin} says; where it gives nothing usable, the fall-back"
        yield f"(`cloudretry plugins check {retry.plugin}` shows its delays):"
    elif retry.strategy == "sdk":
        yield "the SDK's own counters and pauses decide; ours would be:"
    cap, base = write_duration(retry.max_delay), write_duration(retry.base_delay)
    yield f"exponential backoff: min({cap}, {base} x [0, 2^n - 1]) + [0s, {window}]"


def _table(rows: list[Wait], retry: RetrySettings) -> Iterator[str]:
    scale = max(row.most for row in rows)
    yield f"  {'retry':>5}  {'range':>17}  {'mean':>9}  {'p99':>9}   (= range, o mean, | 99 of 100 are shorter)"
    for row in rows:
        span, mean, p99 = f"0 .. {_milliseconds(row.most)}", _milliseconds(row.mean), _milliseconds(row.p99)
        yield f"  {row.retry_number:>5}  {span:>17}  {mean:>9}  {p99:>9}   {_bar(row, scale)}"
    if retry.max_retries > len(rows):
        most = _milliseconds(_most(retry.max_retries, retry))
        yield f"  {'...':>5}  and so on to retry {retry.max_retries}, never more than {most}"


def _bar(row: Wait, scale: float) -> str:
    def column(seconds: float) -> int:
        return round(seconds / scale * (_BAR_WIDTH - 1)) if scale else 0

    cells = ["="] * (column(row.most) + 1)
    cells[column(row.p99)] = "|"
    cells[column(row.mean)] = "o"
    return "".join(cells)


def _transient(retry: RetrySettings) -> str:
    count = min(retry.transient_retries, retry.max_retries)
    if not retry.transient_errors or count == 0:
        return "transient errors: not retried"
    return f"transient errors: at most {count} of the retries, always by exponential backoff"


def _wait(number: int, retry: RetrySettings, samples: int, rng: Random) -> Wait:
    base, cap, window = retry.base_delay, retry.max_delay, retry.additional_delay_window
    drawn = sorted(exponential_delay(number, base=base, cap=cap, window=window, rng=rng) for _ in range(samples))
    return Wait(number, _most(number, retry), math.fsum(drawn) / samples, drawn[math.ceil(0.99 * samples) - 1])


def _most(number: int, retry: RetrySettings) -> float:
    return exponential_ceiling(number, base=retry.base_delay, cap=retry.max_delay) + retry.additional_delay_window


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000.0:.0f} ms"
