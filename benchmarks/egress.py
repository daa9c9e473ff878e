"""What a way out through a pool's member costs where nothing fails, beside the SDK's own session, for the three transports.

    python benchmarks/egress.py

Prints a Markdown table. The server is a process of its own on loopback. The kinds of requests take turns in blocks, in every
order, so that whatever else the machine does meets all alike; one by one, each would spoil what the interpreter has learned
from the other's classes. The SDK's own stands there twice, to show the noise. A way's part is all of it: finding it, the
record, sending, and reading how it ended.
"""

from __future__ import annotations

import asyncio
import gc
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from itertools import permutations
from typing import Any, TypeAlias

from azure.core.pipeline.transport import AioHttpTransport, RequestsTransport
from azure.core.rest import HttpRequest
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from cloudretry.core.pool_settings import Member, PoolSettings
from cloudretry.egress.aiohttp_way import AiohttpWay, close_all
from cloudretry.egress.botocore_way import BotocoreWay
from cloudretry.egress.ends import end_of
from cloudretry.egress.record import Record
from cloudretry.egress.requests_way import RequestsWay
from cloudretry.egress.ways import Ways

BLOCKS = 60
BLOCK = 100
LEARNING = 30  # of a block, not counted
PIECES = 200_000
MEMBER = Member(name="direct", direct=True)
SETTINGS = PoolSettings(name="pool", members=(MEMBER,))

SERVER = """
import asyncio
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nContent-Type: application/json\\r\\n\\r\\n{}"
class Server(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(ANSWER)
async def main():
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def loopback_server() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own text
    try:
        assert process.stdout is not None  # noqa: S101 - narrows the type
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/"
    finally:
        process.terminate()
        process.wait()


def through(ways: Ways[Any], request: Any) -> None:
    record = Record()
    end_of(record, ways.of(MEMBER).send(request, record))


async def through_async(ways: Ways[Any], request: Any) -> None:
    record = Record()
    end_of(record, await ways.of(MEMBER).send(request, record))


Times: TypeAlias = tuple[float, float, float]


def orders() -> Iterator[list[int]]:
    """Each kind of sender comes after each other one as often."""
    every = [list(order) for order in permutations(range(3))]
    for number in range(BLOCKS):
        yield every[number % len(every)]


def medians(times: list[list[float]]) -> Times:
    first, second, third = (statistics.median(of_one) * 1e6 for of_one in times)
    return first, second, third


def compared(*senders: Callable[[], object]) -> Times:
    times: list[list[float]] = [[], [], []]
    for order in orders():
        for kind in order:
            for number in range(BLOCK):
                start = time.perf_counter()
                senders[kind]()
                if number >= LEARNING:
                    times[kind].append(time.perf_counter() - start)
    return medians(times)


def with_botocore(url: str) -> Times:
    session, control = URLLib3Session(), URLLib3Session()
    ways = Ways(lambda member: BotocoreWay(session, member, SETTINGS))
    request = AWSRequest("GET", url).prepare()
    request.stream_output = False
    return compared(lambda: session.send(request), lambda: control.send(request), lambda: through(ways, request))


def with_requests(url: str, *, environment: bool) -> Times:
    transport, control = (RequestsTransport(use_env_settings=environment) for _ in range(2))
    ways = Ways(lambda member: RequestsWay(transport, member, SETTINGS))
    request = HttpRequest("GET", url)
    return compared(lambda: transport.send(request), lambda: control.send(request), lambda: through(ways, request))


async def with_aiohttp(url: str, *, environment: bool) -> Times:
    transport, control = (AioHttpTransport(use_env_settings=environment) for _ in range(2))
    ways = Ways(lambda member: AiohttpWay(transport, member, SETTINGS))
    request = HttpRequest("GET", url)
    senders: list[Callable[[], Any]] = [
        lambda: transport.send(request),
        lambda: control.send(request),
        lambda: through_async(ways, request),
    ]
    times: list[list[float]] = [[], [], []]
    for order in orders():
        for kind in order:
            for number in range(BLOCK):
                start = time.perf_counter()
                await senders[kind]()
                if number >= LEARNING:
                    times[kind].append(time.perf_counter() - start)
    await close_all(ways)
    await transport.close()
    await control.close()
    return medians(times)


def pieces() -> dict[str, float]:
    """Microseconds of what a way adds around the SDK's own sending."""

    class Answer:
        status_code = 200
        headers: dict[str, str] = {}  # noqa: RUF012 - of one process

    class Nothing:
        def send(self, _: object, __: object) -> Answer:
            return answer

        def close(self) -> None:
            pass

        def is_usable(self) -> bool:
            return True

        def is_busy(self) -> bool:
            return False

    answer = Answer()
    ways = Ways(lambda _: Nothing())
    start = time.perf_counter()
    for _ in range(PIECES):
        through(ways, None)
    return {"finding the way, record, end": (time.perf_counter() - start) / PIECES * 1e6}


def main() -> None:
    gc.disable()
    versions = ", ".join(f"{name} {version(name)}" for name in ("urllib3", "requests", "aiohttp"))
    counted = BLOCKS * (BLOCK - LEARNING)
    print(f"Python {platform.python_version()}, {versions}; medians of {counted} requests each, microseconds\n")
    print("| transport | the SDK's own | the same again | through a way | more |\n|---|--:|--:|--:|--:|")
    with loopback_server() as url:
        for name, (plain, control, ours) in {
            "botocore": with_botocore(url),
            "requests": with_requests(url, environment=True),
            "requests, use_env_settings=False": with_requests(url, environment=False),
            "aiohttp": asyncio.run(with_aiohttp(url, environment=True)),
            "aiohttp, use_env_settings=False": asyncio.run(with_aiohttp(url, environment=False)),
        }.items():
            print(f"| {name} | {plain:.0f} | {control:.0f} | {ours:.0f} | {ours - (plain + control) / 2:+.1f} |")
    for name, cost in pieces().items():
        print(f"\n{name}: {cost:.1f}")


if __name__ == "__main__":
    main()
