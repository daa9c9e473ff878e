"""A change is never executed twice, wherever the connection is reset: the server counts what it executed."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import boto3
import pytest
from azure.core.exceptions import AzureError
from botocore.exceptions import BotoCoreError, ClientError

from cloudretry import attach
from cloudretry.testing import virtual_clock

pytestmark = pytest.mark.wire

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-ms-request-id: 1\r\nContent-Length: 2\r\n\r\n{}"


class Executing:
    """Executes what it has read to the end, by the name in its header; resets before, within or after that, by chance."""

    def __init__(self, rng: Random) -> None:
        self.executed: Counter[str] = Counter()
        self._rng = rng
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with self._lock:
                    fate = self._rng.choice(
                        ["at once", "in the head", "after the request", "in the answer", "answer", "answer"]
                    )
                with contextlib.suppress(OSError):
                    self._serve(connection, fate)

    def _serve(self, connection: socket.socket, fate: str) -> None:
        connection.settimeout(5)
        with connection:
            if fate != "at once":
                data = connection.recv(20) if fate == "in the head" else _request(connection)
                if fate != "in the head":
                    name = next(line for line in data.split(b"\r\n") if line.lower().startswith(b"x-name:"))
                    self.executed[name.decode()] += 1
                if fate == "in the answer":
                    connection.sendall(ANSWER[:20])
                if fate == "answer":
                    connection.sendall(ANSWER)
                    return
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while len(body) < sum(lengths):
        body += connection.recv(65536)
    return data


@pytest.fixture
def servers() -> Iterator[list[Executing]]:
    made = [Executing(Random(seed)) for seed in range(3)]
    yield made
    for server in made:
        server.close()


def configuration(servers: list[Executing], provider: str) -> dict[str, Any]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = f"127.0.0.1:{listener.getsockname()[1]}"
    members = [{"connect_to": address} for address in (dead, *(server.address for server in servers))]
    pool = {"members": members, "cooldown": {"initial": "1ms", "max": "1ms"}, "algorithm": "round_robin"}
    return {provider: {"pool": "p", "pacing": {"mode": "off"}}, "pools": {"p": pool}}


def boto3_deletes(servers: list[Executing]) -> Callable[[str], object]:
    session: Any = boto3.Session(region_name="eu-west-1")
    client = session.client("dynamodb", endpoint_url="http://dynamodb.cloud.test")
    attach(client, configuration=configuration(servers, "aws"))

    def delete(name: str) -> object:
        def named(request: Any, **_: Any) -> None:
            request.headers["x-name"] = name

        client.meta.events.register_first("before-sign.dynamodb", named, unique_id="name")
        try:
            return client.delete_table(TableName="table")
        finally:
            client.meta.events.unregister("before-sign.dynamodb", named, unique_id="name")

    return delete


def azure_posts(servers: list[Executing]) -> Callable[[str], object]:
    from azure.core import PipelineClient
    from azure.core.rest import HttpRequest

    from cloudretry import AzureApiCommand

    policy = AzureApiCommand(configuration=configuration(servers, "azure")).policy()
    client: Any = PipelineClient("http://management.cloud.test", policies=[policy])
    url = "http://management.cloud.test/x"
    return lambda name: client.send_request(HttpRequest("POST", url, headers={"x-name": name}, json={}))


def aio_posts(servers: list[Executing]) -> Callable[[str], object]:
    import asyncio

    from azure.core import AsyncPipelineClient
    from azure.core.rest import HttpRequest

    from cloudretry import AzureApiCommand

    command = AzureApiCommand(configuration=configuration(servers, "azure"))

    async def send(name: str) -> object:
        client: Any = AsyncPipelineClient("http://management.cloud.test", policies=[command.async_policy()])
        async with client:
            return await client.send_request(
                HttpRequest("POST", "http://management.cloud.test/x", headers={"x-name": name}, json={})
            )

    return lambda name: asyncio.run(send(name))


@pytest.mark.parametrize("kind", [boto3_deletes, azure_posts, aio_posts])
@pytest.mark.parametrize("calls", [60, pytest.param(1000, marks=pytest.mark.long)])
def test_no_change_is_executed_twice(kind: Callable[..., Any], calls: int, servers: list[Executing]) -> None:
    ended: Counter[str] = Counter()
    with virtual_clock():
        change = kind(servers)
        for number in range(calls):
            try:
                change(f"call-{number}")
                ended["answered"] += 1
            except (AzureError, BotoCoreError, ClientError):  # noqa: PERF203 - each call by itself
                ended["lost"] += 1
    executed = Counter[str]()
    for server in servers:
        executed += server.executed
    assert max(executed.values()) == 1
    assert ended["answered"] > calls / 10
    assert ended["lost"] > calls / 10
