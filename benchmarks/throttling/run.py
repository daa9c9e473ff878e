"""Real time, real SDKs, one throttling server on loopback: how long a sweep takes, what it wastes and what it loses.

    python -m benchmarks.throttling.run [--quick | --untuned] [--repetitions 3] [--threads 8 32 64] [--only TEXT]

Prints a Markdown table. ratio: wall time over (N - burst) / refill, so that a ratio below 1 means only that calls were lost.
waste: throttled answers in % of N. Rows take half a minute each: the limits are the published ones. Client and server share
the machine; run it while nothing else runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from benchmarks.throttling.rivals import AWS, AZURE, LOST, Rival
from cloudretry.core.rate import Limit


@dataclass(frozen=True)
class Case:
    """Limits and work.

    Args:
        tenants: buckets, worked off in turn, as `cloudretry.order.interleave` puts them.
        later: what the refill is multiplied with when half of the calls have begun.
    """

    name: str
    rivals: tuple[Rival, ...]
    calls: int
    burst: float
    refill: float
    tenants: int = 1
    latency: float = 0.05
    later: float = 1.0

    @property
    def ideal(self) -> float:
        """Seconds until the provider could have accepted all."""
        each = self.calls / self.tenants
        return (each / 2 - self.burst) / self.refill + each / 2 / (self.refill * self.later)

    def bears(self, threads: int) -> bool:
        """Whether so many threads could use the limits up; with fewer there is nothing to pace."""
        return threads / self.latency > self.tenants * self.refill


FULL = (
    Case("EC2 100/20, N = 600", AWS, 600, 100.0, 20.0),
    Case("ARM 250/25, N = 900", AZURE, 900, 250.0, 25.0),
    Case("EC2, 20 accounts interleaved, N = 400 each", AWS[:2], 8000, 100.0, 20.0, tenants=20),
)
SOME = (AWS[0], AWS[1], AWS[2], AWS[5])
UNTUNED = (
    Case("slow answers: 12/3 and 0.4 s each, N = 120", SOME, 120, 12.0, 3.0, latency=0.4),
    Case("quick answers: 37/83 and 5 ms each, N = 2000", SOME, 2000, 37.0, 83.0, latency=0.005),
    Case("40/20 that becomes 40/10 half-way, N = 400", SOME, 400, 40.0, 20.0, later=0.5),
    Case("40/10 that becomes 40/30 half-way, N = 400", SOME, 400, 40.0, 10.0, later=3.0),
)
"""Not among what the pacer's figures were chosen by."""
QUICK = (
    Case("EC2 40/40, N = 240", AWS, 240, 40.0, 40.0),
    Case("ARM 50/50, N = 300", AZURE, 300, 50.0, 50.0),
)


@dataclass
class Measured:
    """One repetition."""

    ratio: float
    waste: float
    failed: int
    p99: float
    jain: float


@contextmanager
def provider() -> Iterator[str]:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        del os.environ[name]
    script = str(Path(__file__).with_name("server.py"))
    process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    try:
        assert process.stdout is not None  # noqa: S101 - narrows the type
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait()


def control(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path) as answer:  # noqa: S310 - our own server
        return json.load(answer)


def sweep(
    case: Case, call: Callable[[int], None], threads: int, half_way: Callable[[], object]
) -> tuple[float, list[float], list[int], int]:
    """Make all calls; wall time, the duration of each, how many each thread made, how many were lost."""
    work, lock = iter(range(case.calls)), Lock()
    durations: list[float] = []
    made = [0] * threads
    lost = itertools.count()

    def labour(thread: int) -> None:
        while True:
            with lock:
                job = next(work, None)
            if job is None:
                return
            if job == case.calls // 2:
                half_way()
            begun = time.monotonic()
            try:
                call(job % case.tenants)
            except LOST:
                next(lost)
            durations.append(time.monotonic() - begun)
            made[thread] += 1

    workers = [Thread(target=labour, args=(number,)) for number in range(threads)]
    begun = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.monotonic() - begun, durations, made, next(lost)


def measure(case: Case, rival: Rival, threads: int, url: str) -> Measured:
    control(url, f"/_reset?burst={case.burst}&refill={case.refill}&latency={case.latency}")
    half_way = partial(control, url, f"/_refill?factor={case.later}")
    wall, durations, made, lost = sweep(case, rival.make(url, Limit(case.refill, case.burst)), threads, half_way)
    counts = control(url, "/_counts")
    durations.sort()
    return Measured(
        ratio=wall / case.ideal,
        waste=100.0 * counts["throttled"] / case.calls,
        failed=lost,
        p99=durations[int(0.99 * (len(durations) - 1))],
        jain=sum(made) ** 2 / (len(made) * sum(count * count for count in made)),
    )


def shown(runs: list[Measured]) -> str:
    def middle(values: list[float], form: str) -> str:
        spread = f" ({min(values):{form}} to {max(values):{form}})" if len(values) > 1 else ""
        return f"{statistics.median(values):{form}}{spread}"

    return (
        f"{middle([run.ratio for run in runs], '.3f')} | {middle([run.waste for run in runs], '.1f')} "
        f"| {max(run.failed for run in runs)} | {max(run.p99 for run in runs):.2f} | {min(run.jain for run in runs):.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="smaller limits, fewer rows: a check that it works, not a measurement"
    )
    parser.add_argument("--untuned", action="store_true", help="other limits, which were not known when the pacer was made")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[8, 32, 64])
    parser.add_argument("--only", default="", help="rows whose name contains this")
    options = parser.parse_args()
    with provider() as url:
        for case in QUICK if options.quick else UNTUNED if options.untuned else FULL:
            print(f"\n| {case.name} | threads | ratio | waste % | failed | p99 s | Jain |\n|---|---|---|---|---|---|---|")
            for rival in case.rivals:
                if options.only not in rival.name or (options.quick and not rival.quick):
                    continue
                for threads in filter(case.bears, options.threads):
                    runs = [measure(case, rival, threads, url) for _ in range(options.repetitions)]
                    print(f"| {rival.name} | {threads} | {shown(runs)} |", flush=True)


if __name__ == "__main__":
    main()
