"""A change is never executed twice, wherever the connection is reset: the server counts what it executed."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import boto3
import pytest
import trustme
from azure.core.exceptions import AzureError
from botocore.exceptions import BotoCoreError, ClientError

from cloudretry import attach
from cloudretry.testing import virtual_clock

pytestmark = pytest.mark.wire

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-ms-request-id: 1\r\nContent-Length: 2\r\n\r\n{}"


FATES = ("at once", "at the tunnel", "in the head", "after the request", "in the answer", "answer", "answer", "stay", "stay")


class Executing:
    """Executes what it has read to the end, by the name in its header; resets before, within or after that, by chance.

    An address, a proxy that forwards, and one that opens tunnels, at whose end it is itself in TLS.
    """

    def __init__(self, rng: Random, tls: ssl.SSLContext) -> None:
        self.executed: Counter[str] = Counter()
        self._rng = rng
        self._tls = tls
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
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        with contextlib.suppress(OSError, StopIteration):
            if self._fate() != "at once":
                if connection.recv(7, socket.MSG_PEEK) == b"CONNECT":
                    connection = self._tunnel(connection)
                while self._answers(connection, self._fate()):
                    pass
        _reset(connection)

    def _fate(self) -> str:
        with self._lock:
            return self._rng.choice(FATES)

    def _tunnel(self, connection: socket.socket) -> socket.socket:
        _request(connection)
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        if self._fate() == "at the tunnel":
            connection.recv(20)
            _reset(connection)
        return self._tls.wrap_socket(connection, server_side=True)

    def _answers(self, connection: socket.socket, fate: str) -> bool:
        """False: the connection is to be reset."""
        if fate == "in the head":
            connection.recv(20)
            return False
        data = _request(connection)
        name = next(line for line in data.split(b"\r\n") if line.lower().startswith(b"x-name:"))
        with self._lock:
            self.executed[name.decode()] += 1
        if fate in {"answer", "stay"}:
            connection.sendall(ANSWER)
        elif fate == "in the answer":
            connection.sendall(ANSWER[:20])
        return fate == "stay"


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


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
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Executing]]:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("dynamodb.cloud.test", "management.cloud.test").configure_cert(tls)
    trusted = str(tmp_path / "authority.pem")
    authority.cert_pem.write_to_path(trusted)
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, trusted)
    made = [Executing(Random(seed), tls) for seed in range(3)]
    yield made
    for server in made:
        server.close()


MEMBERS: dict[str, Callable[[str], Any]] = {
    "address": lambda address: {"connect_to": address},
    "proxy": lambda address: f"http://{address}",
    "tunnel": lambda address: f"http://{address}",
}


def configuration(servers: list[Executing], provider: str, way: str) -> dict[str, Any]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = f"127.0.0.1:{listener.getsockname()[1]}"
    members = [MEMBERS[way](address) for address in (dead, *(server.address for server in servers))]
    cooldown = {"initial": "1ms", "max": "1ms"}
    pool = {"members": members, "cooldown": cooldown, "algorithm": "round_robin", "ca_bundle": os.environ["AWS_CA_BUNDLE"]}
    return {provider: {"pool": "p", "pacing": {"mode": "off"}}, "pools": {"p": pool}}


def boto3_deletes(servers: list[Executing], way: str, closing: contextlib.ExitStack) -> Callable[[str], object]:
    session: Any = boto3.Session(region_name="eu-west-1")
    client = session.client("dynamodb", endpoint_url=f"{_scheme(way)}://dynamodb.cloud.test")
    closing.callback(client.close)
    attach(client, configuration=configuration(servers, "aws", way))

    def delete(name: str) -> object:
        def named(request: Any, **_: Any) -> None:
            request.headers["x-name"] = name

        client.meta.events.register_first("before-sign.dynamodb", named, unique_id="name")
        try:
            return client.delete_table(TableName="table")
        finally:
            client.meta.events.unregister("before-sign.dynamodb", named, unique_id="name")

    return delete


def azure_posts(servers: list[Executing], way: str, closing: contextlib.ExitStack) -> Callable[[str], object]:
    from azure.core import PipelineClient
    from azure.core.rest import HttpRequest

    from cloudretry import AzureApiCommand

    policy = AzureApiCommand(configuration=configuration(servers, "azure", way)).policy()
    url = f"{_scheme(way)}://management.cloud.test/x"
    client: Any = PipelineClient(url, policies=[policy])
    closing.callback(client.close)
    return lambda name: client.send_request(HttpRequest("POST", url, headers={"x-name": name}, json={}))


def aio_posts(servers: list[Executing], way: str, closing: contextlib.ExitStack) -> Callable[[str], object]:
    import asyncio

    from azure.core import AsyncPipelineClient
    from azure.core.rest import HttpRequest

    from cloudretry import AzureApiCommand

    command = AzureApiCommand(configuration=configuration(servers, "azure", way))

    url = f"{_scheme(way)}://management.cloud.test/x"
    loop = asyncio.new_event_loop()
    client: Any = AsyncPipelineClient(url, policies=[command.async_policy()])

    async def send(name: str) -> object:
        return await client.send_request(HttpRequest("POST", url, headers={"x-name": name}, json={}))

    def close() -> None:
        loop.run_until_complete(client.close())
        loop.close()

    closing.callback(close)
    return lambda name: loop.run_until_complete(send(name))


def _scheme(way: str) -> str:
    return "https" if way == "tunnel" else "http"


# Python 3.10 says so of every connection in TLS that was reset
@pytest.mark.filterwarnings("ignore:unclosed transport <asyncio.sslproto:ResourceWarning")
@pytest.mark.parametrize("kind", [boto3_deletes, azure_posts, aio_posts])
@pytest.mark.parametrize("way", list(MEMBERS))
@pytest.mark.parametrize("calls", [50, pytest.param(1000, marks=pytest.mark.long)])
def test_no_change_is_executed_twice(kind: Callable[..., Any], way: str, calls: int, servers: list[Executing]) -> None:
    ended: Counter[str] = Counter()
    with virtual_clock(), contextlib.ExitStack() as closing:
        change = kind(servers, way, closing)
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
