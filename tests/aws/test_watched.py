"""A configuration file that is changed while the program runs."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from cloudretry import attach

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


@pytest.fixture
def write(tmp_path: Path) -> Make:
    path = tmp_path / "cloudretry.json"

    def write(**document: Any) -> Path:
        path.write_text(json.dumps(document))
        return path

    return write


def taken_up(client: Any, clock: Any) -> None:
    """Two looks, as long apart as it takes for a file to have settled."""
    for _ in range(2):
        clock.advance(2)
        client.get_caller_identity()


def test_an_operator_takes_a_member_out_and_brings_it_back(serve: Make, answer: Make, clock: Any, write: Make) -> None:
    servers = [serve(*[answer("sts")] * 9) for _ in range(2)]
    members: list[dict[str, Any]] = [{"name": "a"}, {"name": "b"}]
    for member, server in zip(members, servers, strict=True):
        member["connect_to"] = server.url.removeprefix("http://")

    def configuration(**first: Any) -> Path:
        path: Path = write(aws={"pool": "p"}, pools={"p": {"members": [members[0] | first, members[1]], "algorithm": "hash"}})
        return path

    session: Any = boto3.Session(region_name="eu-west-1")
    client = attach(session.client("sts", endpoint_url="http://sts.cloud.test"), configuration=configuration())
    client.get_caller_identity()
    home = next(index for index, server in enumerate(servers) if server.requests)
    members.insert(0, members.pop(home))
    servers.insert(0, servers.pop(home))
    configuration(disabled=True)
    taken_up(client, clock)
    before = len(servers[0].requests)
    client.get_caller_identity()
    assert len(servers[0].requests) == before
    configuration()
    taken_up(client, clock)
    client.get_caller_identity()
    assert len(servers[0].requests) > before


def test_a_broken_file_changes_nothing_and_is_said(
    serve: Make, throttle: Make, answer: Make, clock: Any, write: Make, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(*[answer("sts")] * 2, throttle("sts"), answer("sts"))
    session: Any = boto3.Session(region_name="eu-west-1")
    path = write(aws={"max_retries": 1})
    client = attach(session.client("sts", endpoint_url=server.url), configuration=path)
    path.write_text("{")
    taken_up(client, clock)
    assert "the last good one stays" in caplog.text
    client.get_caller_identity()
    assert len(server.requests) == 4


def test_new_numbers_hold_for_the_next_call(serve: Make, throttle: Make, answer: Make, clock: Any, write: Make) -> None:
    server = serve(*[answer("sts")] * 2, throttle("sts"), throttle("sts"), answer("sts"))
    session: Any = boto3.Session(region_name="eu-west-1")
    client = attach(session.client("sts", endpoint_url=server.url), configuration=write(aws={"max_retries": 1}))
    write(aws={"max_retries": 2})
    taken_up(client, clock)
    client.get_caller_identity()
    assert len(server.requests) == 5


def test_who_waits_for_a_member_sees_that_it_was_brought_back(serve: Make, answer: Make, clock: Any, write: Make) -> None:
    """All members are out; while the call waits, the file changes."""
    server = serve(answer("sts"))
    member = {"name": "a", "connect_to": server.url.removeprefix("http://"), "disabled": True}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = {"name": "b", "connect_to": f"127.0.0.1:{listener.getsockname()[1]}"}
    pool = {"cooldown": {"initial": "200s", "jitter": 0}}
    session: Any = boto3.Session(region_name="eu-west-1")
    path = write(aws={"pool": "p"}, pools={"p": {"members": [member, dead], **pool}})
    client = attach(session.client("sts", endpoint_url="http://sts.cloud.test"), configuration=path)
    with pytest.raises(ClientError):
        client.get_caller_identity()  # and b is cooling now
    write(aws={"pool": "p"}, pools={"p": {"members": [member | {"disabled": False}, dead], **pool}})
    began = clock.monotonic()
    assert client.get_caller_identity()["Account"] == "111122223333"
    assert clock.monotonic() - began < 10
