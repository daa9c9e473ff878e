"""What an egress pool adds to a boto3 call where nothing fails: the sum of our pieces, and whole calls.

    python -m benchmarks.pool_call

The server is a process of its own on loopback. Calls with a pool and without take turns in blocks; the one without stands there
twice, to show the noise. The pieces are all that a pool adds to a call, around a way that answers at once: in a loop, which
has them in the processor's caches, and each alone after a whole call, which has thrown them out, as it is in a program.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import boto3

from benchmarks.egress import loopback_server
from cloudretry import attach
from cloudretry.config import load_configuration
from cloudretry.core.call import Call
from cloudretry.core.machine import RetryMachine
from cloudretry.egress.passages import Passages
from cloudretry.runtime.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCKS = 60
BLOCK = 100
LEARNING = 30  # of a block, not counted
PIECES = 20_000
ROUNDS = 10
ALONE = 1_000
MEMBERS = (1, 10, 1_000)
HOST = "lambda.cloud.test"
CALL = Call(provider="aws", service="lambda", operation="ListFunctions", region="eu-west-1", host=HOST, replayable=True)


Work: TypeAlias = "Callable[[], object]"


def configuration(pool: dict[str, Any] | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"pacing": {"mode": "off"}}
    return {"aws": entry} if pool is None else {"aws": {**entry, "pool": "p"}, "pools": {"p": pool}}


def client(url: str, pool: dict[str, Any] | None) -> Any:
    session: Any = boto3.Session("AKIAIOSFODNN7EXAMPLE", "fake", region_name="eu-west-1")
    return attach(session.client("lambda", endpoint_url=url), configuration=configuration(pool))


def whole_calls(url: str) -> list[float]:
    """Medians: without a pool, the same again, with one."""
    pool = {"members": [{"connect_to": url.strip("/").removeprefix("http://")}]}
    clients = [client(url, None), client(url, None), client(f"http://{HOST}", pool)]
    times: list[list[float]] = [[], [], []]
    for block in range(BLOCKS):
        for kind in (block % 3, (block + 1) % 3, (block + 2) % 3):
            for number in range(BLOCK):
                start = time.perf_counter()
                clients[kind].list_functions()
                if number >= LEARNING:
                    times[kind].append(time.perf_counter() - start)
    return [statistics.median(of_one) * 1e6 for of_one in times]


def answering_way() -> Any:
    """Answers at once."""

    def send(_: object, record: Any) -> Any:
        record.first_byte = 0.05
        return SimpleNamespace(status_code=200, headers={})

    return SimpleNamespace(send=send, close=lambda: None, is_usable=lambda: True, is_busy=lambda: False)


def through_and_without(members: int) -> tuple[Work, Work]:
    """A call's way through a pool, and what of it is none of the pool's."""
    urls = [f"http://proxy-{number}:3128" for number in range(members)]
    engine = Engine(load_configuration(configuration({"members": urls})).settings)
    settings = engine.settings.providers["aws"].for_call(CALL)
    way = answering_way()
    passages = Passages(lambda *_: way, lambda *_: None)

    def through() -> None:
        machine = RetryMachine(CALL, settings, started=0.0, rng=Random(1))
        passage = passages.of(engine, machine, HOST, None)
        assert passage is not None  # noqa: S101 - narrows the type
        passage.send(machine, HOST, lambda way, record: way.send(None, record))
        machine.journey.seen(None)

    def without() -> None:
        RetryMachine(CALL, settings, started=0.0, rng=Random(1))
        way.send(None, SimpleNamespace())

    return through, without


def pieces(members: int) -> float:
    """Microseconds: the quickest of some rounds, less what the way itself takes."""
    through, without = through_and_without(members)
    return _quickest(through) - _quickest(without)


def pieces_alone(members: int, url: str) -> float:
    """Microseconds: the lower quartile of single goes, each after a whole call without a pool."""
    plain, works = client(url, None), through_and_without(members)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ALONE):
        for work, of_one in zip(works, times, strict=True):
            plain.list_functions()
            start = time.perf_counter()
            work()
            of_one.append((time.perf_counter() - start) * 1e6)
    through, without = (statistics.quantiles(of_one, n=4)[0] for of_one in times)
    return through - without


def _quickest(work: Work) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(PIECES // ROUNDS):
            work()
        times.append((time.process_time() - start) / (PIECES // ROUNDS) * 1e6)
    return min(times)


def main() -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "CLOUDRETRY")) or name.upper().endswith("_PROXY"):
            del os.environ[name]
    gc.disable()
    print("| sum of our pieces, µs (budget 30) | 1 member | 10 | 1 000 |\n|---|--:|--:|--:|")
    print("| boto3, in a loop | " + " | ".join(f"{pieces(members):.1f}" for members in MEMBERS) + " |")
    with loopback_server() as url:
        print("| boto3, each alone | " + " | ".join(f"{pieces_alone(members, url):.1f}" for members in MEMBERS) + " |")
        plain, again, pooled = whole_calls(url)
    print(f"\na whole call: {plain:.0f} without a pool, {again:.0f} the same again, {pooled:.0f} with one")


if __name__ == "__main__":
    main()
