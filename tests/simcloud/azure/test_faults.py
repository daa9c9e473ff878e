"""Faults under TLS: what each kind looks like on the wire, and what was carried out."""

from __future__ import annotations

import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from azure.core.exceptions import AzureError, HttpResponseError
from azure.mgmt.resource.resources import ResourceManagementClient

from cloudretry.simcloud import Faults

if TYPE_CHECKING:
    from cloudretry.simcloud import SimulatedAzure

pytestmark = pytest.mark.wire


def raw(azure: SimulatedAzure, *, tls: bool = True) -> bytes:
    """What the server sends until it closes; raises ConnectionResetError as the socket does."""
    url = urlsplit(azure.url)
    path = f"/subscriptions/{azure.subscriptions[0]}/resourcegroups"
    lines = f"GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Bearer {azure.credential().token}\r\n\r\n"
    with socket.create_connection((str(url.hostname), int(url.port or 0)), timeout=20) as connection:
        context = ssl.create_default_context(cafile=azure.ca_file)
        wrap = partial(context.wrap_socket, server_hostname=url.hostname, suppress_ragged_eofs=False)
        with wrap(connection) if tls else connection as line:
            line.sendall(lines.encode())
            return b"".join(iter(lambda: line.recv(65536), b""))


@pytest.mark.parametrize("tls", [True, False])
def test_a_cut_answer_is_shorter_than_it_says(azure: SimulatedAzure, tls: bool) -> None:  # noqa: FBT001
    azure.inject(Faults(kinds=("cut",), times=1))
    head, _, body = raw(azure, tls=tls).partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
    assert head.startswith(b"HTTP/1.1 200")
    assert 0 < len(body) < length
    assert azure.log()[-1].verdict == "cut"


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("kind", ["reset", "reset_unread"])
def test_a_reset(azure: SimulatedAzure, kind: str, tls: bool) -> None:  # noqa: FBT001
    azure.inject(Faults(kinds=(kind,), times=1))
    with pytest.raises((ConnectionResetError, ssl.SSLEOFError) if tls else ConnectionResetError):  # Python's ssl hides a reset
        raw(azure, tls=tls)
    assert [line.verdict for line in azure.log()] == [kind]


@pytest.mark.parametrize("kind", ["page", "empty"])
def test_a_page_or_nothing_in_the_place_of_the_service(azure: SimulatedAzure, connect: Any, kind: str) -> None:
    azure.inject(Faults(match="Microsoft.Resources:GET resourceGroups", kinds=(kind,), times=1, status=429))
    with pytest.raises(HttpResponseError) as caught:
        list(connect(azure, ResourceManagementClient).resource_groups.list())
    answer: Any = caught.value.response
    assert answer.status_code == 429
    assert answer.text().startswith("<html>") == (kind == "page")
    assert not [name for name in answer.headers if name.lower().startswith("x-ms-")]  # nobody of Azure's said it


def test_a_throttle_by_a_rule_asks_for_its_seconds(azure: SimulatedAzure, connect: Any) -> None:
    azure.inject(Faults(match="Microsoft.Resources", kinds=("throttle",), times=1, seconds=7))
    with pytest.raises(HttpResponseError, match="SubscriptionRequestsThrottled") as caught:
        list(connect(azure, ResourceManagementClient).resource_groups.list())
    answer: Any = caught.value.response
    assert answer.headers["Retry-After"] == "7"
    assert azure.counters()["throttled"] == 1


@pytest.mark.parametrize(("kind", "there"), [("page", False), ("reset_unread", False), ("reset", True), ("cut", True)])
def test_whether_the_request_was_carried_out(azure: SimulatedAzure, connect: Any, kind: str, there: bool) -> None:  # noqa: FBT001
    groups = connect(azure, ResourceManagementClient, polling_interval=0).resource_groups
    azure.inject(Faults(match="*:PUT *", kinds=(kind,), times=1))
    with pytest.raises(AzureError):
        groups.create_or_update(f"by-{kind}", {"location": "eastus"})
    assert groups.check_existence(f"by-{kind}") == there
    if there:
        groups.begin_delete(f"by-{kind}").result()
