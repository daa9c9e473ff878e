"""How fast the simulated AWS answers and starts, beside moto's own development server with the same inventory.

    python benchmarks/simcloud.py

Prints Markdown tables. Each server is a process of its own on loopback; sixteen connections in this process ask without
a pause. moto's server throttles nobody, so the row of throttles compares ours with what it does instead: it answers.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path

import cloudretry
from cloudretry.simcloud import UNLIMITED, Limit, Rule, simulated_aws

CONNECTIONS = 16
ROUND_S = 6.0  # sixteen long pages at once take moto two seconds
ROUNDS = 3
STARTS = 5
REGIONS = ("eu-west-1",)
NO_TOKENS = (Rule(service="*", actions=("*",), limit=Limit(1, 0), source="this benchmark"),)

Running = tuple[str, str, str]
"""Address, account, access key."""

MOTO = """
import os, sys
os.environ |= {"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"}
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
account, key = "123456789012", "AKIAIOSFODNN7EXAMPLE"
if "full" in sys.argv:
    from cloudretry.simcloud.inventory import build_inventory
    [(account, keys)] = build_inventory(0, 1, ("eu-west-1",)).credentials.items()
    key = keys["aws_access_key_id"]
app = DomainDispatcherApplication(create_backend_app)
server = make_server("127.0.0.1", 0, app, threaded=True)  # as moto.server does
print(server.server_port, account, key, flush=True)
server.serve_forever()
"""


@contextmanager
def moto_server(*arguments: str) -> Iterator[Running]:
    environment = {**os.environ, "PYTHONPATH": str(Path(cloudretry.__file__).parents[1])}
    command = [sys.executable, "-c", MOTO, *arguments]
    process = subprocess.Popen(  # noqa: S603 - our own text
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        assert process.stdout is not None  # noqa: S101 - narrows the type
        port, account, key = process.stdout.readline().split()
        yield f"127.0.0.1:{port}", account, key
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def simulated(limits: tuple[Rule, ...], *, accounts: int = 1, regions: tuple[str, ...] = REGIONS) -> Iterator[Running]:
    with simulated_aws(accounts=accounts, regions=regions, limits=limits) as aws:
        account = aws.accounts[0]
        yield aws.url.removeprefix("http://"), account, aws.credentials(account)["aws_access_key_id"]


def form(service: str, text: str) -> Callable[[Running], bytes]:
    def request(running: Running) -> bytes:
        address, account, key = running
        lines = [
            "POST / HTTP/1.1",
            f"Host: {address}",
            f"Authorization: AWS4-HMAC-SHA256 Credential={key}/20260101/eu-west-1/{service}/aws4_request, SignedHeaders=x",
            f"x-moto-account-id: {account}",
            "Content-Type: application/x-www-form-urlencoded; charset=utf-8",
            f"Content-Length: {len(text)}",
        ]
        return "\r\n".join([*lines, "", text]).encode()

    return request


IDENTITY = form("sts", "Action=GetCallerIdentity&Version=2011-06-15")
INSTANCES = form("ec2", "Action=DescribeInstances&Version=2016-11-15&MaxResults=20")
VPCS = form("ec2", "Action=DescribeVpcs&Version=2016-11-15")


class Asker(asyncio.Protocol):
    """Asks again as soon as it was answered, on a new connection where the server closed the old one."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._received = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask the first time."""
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - narrows the type
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Count a whole answer and ask again."""
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or len(body) < self._length(head):
            return
        self._load.count(int(head[9:12]))
        self._received.clear()
        if head.startswith(b"HTTP/1.1") and b"connection: close" not in head.lower():
            self._ask()

    def connection_lost(self, _error: Exception | None) -> None:
        """Make room for another."""
        self._load.connect()

    def _ask(self) -> None:
        if self._transport is not None:
            self._transport.write(self._load.request)

    @staticmethod
    def _length(head: bytearray) -> int:
        return int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])


class Load:
    """Sixteen askers of one question; `statuses` counts the answers."""

    def __init__(self, running: Running, question: Callable[[Running], bytes]) -> None:
        self.request = question(running)
        self.statuses: dict[int, int] = {}
        self._host, _, self._port = running[0].partition(":")
        self._tasks: set[asyncio.Task[object]] = set()
        self._over = False

    def count(self, status: int) -> None:
        """Count an answer."""
        self.statuses[status] = self.statuses.get(status, 0) + 1

    def connect(self) -> None:
        """Let one more ask."""
        if not self._over:
            loop = asyncio.get_running_loop()
            task = loop.create_task(loop.create_connection(lambda: Asker(self), self._host, int(self._port)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def run(self, seconds: float) -> float:
        """Answers a second."""
        for _ in range(CONNECTIONS):
            self.connect()
        await asyncio.sleep(0.2)  # until all are connected
        self.statuses.clear()
        start = time.perf_counter()
        await asyncio.sleep(seconds)
        rate = sum(self.statuses.values()) / (time.perf_counter() - start)
        self._over = True
        return rate


def ask(running: Running, question: Callable[[Running], bytes], status: int) -> float:
    """Answers a second in one round; each has to have the status."""
    load = Load(running, question)
    rate = asyncio.run(load.run(ROUND_S))
    assert load.statuses.keys() == {status}, load.statuses  # noqa: S101 - or the numbers mean something else
    return rate


def rates(limits: tuple[Rule, ...], question: Callable[[Running], bytes], status: int) -> tuple[float, float]:
    """Medians of alternating rounds, ours and moto's."""
    with simulated(limits) as ours, moto_server("full") as theirs:
        for server in (ours, theirs):
            asyncio.run(Load(server, question).run(1.0))  # warms it, and takes the only token
        rounds = [(ask(ours, question, status), ask(theirs, question, HTTPStatus.OK)) for _ in range(ROUNDS)]
    return statistics.median(our for our, _ in rounds), statistics.median(their for _, their in rounds)


def start_s(make: Callable[[], AbstractContextManager[Running]]) -> float:
    """Median seconds until the first answer."""
    taken = []
    for _ in range(STARTS):
        start = time.perf_counter()
        with make() as running:
            connection = http.client.HTTPConnection(running[0], timeout=60)
            connection.request("GET", "/")
            connection.getresponse().read()
            taken.append(time.perf_counter() - start)
            connection.close()
    return statistics.median(taken)


def main() -> None:
    cores = os.cpu_count()
    print(f"moto {version('moto')}, aiohttp {version('aiohttp')}, CPython {platform.python_version()}, {cores} cores\n")
    print("| answers a second | simulated AWS | moto's server |\n|---|---|---|")
    for name, limits, question, status in (
        (
            "throttled (by moto answered): ec2 DescribeInstances, 20 a page",
            NO_TOKENS,
            INSTANCES,
            HTTPStatus.SERVICE_UNAVAILABLE,
        ),
        ("accepted: ec2 DescribeInstances, 20 a page", UNLIMITED, INSTANCES, HTTPStatus.OK),
        ("accepted: ec2 DescribeVpcs", UNLIMITED, VPCS, HTTPStatus.OK),
        ("accepted: sts GetCallerIdentity", UNLIMITED, IDENTITY, HTTPStatus.OK),
    ):
        ours, theirs = rates(limits, question, status)
        print(f"| {name} | {ours:,.0f} | {theirs:,.0f} |", flush=True)
    print("\n| start until the first answer | seconds |\n|---|---|")
    four = ("eu-central-1", "eu-west-1", "us-east-1", "us-west-2")
    for name, make in (
        ("simulated AWS, 1 account, 1 region", lambda: simulated(UNLIMITED)),
        ("simulated AWS, 3 accounts, 4 regions", lambda: simulated(UNLIMITED, accounts=3, regions=four)),
        ("moto's server, the same 1 account, 1 region", lambda: moto_server("full")),
        ("moto's server, empty", moto_server),
    ):
        print(f"| {name} | {start_s(make):.2f} |", flush=True)


if __name__ == "__main__":
    main()
