"""What pacing costs where nothing is throttled: the sum of its pieces in one attempt, and the memory of a quota.

    python benchmarks/pacing_cost.py

Prints a Markdown table. Batches are short and the quietest and the median are shown, because other programs share the machine.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Sequence

from cloudretry.core.call import Call
from cloudretry.core.match import Match
from cloudretry.core.pacing_settings import KnownRate, PacingSettings
from cloudretry.runtime.pacing import Pacing

BATCH, BATCHES, QUOTAS = 200, 1500, 100_000
UNKNOWN = PacingSettings()
KNOWN = PacingSettings(reserve=0.0, rates=(KnownRate(match=Match(), rate=1e6, burst=1e9),))


def call(account: int) -> Call:
    return Call(
        provider="aws",
        service="ec2",
        operation="DescribeInstances",
        region="eu-west-1",
        account=f"{account:012d}",
        host="ec2.invalid",
    )


def attempts(pacing: Pacing, calls: Sequence[Call], settings: PacingSettings) -> float:
    """Microseconds for each attempt: its quota is found, its turn taken, used and judged."""
    begun = time.perf_counter()
    for each in calls:
        turn = pacing.turns(each, settings).take(patience=900.0)
        with turn:
            pass
        turn.accepted()
    return (time.perf_counter() - begun) / len(calls) * 1e6


def row(name: str, pacing: Pacing, calls: Sequence[Call], settings: PacingSettings) -> None:
    costs = sorted(attempts(pacing, random.choices(calls, k=BATCH), settings) for _ in range(BATCHES))
    print(f"| {name} | {costs[0]:.1f} | {costs[len(costs) // 2]:.1f} |", flush=True)


def main() -> None:
    print("| one attempt, nothing throttled | quietest µs | median µs |\n|---|---|---|")
    row("one quota, nothing known", Pacing(), [call(0)], UNKNOWN)
    row("one quota, limit known", Pacing(), [call(0)], KNOWN)
    calls = [call(account) for account in range(QUOTAS)]
    pacing = Pacing()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    attempts(pacing, calls, UNKNOWN)
    size = (tracemalloc.get_traced_memory()[0] - before) / QUOTAS
    tracemalloc.stop()
    row(f"{QUOTAS:,} quotas", pacing, calls, UNKNOWN)
    print(f"\n{size:,.0f} bytes for each quota")


if __name__ == "__main__":
    main()
