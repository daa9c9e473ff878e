"""What an egress pool costs: picking among many members, also while most or all of them are withheld, and a whole try.

    python benchmarks/pool.py

Prints a Markdown table. Times are CPU time of this process, the quickest of many blocks, so that other work on the machine
does not count.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Callable
from random import Random
from typing import get_args

from cloudretry.core.member_changes import Instant
from cloudretry.core.outcome import Phase
from cloudretry.core.pool import Pool, Wanted
from cloudretry.core.pool_settings import Algorithm, Cooldown, Member, PoolSettings
from cloudretry.core.tries import Hop, Reason, TryEnd
from cloudretry.egress.pool import EgressPool, Lease

SIZES = (10, 1_000, 10_000)
BLOCKS = 400
ROUNDS = 50  # of a block: short, so that some of them are left alone
OK = TryEnd(phase=Phase.DONE, first_byte=0.05)
REFUSED = TryEnd(phase=Phase.CONNECT, hop=Hop.MEMBER, reason=Reason.REFUSED)
NOW = Instant(1000.0, 1.0e9)


def settings(size: int, algorithm: Algorithm) -> PoolSettings:
    members = tuple(Member(name=f"member-{number}", url=f"http://proxy-{number}:3128") for number in range(size))
    return PoolSettings(name="benchmark", members=members, algorithm=algorithm, cooldown=Cooldown(initial=1e6, max=1e6))


def cool(pool: Pool, share: float) -> None:
    """Let a share of the members fail."""
    names = [member.name for member in pool.settings.members]
    for _ in range(round(len(names) * share)):
        grant = pool.pick(Wanted("ec2.eu-west-1.amazonaws.com", key=str(len(names))), NOW)
        if grant is not None:
            pool.finish(grant, REFUSED, NOW)


def picking(pool: Pool) -> tuple[float, float]:
    """Microseconds for a pick, and for the end of what was picked."""
    picks, ends = [], []
    wanted = [Wanted("ec2.eu-west-1.amazonaws.com", key=f"{number:012d}") for number in range(ROUNDS)]
    for _ in range(BLOCKS):
        start = time.process_time()
        grants = [pool.pick(item, NOW) for item in wanted]
        middle = time.process_time()
        for grant in grants:
            if grant is not None:
                pool.finish(grant, OK, NOW)
        picks.append((middle - start) / ROUNDS * 1e6)
        ends.append((time.process_time() - middle) / ROUNDS * 1e6)
    return min(picks), min(ends)


def quickest(work: Callable[[], object]) -> float:
    """Microseconds for a round, by the quickest block."""
    blocks = []
    for _ in range(BLOCKS):
        start = time.process_time()
        for _ in range(ROUNDS):
            work()
        blocks.append((time.process_time() - start) / ROUNDS * 1e6)
    return min(blocks)


def whole_try(size: int) -> float:
    pool = EgressPool(settings(size, "least_connections"))

    def one() -> None:
        with pool.tries(call="ec2:DescribeInstances").acquire("ec2.eu-west-1.amazonaws.com") as lease:  # type: ignore[union-attr]
            lease.end(OK)

    return quickest(one)


def whole_try_async(size: int) -> float:
    pool = EgressPool(settings(size, "least_connections"))

    async def blocks() -> float:
        times = []
        for _ in range(BLOCKS):
            start = time.process_time()
            for _ in range(ROUNDS):
                lease = await pool.tries(call="ec2:DescribeInstances").acquire_async("ec2.eu-west-1.amazonaws.com")
                assert isinstance(lease, Lease)  # noqa: S101 - narrows the type
                lease.end(OK)
            times.append((time.process_time() - start) / ROUNDS * 1e6)
        return min(times)

    return asyncio.run(blocks())


def main() -> None:
    print(f"CPython {platform.python_version()}, {os.cpu_count()} cores; microseconds\n")
    print("| algorithm | members | pick | end | pick, 90 % cooling | pick, all cooling |\n|---|---|---|---|---|---|")
    for algorithm in get_args(Algorithm):
        for size in SIZES:
            cells = []
            for share in (0.0, 0.9, 1.0):
                pool = Pool(settings(size, algorithm), NOW, Random(1))
                cool(pool, share)
                cells.append(picking(pool))
            (pick, end), (most, _), (none, _) = cells
            print(f"| {algorithm} | {size} | {pick:.1f} | {end:.1f} | {most:.1f} | {none:.1f} |")
    print("\n| a whole try: begin a call, acquire, end | sync | asyncio |\n|---|---|---|")
    for size in SIZES:
        print(f"| {size} members | {whole_try(size):.1f} | {whole_try_async(size):.1f} |")


if __name__ == "__main__":
    main()
