"""Bodies that break, or don't, while the caller reads them: what the record is told after its try has ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from cloudretry.core.outcome import Phase
from cloudretry.core.pool_settings import Member, PoolSettings
from cloudretry.core.tries import Hop, Reason
from cloudretry.egress.record import Record
from tests.egress import faults

if TYPE_CHECKING:
    from cloudretry.core.tries import TryEnd

pytestmark = [
    pytest.mark.wire,
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),
]

URL = "http://destination.test/large"
SETTINGS = PoolSettings(name="pool", members=(), connect_timeout=5.0)
PATIENCE = 0.3
BLOCK = 1000  # less than what is sent of a body, so that reading begins well
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PART = b"x" * 2500
WHOLE = PART * 2

FAULTS: dict[str, tuple[faults.Behaviour, set[Reason]]] = {
    "fin": (faults.saying(LENGTH + PART, faults.close), {Reason.RESET}),
    "rst": (faults.saying(LENGTH + PART, faults.after(0.1, faults.reset)), {Reason.RESET}),
    "stall": (faults.saying(LENGTH + PART, faults.hang), {Reason.TIMEOUT}),
    "chunked fin": (
        faults.saying(CHUNKED + b"9c4\r\n" + PART + b"\r\n", faults.close),
        {Reason.RESET, Reason.PROTOCOL_ERROR},  # aiohttp says of it what it says of bad chunking
    ),
}

Told = list["TryEnd"]
Reader = Callable[[Member, str], tuple[Told, int]]
"""Sends, and reads `whole`, in `blocks`, or one block and then closes (`early`).

Gives what the record was told, and how many bytes were read.
"""


def told_by(record: Record) -> Told:
    told: Told = []
    record.afterwards = told.append
    return told


def by_botocore(member: Member, how: str) -> tuple[Told, int]:
    from botocore.awsrequest import AWSRequest
    from botocore.httpsession import URLLib3Session
    from botocore.response import StreamingBody

    from cloudretry.egress.botocore_way import BotocoreWay

    session: Any = URLLib3Session  # its stubs know fewer types than it takes
    way = BotocoreWay(session(timeout=PATIENCE), member, SETTINGS)
    request: Any = AWSRequest("GET", URL).prepare()
    request.stream_output = True
    record = Record()
    response = way.send(request, record)
    told, count = told_by(record), 0
    body = StreamingBody(response.raw, response.headers.get("Content-Length"))
    with contextlib.closing(body), contextlib.suppress(Exception):
        if how == "whole":
            count = len(body.read())
        while how != "whole" and (chunk := body.read(BLOCK)):
            count += len(chunk)
            if how == "early":
                break
    with contextlib.suppress(Exception):
        body.read(BLOCK)  # of a body that is closed, or at its end
    way.close()
    return told, count


def by_requests(member: Member, how: str) -> tuple[Told, int]:
    from azure.core.pipeline.transport import RequestsTransport
    from azure.core.rest import HttpRequest

    from cloudretry.egress.requests_way import RequestsWay

    with RequestsTransport(read_timeout=PATIENCE, connection_data_block_size=BLOCK) as transport:
        way = RequestsWay(transport, member, SETTINGS)
        record = Record()
        response = way.send(HttpRequest("GET", URL), record, stream=True)
        told, count = told_by(record), 0
        with contextlib.suppress(Exception):
            if how == "whole":
                count = len(response.read())
            for chunk in () if how == "whole" else response.iter_raw():
                count += len(chunk)
                if how == "early":
                    break
        response.close()
        way.close()
    return told, count


def by_aiohttp(member: Member, how: str) -> tuple[Told, int]:
    return asyncio.run(_by_aiohttp(member, how))


async def _by_aiohttp(member: Member, how: str) -> tuple[Told, int]:
    from azure.core.pipeline.transport import AioHttpTransport
    from azure.core.rest import HttpRequest

    from cloudretry.egress.aiohttp_way import AiohttpWay

    async with AioHttpTransport(read_timeout=PATIENCE, connection_data_block_size=BLOCK) as transport:
        way = AiohttpWay(transport, member, SETTINGS)
        record = Record()
        response = await way.send(HttpRequest("GET", URL), record, stream=True)
        told, count = told_by(record), 0
        with contextlib.suppress(Exception):
            if how == "whole":
                count = len(await response.read())
            else:
                async for chunk in response.iter_raw():
                    count += len(chunk)
                    if how == "early":
                        break
        await response.close()
        await way.aclose()
        await asyncio.sleep(0.01)  # transports that are closing do so
    return told, count


@pytest.fixture(params=[by_botocore, by_requests, by_aiohttp])
def reader(request: pytest.FixtureRequest) -> Reader:
    read: Reader = request.param
    return read


@pytest.mark.parametrize("how", ["whole", "blocks"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_body_that_breaks_is_told_once(fault: str, how: str, reader: Reader) -> None:
    behaviour, reasons = FAULTS[fault]
    with faults.FaultServer(faults.after_request(behaviour)) as server:
        told, _ = reader(Member(name="m", connect_to=f"127.0.0.1:{server.port}"), how)
    (end,) = told
    assert (end.phase, end.hop) == (Phase.BODY, Hop.DESTINATION)
    assert end.reason in reasons


@pytest.mark.parametrize("fault", ["fin", "rst", "stall"])
def test_a_proxy_that_reads_the_request_itself_is_told_of(fault: str, reader: Reader) -> None:
    behaviour, reasons = FAULTS[fault]
    with faults.FaultServer(faults.after_request(behaviour)) as server:
        told, _ = reader(Member(name="m", url=f"http://127.0.0.1:{server.port}"), "blocks")
    assert [(end.phase, end.hop, end.reason) for end in told] == [(Phase.BODY, Hop.MEMBER, *reasons)]


@pytest.mark.parametrize("how", ["whole", "blocks"])
@pytest.mark.parametrize(
    "answer",
    [LENGTH + WHOLE, CHUNKED + b"1388\r\n" + WHOLE + b"\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n" + WHOLE],
    ids=["length", "chunked", "until closed"],
)
def test_of_a_body_that_is_whole_nothing_is_told(answer: bytes, how: str, reader: Reader) -> None:
    with faults.FaultServer(faults.after_request(faults.saying(answer, faults.close))) as server:
        assert reader(Member(name="m", connect_to=f"127.0.0.1:{server.port}"), how) == ([], len(WHOLE))


def test_a_caller_that_closes_early_breaks_nothing(reader: Reader) -> None:
    with faults.FaultServer(faults.after_request(faults.saying(LENGTH + PART, faults.hang))) as server:
        told, count = reader(Member(name="m", connect_to=f"127.0.0.1:{server.port}"), "early")
    assert told == []
    assert 0 < count <= len(PART)
