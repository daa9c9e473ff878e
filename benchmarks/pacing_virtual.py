"""What pacing reaches, in virtual time: the cases that it was made for, some that it was not, and random ones.

    python -m benchmarks.pacing_virtual [--seeds 5] [--random 179]

Prints Markdown tables. wall: time until the last answer, over the ideal, which is when the provider's true refill, less what
its other tenants take, has covered the work (or when the workers could have made the calls). Each cell: mean over the seeds,
and the worst. waste: throttled answers in % of the calls. Deterministic for given seeds: nothing here depends on the machine
but the events per second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Final

from benchmarks.pacing_world import Result, Scenario, mean, run
from cloudretry.core.rate import Limit

PUBLISHED: Final = Limit(rate=20.0, burst=100.0)
EC2: Final = Scenario()
KNOWN: Final = replace(EC2, prior=PUBLISHED)
ARM: Final = Scenario(calls=900, burst=250.0, refill=25.0, headers=True, retry_after=1.0)
LONG: Final = replace(EC2, calls=1000)
MANY: Final = replace(EC2, calls=20 * 1000, quotas=20, workers=64)

GOALS: Final[dict[str, tuple[str, Scenario]]] = {
    "EC2 100/20, N = 600, prior, 8 threads": ("1.02 / 2 %", replace(KNOWN, workers=8)),
    "the same, 32 threads": ("1.02 / 2 %", KNOWN),
    "the same, 64 threads": ("1.02 / 2 %", replace(KNOWN, workers=64)),
    "EC2, nothing known, 8 threads": ("1.02 / 4 %", replace(EC2, workers=8)),
    "the same, 32 threads ": ("1.02 / 4 %", EC2),
    "the same, 64 threads ": ("1.02 / 4 %", replace(EC2, workers=64)),
    "ARM 250/25 with headers, N = 900, 8 threads": ("1.02 / 1 %", replace(ARM, workers=8)),
    "the same, 32 threads  ": ("1.02 / 1 %", ARM),
    "the same, 64 threads  ": ("1.02 / 1 %", replace(ARM, workers=64)),
    "limit halved at 20 s, N = 1000": ("1.03 / 5 %", replace(LONG, changes=((20.0, 0.5),))),
    "limit doubled at 15 s": ("1.03 / 5 %", replace(LONG, changes=((15.0, 2.0),))),
    "limit cut to a tenth at 15 s": ("1.08 / 5 %", replace(LONG, changes=((15.0, 0.1),))),
    "another tenant takes a quarter": ("1.03 / 4 %", replace(LONG, tenant=5.0, tenant_from=10.0)),
    "another tenant takes a half": ("1.03 / 4 %", replace(LONG, tenant=10.0, tenant_from=10.0)),
    "20 quotas, 64 threads, interleaved, N = 1000 each": ("1.03 / 1.5 %", MANY),
    "the same, priors": ("1.03 / 1.5 %", replace(MANY, prior=PUBLISHED)),
}
OTHERS: Final[dict[str, tuple[str, Scenario]]] = {
    "100 workers, N = 3000": ("", replace(EC2, calls=3000, workers=100)),
    "1 000 workers": ("", replace(EC2, calls=3000, workers=1000)),
    "10 000 workers, refill 100": ("", replace(EC2, calls=40_000, workers=10_000, refill=100.0)),
    "20 quotas, one after the other, N = 300 each": ("", replace(MANY, calls=6000, hot_first=True)),
    "20 quotas, interleaved, N = 300 each": ("", replace(MANY, calls=6000)),
    "2 processes that don't know each other": ("", replace(EC2, calls=1200, workers=16, processes=2)),
    "4 processes": ("", replace(EC2, calls=1200, processes=4)),
    "ARM with headers, 4 quotas of ours in one bucket, N = 2000": ("", replace(ARM, calls=2000, workers=40, processes=4)),
    "the same, 10 quotas": ("", replace(ARM, calls=2000, workers=40, processes=10)),
    "the same, 10 quotas, reserve 0.1": ("", replace(ARM, calls=2000, workers=40, processes=10, reserve=0.1)),
    "a header that counts 12 000 an hour, N = 8000": ("", replace(ARM, calls=8000, burst=12_000.0, refill=10 / 3)),
    "ARM without headers, N = 1500": ("", replace(ARM, calls=1500, headers=False, workers=64)),
    "refill once a second": ("", replace(EC2, calls=800, lump=1.0)),
    "5/2": ("", replace(EC2, calls=120, burst=5.0, refill=2.0, workers=16)),
    "1/0.5": ("", replace(EC2, calls=60, burst=1.0, refill=0.5, workers=8)),
    "latency 500 ms, 200/100": ("", Scenario(calls=3000, burst=200.0, refill=100.0, latency=0.5, workers=200)),
    "latency 100 ms, 1000/500": ("", Scenario(calls=20_000, burst=1000.0, refill=500.0, latency=0.1, workers=200)),
    "a prior ten times too high": ("", replace(EC2, prior=Limit(200.0, 1000.0))),
    "a prior ten times too low, 1000/200": (
        "",
        Scenario(calls=6000, burst=1000.0, refill=200.0, workers=64, prior=PUBLISHED),
    ),
    "no pacing, exponential backoff, 8 retries": ("", replace(EC2, paced=False)),
    "no pacing, 20 retries": ("", replace(EC2, paced=False, max_retries=20)),
}


class Counter:
    """Events, and the processor time that they took."""

    def __init__(self) -> None:
        self.events = 0
        self.seconds = 0.0

    def play(self, case: Scenario, seeds: Iterable[int]) -> list[Result]:
        """Run one case with several seeds."""
        begun = time.process_time()
        results = [run(case, seed) for seed in seeds]
        self.seconds += time.process_time() - begun
        self.events += sum(result.events for result in results)
        return results


def worst(values: list[float], form: str) -> str:
    return f"{mean(values):{form}} ({max(values):{form}})"


def table(cases: dict[str, tuple[str, Scenario]], seeds: range, counter: Counter) -> None:
    print("| case | goal | wall / ideal | waste % | failed | p99 s | Jain |\n|---|---|---|---|---|---|---|")
    for name, (goal, case) in cases.items():
        results = counter.play(case, seeds)
        walls, wastes = [result.ratio for result in results], [result.waste for result in results]
        failed, slowest = sum(result.failed for result in results), max(result.p99 for result in results)
        fairness = min(result.jain for result in results)
        print(
            f"| {name.strip()} | {goal} | {worst(walls, '.3f')} | {worst(wastes, '.1f')} | {failed} "
            f"| {slowest:.2f} | {fairness:.3f} |"
        )


def reserve(seeds: range, counter: Counter) -> None:
    print("\n| reserve 0.1 | share of the limit, 10 s to 60 s | tokens left after 60 s | waste % |\n|---|---|---|---|")
    cases = {
        "EC2, nothing known": EC2,
        "EC2, prior": KNOWN,
        "ARM with headers": ARM,
    }
    for name, case in cases.items():
        endless = replace(case, calls=10**6, reserve=0.1, until=60.0)
        results = counter.play(endless, seeds)
        shares = [sum(moment > 10.0 for moment in result.moments) / (case.refill * 50.0) for result in results]  # noqa: PLR2004 - see the header
        left = min(result.tokens_left for result in results)
        wastes = [result.waste for result in results]
        print(f"| {name} | {mean(shares):.3f} | {left:.0f} of {case.burst:.0f} | {worst(wastes, '.2f')} |")


def opening(counter: Counter) -> None:
    print("\n| nothing ever throttles, nothing known | paced s | unpaced s | ratio |\n|---|---|---|---|")
    for calls, workers in ((1000, 64), (1000, 8), (10_000, 64), (10_000, 1000)):
        case = Scenario(calls=calls, workers=workers, burst=1e9)
        (paced,), (free,) = counter.play(case, [1]), counter.play(replace(case, paced=False), [1])
        print(f"| {calls} calls, {workers} threads | {paced.wall:.2f} | {free.wall:.2f} | {paced.wall / free.wall:.2f} |")


def random_case(seed: int) -> Scenario:
    """A case that nothing was tuned for."""
    rng = Random(seed)
    refill = 10 ** rng.uniform(0.0, 2.3)
    burst = max(1.0, round(refill * rng.choice([1, 2, 5, 10, 20]) * rng.uniform(0.7, 1.3)))
    workers = rng.choice([4, 8, 16, 32, 64, 128])
    seconds = rng.uniform(20.0, 60.0)
    case = Scenario(
        calls=int(burst + refill * seconds),
        workers=workers,
        burst=burst,
        refill=refill,
        latency=min(10 ** rng.uniform(-2.0, -0.3), workers / refill / 1.3),
        spread=rng.choice([0.0, 0.1, 0.5]),
    )
    kind = rng.random()
    if kind < 0.15:  # noqa: PLR2004
        return replace(case, changes=((seconds / 3.0, rng.choice([0.25, 0.5, 2.0, 3.0])),))
    if kind < 0.25:  # noqa: PLR2004
        return replace(case, lump=rng.choice([0.2, 1.0]))
    if kind < 0.4:  # noqa: PLR2004
        return replace(case, tenant=refill * rng.choice([0.25, 0.5]), tenant_from=rng.uniform(0.0, seconds / 2.0))
    if kind < 0.5:  # noqa: PLR2004
        return replace(case, retry_after=float(rng.choice([1, 2, 5])))
    if kind < 0.6:  # noqa: PLR2004
        return replace(case, headers=True)
    return case


def random_cases(count: int, counter: Counter) -> None:
    print("\n| random cases | number | wall ≤ 1.05 | waste ≤ 2 % | both | calls failed | median wall | median waste % |")
    print("|---|---|---|---|---|---|---|---|")
    cases = {seed: random_case(seed) for seed in range(1000, 1000 + count)}
    easy = {seed for seed, case in cases.items() if case.latency <= 0.12 and 5.0 <= case.refill <= 50.0}  # noqa: PLR2004
    for name, paced in (("paced", True), ("no pacing, 20 retries", False)):
        played = {
            seed: counter.play(replace(case, paced=paced, max_retries=8 if paced else 20), [seed])[0]
            for seed, case in cases.items()
        }
        for title, seeds in (("", set(cases)), (", latency ≤ 120 ms, refill 5 to 50", easy)):
            results = [played[seed] for seed in sorted(seeds)]
            fast = [result.ratio <= 1.05 for result in results]  # noqa: PLR2004
            frugal = [result.waste <= 2.0 for result in results]  # noqa: PLR2004
            both = sum(one and other for one, other in zip(fast, frugal, strict=True))
            walls, wastes = sorted(result.ratio for result in results), sorted(result.waste for result in results)
            half = len(results) // 2
            print(
                f"| {name}{title} | {len(results)} | {sum(fast)} | {sum(frugal)} | {both} "
                f"| {sum(result.failed for result in results)} | {walls[half]:.3f} | {wastes[half]:.1f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--random", type=int, default=179)
    options = parser.parse_args()
    counter, seeds = Counter(), range(1, options.seeds + 1)
    table(GOALS, seeds, counter)
    reserve(seeds, counter)
    opening(counter)
    print()
    table(OTHERS, seeds, counter)
    random_cases(options.random, counter)
    print(f"\n{counter.events:,} events, {counter.events / counter.seconds:,.0f} a second of processor time")


if __name__ == "__main__":
    main()
