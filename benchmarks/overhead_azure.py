"""What cloudretry costs an Azure management call where nothing is throttled: the sum of its pieces, and a paired run.

    python benchmarks/overhead_azure.py

Prints a Markdown table for `resource_groups.get`, sync and aio: our pieces by themselves, our policy against azure-core's own
in memory, and whole calls to a server on loopback, alternating, so that whatever else the machine does meets both alike.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import azure.core
from azure.core.pipeline import PipelineContext, PipelineRequest, PipelineResponse
from azure.core.pipeline.policies import AsyncHTTPPolicy, AsyncRetryPolicy, HTTPPolicy, RetryPolicy, SansIOHTTPPolicy

import cloudretry
from cloudretry.azure.policy import AsyncCloudRetryPolicy, CloudRetryPolicy
from cloudretry.azure.run import Run, begin, read_streamed
from cloudretry.runtime.engine import Engine
from cloudretry.runtime.pacing import PACING

try:
    resources: Any = importlib.import_module("azure.mgmt.resource.resources")
except ImportError:  # azure-mgmt-resource before 23
    resources = importlib.import_module("azure.mgmt.resource")
aio_resources: Any = importlib.import_module(f"{resources.__name__}.aio")

PIECES_ROUNDS = 20_000
PAIRED_ROUNDS = 2_000
SUBSCRIPTION = "00000000-0000-0000-0000-0000000000aa"

SERVER = """
import http.server
BODY = b'{"name": "one", "location": "westeurope", "id": "/subscriptions/x/resourceGroups/one", "properties": {}}'
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    def do_GET(self):
        self.send_response_only(200)
        for name, value in (("Content-Length", len(BODY)), ("Content-Type", "application/json; charset=utf-8"),
                            ("x-ms-ratelimit-remaining-subscription-reads", 249), ("x-ms-request-id", "1"),
                            ("x-ms-correlation-request-id", "1"), ("Cache-Control", "no-cache")):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(BODY)
        self.wfile.flush()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def loopback_server() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own text
    try:
        assert process.stdout is not None  # noqa: S101 - narrows the type
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait()


def client(kind: Any, url: str, **options: Any) -> Any:
    return kind(object(), SUBSCRIPTION, base_url=url, authentication_policy=SansIOHTTPPolicy(), **options)


def microseconds(work: Callable[[], object], rounds: int) -> float:
    """Median of ten blocks, per round."""
    blocks = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(rounds // 10):
            work()
        blocks.append((time.perf_counter() - start) / (rounds // 10) * 1e6)
    return statistics.median(blocks)


async def microseconds_async(work: Callable[[], Awaitable[object]], rounds: int) -> float:
    blocks = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(rounds // 10):
            await work()
        blocks.append((time.perf_counter() - start) / (rounds // 10) * 1e6)
    return statistics.median(blocks)


class Keeps(HTTPPolicy[Any, Any]):
    """Keeps the last real exchange of a client; afterwards gives that response without sending."""

    seen: Any = None

    def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Send once."""
        if self.seen is None:
            response = self.next.send(request)
            self.seen = (request.http_request, response.http_response, request.context.transport, request.context.options)
            return response
        return PipelineResponse(request.http_request, self.seen[1], request.context)


class AsyncKeeps(AsyncHTTPPolicy[Any, Any]):
    """The same in an aio client."""

    seen: Any = None

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Send once."""
        if self.seen is None:
            response = await self.next.send(request)
            self.seen = (request.http_request, response.http_response, request.context.transport, request.context.options)
            return response
        return PipelineResponse(request.http_request, self.seen[1], request.context)


def request_like(seen: Any) -> PipelineRequest[Any]:
    """A new pass of the same request."""
    http, _, transport, options = seen
    return PipelineRequest(http, PipelineContext(transport, **{**options, "connection_timeout": 300}))


def engine() -> Engine:
    return Engine(cloudretry.load_configuration({}).settings, listeners=[cloudretry.Report()])


def pieces(policy: Any, below: Any) -> dict[str, float]:
    """Each by itself, in the order of a call."""
    PACING.forget()  # what the server of the other runs said of its limits
    policy.next, seen = below, below.seen
    request, mine = request_like(seen), policy.engine
    del request.context.options["connection_timeout"]
    machine = begin(mine, request, None, None)
    run = Run(policy, mine, machine, request)
    response = PipelineResponse(request.http_request, seen[1], request.context)

    def take_turn() -> None:
        mine.take_turn(machine)
        with machine.place.turn:
            pass
        mine.landed(machine, None)

    def end() -> None:
        machine.told = False
        run.ended_by(response, None)

    def judge() -> None:
        read_streamed(response.http_response, request.context.options)
        run.failure_in(response)

    return {
        "begin the call": microseconds(lambda: begin(mine, request, None, None), PIECES_ROUNDS),
        "take the SDK's options": microseconds(lambda: Run(policy, mine, machine, request), PIECES_ROUNDS),
        "take a turn, use it, say that it was answered": microseconds(take_turn, PIECES_ROUNDS),
        "prepare the attempt": microseconds(run.prepared, PIECES_ROUNDS),
        "see the answer": microseconds(judge, PIECES_ROUNDS),
        "count it": microseconds(end, PIECES_ROUNDS),
    }


def in_memory(policy: Any, below: Keeps) -> float:
    policy.next = below
    return microseconds(lambda: policy.send(request_like(below.seen)), PIECES_ROUNDS) - microseconds(
        lambda: below.send(request_like(below.seen)), PIECES_ROUNDS
    )


async def in_memory_async(policy: Any, below: AsyncKeeps) -> float:
    policy.next = below
    whole = await microseconds_async(lambda: policy.send(request_like(below.seen)), PIECES_ROUNDS)
    return whole - await microseconds_async(lambda: below.send(request_like(below.seen)), PIECES_ROUNDS)


def alternating(plain: Any, hooked: Any) -> tuple[float, float]:
    """Medians of whole calls, in microseconds."""
    times: dict[str, list[float]] = {"plain": [], "hooked": []}
    for round_number in range(PAIRED_ROUNDS + 100):
        pair = [("plain", plain), ("hooked", hooked)]
        for name, one in pair if round_number % 2 else reversed(pair):
            start = time.perf_counter()
            one.resource_groups.get("one")
            times[name].append((time.perf_counter() - start) * 1e6)
    return statistics.median(times["plain"][100:]), statistics.median(times["hooked"][100:])


async def alternating_async(plain: Any, hooked: Any) -> tuple[float, float]:
    times: dict[str, list[float]] = {"plain": [], "hooked": []}
    for round_number in range(PAIRED_ROUNDS + 100):
        pair = [("plain", plain), ("hooked", hooked)]
        for name, one in pair if round_number % 2 else reversed(pair):
            start = time.perf_counter()
            await one.resource_groups.get("one")
            times[name].append((time.perf_counter() - start) * 1e6)
    return statistics.median(times["plain"][100:]), statistics.median(times["hooked"][100:])


def sync_rows(url: str) -> dict[str, float]:
    keeps = Keeps()
    with client(resources.ResourceManagementClient, url, per_retry_policies=[keeps]) as kept:
        kept.resource_groups.get("one")
    rows = pieces(CloudRetryPolicy(engine=engine()), keeps)
    rows["sum"] = sum(rows.values())
    rows["ours"], rows["theirs"] = in_memory(CloudRetryPolicy(engine=engine()), keeps), in_memory(RetryPolicy(), keeps)
    kind = resources.ResourceManagementClient
    with client(kind, url) as plain, client(kind, url) as hooked:
        cloudretry.attach(hooked, configuration={}, report=cloudretry.Report())
        rows["plain"], rows["hooked"] = alternating(plain, hooked)
    return rows


async def aio_rows(url: str) -> dict[str, float]:
    keeps = AsyncKeeps()
    async with client(aio_resources.ResourceManagementClient, url, per_retry_policies=[keeps]) as kept:
        await kept.resource_groups.get("one")
    rows = pieces(AsyncCloudRetryPolicy(engine=engine()), keeps)
    rows["sum"] = sum(rows.values())
    rows["ours"] = await in_memory_async(AsyncCloudRetryPolicy(engine=engine()), keeps)
    rows["theirs"] = await in_memory_async(AsyncRetryPolicy(), keeps)
    kind = aio_resources.ResourceManagementClient
    async with client(kind, url) as plain, client(kind, url) as hooked:
        cloudretry.attach(hooked, configuration={}, report=cloudretry.Report())
        rows["plain"], rows["hooked"] = await alternating_async(plain, hooked)
    return rows


NAMES = {
    "sum": "**sum of our pieces**",
    "ours": "our policy's send, in memory",
    "theirs": "azure-core's own, in memory",
    "plain": f"a call under azure-core's own policy, median of {PAIRED_ROUNDS}",
    "hooked": "the same under cloudretry, alternating",
}


def main() -> None:
    for name in [name for name in os.environ if name.startswith("AZURE_") or name.upper().endswith("_PROXY")]:
        del os.environ[name]
    with loopback_server() as url:
        sync, aio = sync_rows(url), asyncio.run(aio_rows(url))
    print(f"azure-core {azure.core.__version__}, CPython {platform.python_version()}, {os.cpu_count()} cores\n")
    print("| piece of an un-throttled call | sync, µs | aio, µs |\n|---|---|---|")
    for name in sync:
        shown = ".0f" if name in ("plain", "hooked") else ".1f"
        print(f"| {NAMES.get(name, name)} | {sync[name]:{shown}} | {aio[name]:{shown}} |")


if __name__ == "__main__":
    main()
