"""What pacing reaches, in virtual time: the cases that it was made for, some that it was not, and random ones.

    python -m benchmarks.pacing_virtual [--seeds 5] [--random 179]
    python -m benchmarks.pacing_virtual --weak [--seeds 5]

Prints Markdown tables; `--weak`: those of what pacing is weak at, and no others. wall: time until the last answer, over the
ideal, which is when the provider's true refill, less what its other tenants take, has covered the work (or when the workers
could have made the calls). Each cell: mean over the seeds, and the worst. waste: throttled answers in % of the calls.
Deterministic for given seeds: nothing here depends on the machine but the events per second of processor time. An event is
that a call arrives at the provider or its answer at the worker, that an alarm of a pacer rings, or that a neighbour calls.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
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
SIZES: Final = ("100 workers, N = 3000", "1 000 workers", "10 000 workers, refill 100")
LONG_WAY: Final = {
    f"latency {latency:.0f} s, {5 * refill:.0f}/{refill:.0f}, {'prior' if prior else 'nothing known'}": (
        "",
        Scenario(
            calls=int(65 * refill),
            workers=int(2 * latency * refill),
            burst=5 * refill,
            refill=refill,
            latency=latency,
            prior=Limit(refill, 5 * refill) if prior else None,
        ),
    )
    for latency in (1.0, 3.0)
    for refill in (20.0, 100.0)
    for prior in (False, True)
}
TINY: Final = Scenario(calls=60, workers=8, burst=1.0, refill=0.5)
TINIES: Final = {
    "1/0.5, N = 60, 8 threads": ("", TINY),
    "the same, prior": ("", replace(TINY, prior=Limit(0.5, 1.0))),
    "the same, N = 600, nothing known": ("", replace(TINY, calls=600)),
    "the same, N = 600, prior": ("", replace(TINY, calls=600, prior=Limit(0.5, 1.0))),
    "the same, N = 60, nothing known, 1 thread": ("", replace(TINY, workers=1)),
}
SHARED: Final = replace(EC2, calls=600, workers=16)
HALVED: Final = replace(MANY, changing=1, changes=((20.0, 0.5), (40.0, 1.0)))


class Counter:
    """Events, and the processor time that they took; `speeds`: events a second of the cases that have a name."""

    def __init__(self) -> None:
        self.events = 0
        self.seconds = 0.0
        self.speeds: dict[str, float] = {}

    def play(self, case: Scenario, seeds: Iterable[int], name: str = "") -> list[Result]:
        """Run one case with several seeds."""
        begun = time.process_time()
        results = [run(case, seed) for seed in seeds]
        seconds, events = time.process_time() - begun, sum(result.events for result in results)
        self.seconds += seconds
        self.events += events
        self.speeds[name] = events / seconds
        return results

    def print(self) -> None:
        """How quick the benchmark itself is."""
        print(f"\n{self.events:,} events, {self.events / self.seconds:,.0f} a second of processor time")
        for name in filter(self.speeds.get, SIZES):
            print(f"{name}: {self.speeds[name]:,.0f} a second")


def worst(values: list[float], form: str) -> str:
    return f"{mean(values):{form}} ({max(values):{form}})"


def table(cases: dict[str, tuple[str, Scenario]], seeds: range, counter: Counter) -> None:
    print("| case | goal | wall / ideal | waste % | failed | p99 s | Jain |\n|---|---|---|---|---|---|---|")
    for name, (goal, case) in cases.items():
        results = counter.play(case, seeds, name)
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
        shares = [sum(moment > 10.0 for moment in result.moments[0]) / (case.refill * 50.0) for result in results]  # noqa: PLR2004 - see the header
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


def neighbours(seeds: range, counter: Counter) -> None:
    """What processes come to that share a quota and don't know of each other; those that don't pace are left out."""
    print("| 600 calls, 16 threads; EC2, nothing known | done / ideal | waste % | lowest share | longest pause s | lost |")
    print("|---|---|---|---|---|---|")
    for others in (1, 3, 9):
        case = replace(SHARED, calls=600 * (1 + others), workers=16 * (1 + others), processes=1 + others)
        _neighbours_row(f"beside {others} that pace, too", case, seeds, counter)
    for others in (1, 3, 9):
        case = replace(SHARED, calls=2000 * (1 + others), workers=16 * (1 + others), processes=1 + others, late=30.0)
        _neighbours_row(f"the first of {1 + others} comes 30 s late, 2000 calls each", case, seeds, counter)
    for others in (1, 3, 9):
        case = replace(SHARED, calls=600 * (1 + others), workers=16 * (1 + others), processes=1 + others, foreign=others)
        _neighbours_row(f"beside {others} that don't pace, 8 retries", case, seeds, counter)


def _neighbours_row(name: str, case: Scenario, seeds: range, counter: Counter) -> None:
    done, wastes, shares, pauses, lost = [], [], [], [], 0
    for result in counter.play(case, seeds):
        first = min(moments[-1] for moments in result.moments)  # while all of them work, each should have as much
        fair = sum(case.late < moment <= first for moments in result.moments for moment in moments) / case.processes
        for index in range(case.processes - case.foreign):
            moments, start = result.moments[index], 0.0 if index else case.late
            done.append(moments[-1] / result.ideal)
            wastes.append(100.0 * result.pacers[index].rate.throttled / len(moments))
            shares.append(sum(case.late < moment <= first for moment in moments) / fair)
            pauses.append(max(after - before for before, after in pairwise([start, *moments])))
            lost += case.calls // case.processes - len(moments)
    print(f"| {name} | {worst(done, '.3f')} | {worst(wastes, '.1f')} | {min(shares):.2f} | {max(pauses):.1f} | {lost} |")


def first_second(seeds: range, counter: Counter) -> None:
    print("\n| 1 000 threads, nothing known | accepted in the first second | throttled in it | waste % in it | in the whole |")
    print("|---|---|---|---|---|")
    for burst, refill in ((100.0, 20.0), (5.0, 2.0), (1.0, 0.5), (1000.0, 200.0)):
        for latency in (0.05, 0.5):
            for paced in (True, False):
                case = Scenario(
                    calls=int(burst + 100 * refill), workers=1000, burst=burst, refill=refill, latency=latency, paced=paced
                )
                begun = counter.play(replace(case, until=1.0), seeds)
                whole = counter.play(replace(case, max_retries=8 if paced else 20), seeds)
                name = f"{burst:g}/{refill:g}, latency {1000 * latency:.0f} ms{'' if paced else ', no pacing'}"
                print(
                    f"| {name} | {mean([result.accepted for result in begun]):.0f} "
                    f"| {mean([result.throttled for result in begun]):.1f} "
                    f"| {mean([result.waste for result in begun]):.1f} | {worst([result.waste for result in whole], '.1f')} |"
                )


def halved_and_doubled(seeds: range, counter: Counter) -> None:
    print(
        "\n| 20 quotas, N = 1000 each; one is halved at 20 s, doubled at 40 s | wall / ideal | waste % in it | in the others |"
    )
    print("|---|---|---|---|")
    for name, case in (
        ("32 callers", replace(HALVED, workers=32)),
        ("64 callers", HALVED),
        ("256 callers", replace(HALVED, workers=256)),
        ("64 callers, priors", replace(HALVED, prior=PUBLISHED)),
        ("64 callers, doubled twice", replace(HALVED, changes=((20.0, 0.5), (40.0, 2.0)))),
        ("32 callers of that quota alone", replace(HALVED, calls=1000, quotas=1, workers=32)),
    ):
        results = counter.play(case, seeds)
        wastes = [[100.0 * each.rate.throttled / each.rate.accepted for each in result.pacers] for result in results]
        others = worst([waste for first, *rest in wastes for waste in rest], ".1f") if case.quotas > 1 else ""
        walls = worst([result.ratio for result in results], ".3f")
        print(f"| {name} | {walls} | {worst([each[0] for each in wastes], '.1f')} | {others} |")


def weak(seeds: range, counter: Counter) -> None:
    neighbours(seeds, counter)
    print()
    table(LONG_WAY | TINIES, seeds, counter)
    first_second(seeds, counter)
    halved_and_doubled(seeds, counter)


def usual(count: int, seeds: range, counter: Counter) -> None:
    table(GOALS, seeds, counter)
    reserve(seeds, counter)
    opening(counter)
    print()
    table(OTHERS, seeds, counter)
    random_cases(count, counter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--random", type=int, default=179)
    parser.add_argument("--weak", action="store_true")
    options = parser.parse_args()
    counter, seeds = Counter(), range(1, options.seeds + 1)
    if options.weak:
        weak(seeds, counter)
    else:
        usual(options.random, seeds, counter)
    counter.print()


if __name__ == "__main__":
    main()
