"""Storage's data clients: throttles are repeated as configured, and what their own policy does beside that goes on."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
)

from cloudretry import AzureApiCommand, Report, attach, history

pytestmark = pytest.mark.wire
blob = pytest.importorskip("azure.storage.blob")

Make = Callable[..., Any]
KEY = "Zm9vYmFy"
BUSY = (
    b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?>'
    b"<Error><Code>ServerBusy</Code><Message>Egress is over the account limit.</Message></Error>"
)
PUT = {"ETag": '"1"', "Last-Modified": "Mon, 27 Jul 2026 12:28:53 GMT", "x-ms-request-id": "9"}
GET = {**PUT, "Content-Type": "application/octet-stream", "x-ms-blob-type": "BlockBlob"}


@pytest.fixture
def busy(Answer: Any) -> Callable[..., Any]:
    """Storage's refusal: a 503 as a rule, a 429 from some of its services."""
    return lambda status=503, **headers: Answer(
        status, BUSY, {"Content-Type": "application/xml", "x-ms-error-code": "ServerBusy", "x-ms-request-id": "7", **headers}
    )


@pytest.fixture(params=["sync", "aio"])
def blobs(request: pytest.FixtureRequest) -> Make:
    """`blobs(server, azure, report)(call)` runs `call` on an attached client of one blob; with aio, it gives an awaitable."""

    def given(server: Any, options: dict[str, Any]) -> dict[str, Any]:
        credential = {"account_name": "account", "account_key": KEY}
        place = {"account_url": f"{server.url}/account", "container_name": "c", "blob_name": "b"}
        return {**place, "credential": credential, **options}

    def make(server: Any, azure: dict[str, Any] | None = None, report: Report | None = None, **options: Any) -> Make:
        configuration = {"azure": azure or {}}
        if request.param == "sync":

            def run(call: Callable[[Any], Any]) -> Any:
                with attach(blob.BlobClient(**given(server, options)), configuration=configuration, report=report) as client:
                    return call(client)

            return run
        from azure.storage.blob.aio import BlobClient

        async def main(call: Callable[[Any], Any]) -> Any:
            async with attach(BlobClient(**given(server, options)), configuration=configuration, report=report) as client:
                return await call(client)

        return lambda call: asyncio.run(main(call))

    return make


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_is_waited_for(status: int, serve: Make, blobs: Make, busy: Make, Answer: Any, clock: Any) -> None:
    server, report = serve(busy(status, **{"Retry-After": "3"}), busy(status), Answer(200, b"", GET)), Report()
    properties = blobs(server, report=report)(lambda client: client.get_blob_properties())
    assert properties.etag == '"1"'
    assert [request.method for request in server.requests] == ["HEAD"] * 3
    assert 3 <= clock.sleeps[0] <= 3.5
    assert (report.total.calls, report.total.throttled) == (1, 2)
    signatures = {request.headers["Authorization"] for request in server.requests}
    assert all(signature.startswith("SharedKey account:") for signature in signatures)


def test_refused_for_ever_gives_storages_own_error(serve: Make, blobs: Make, busy: Make, clock: Any) -> None:
    server = serve(busy(429))
    with pytest.raises(HttpResponseError) as caught:
        blobs(server, {"max_retries": 5})(lambda client: client.set_blob_metadata({"a": "b"}))
    assert len(server.requests) == 6
    assert caught.value.status_code == 429
    told = history(caught.value)
    assert told is not None
    assert told.reason == "max_retries"
    assert told.attempts[-1].code == "ServerBusy"


def test_an_upload_is_sent_whole_each_time(serve: Make, blobs: Make, busy: Make, Answer: Any, clock: Any) -> None:
    server = serve(busy(), Answer(500, b"", PUT), busy(429), Answer(201, b"", PUT))
    body = io.BytesIO(b"skipped" + b"x" * 10_000)
    body.seek(7)
    body.close = lambda: None  # type: ignore[method-assign]  # aiohttp closes a file when it has sent it
    blobs(server)(lambda client: client.upload_blob(body, length=10_000, overwrite=True))
    assert [request.body for request in server.requests] == [b"x" * 10_000] * 4


def _once() -> Iterator[bytes]:
    yield b"abc"


def test_what_can_be_read_once_is_put_in_blocks_by_storage(
    serve: Make, blobs: Make, busy: Make, Answer: Any, clock: Any
) -> None:
    server = serve(busy(), Answer(201, b"", PUT))
    blobs(server)(lambda client: client.upload_blob(_once(), overwrite=True))
    assert server.requests[0].body == server.requests[1].body
    assert b"abc" in server.requests[1].body


def test_a_download(serve: Make, blobs: Make, busy: Make, Answer: Any, clock: Any) -> None:
    headers = {**GET, "Content-Range": "bytes 0-4/5"}
    server = serve(busy(), busy(429), Answer(206, b"hello", headers))
    read = blobs(server)(_downloaded)
    assert read == b"hello"
    assert len(server.requests) == 3


def _downloaded(client: Any, **options: Any) -> Any:
    found = client.download_blob(**options)
    if not asyncio.iscoroutine(found):
        return found.readall()

    async def read() -> Any:
        return await (await found).readall()

    return read()


@pytest.mark.skipif(
    not hasattr(import_module("azure.storage.blob._shared.policies"), "is_checksum_retry"),
    reason="an older storage does not repeat these itself",
)
def test_a_download_that_does_not_match_its_checksum(serve: Make, blobs: Make, Answer: Any, clock: Any) -> None:
    headers = {**GET, "Content-Range": "bytes 0-4/5"}
    right = base64.b64encode(hashlib.md5(b"hello").digest()).decode()  # noqa: S324 - what storage uses
    damaged, whole = (Answer(206, body, {**headers, "Content-MD5": right}) for body in (b"hallo", b"hello"))
    server = serve(damaged, whole)
    assert blobs(server)(lambda client: _downloaded(client, validate_content=True)) == b"hello"
    assert len(server.requests) == 2
    server = serve(damaged)
    with pytest.raises(AzureError, match="MD5 mismatch"):
        blobs(server)(lambda client: _downloaded(client, validate_content=True))
    assert len(server.requests) >= 4


def test_an_append_is_not_repeated_where_it_may_have_been_done(serve: Make, blobs: Make, Answer: Any, clock: Any) -> None:
    server = serve(Answer(500, b"", PUT))
    with pytest.raises(HttpResponseError) as caught:
        blobs(server)(lambda client: client.append_block(b"abc"))
    assert len(server.requests) == 1
    told = history(caught.value)
    assert told is not None
    assert told.reason == "not_replayable"


def test_a_broken_connection(serve: Make, blobs: Make, Answer: Any, clock: Any) -> None:
    server = serve(Answer(reset=True))
    with pytest.raises((ServiceRequestError, ServiceResponseError)) as caught:
        blobs(server)(lambda client: client.set_blob_metadata({"a": "b"}))
    assert 4 <= len(server.requests) <= 8  # aiohttp sends a PUT once more by itself
    told = history(caught.value)
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("transient_retries", 4)


def test_a_refusal_for_good_is_one_request(serve: Make, blobs: Make, Answer: Any, clock: Any) -> None:
    server = serve(Answer(404, b"", {"x-ms-error-code": "BlobNotFound", "x-ms-request-id": "1"}))
    with pytest.raises(ResourceNotFoundError):
        blobs(server)(lambda client: client.get_blob_properties())
    assert len(server.requests) == 1


@pytest.mark.parametrize("first", ["busy", "server error"])
def test_the_secondary_location(first: str, serve: Make, blobs: Make, busy: Make, Answer: Any, clock: Any) -> None:
    primary = serve(busy() if first == "busy" else Answer(500, b"", PUT))
    secondary = serve(Answer(404, b"", {"x-ms-request-id": "1"}), Answer(200, b"", GET))
    place = secondary.url.partition("://")[2]
    call = blobs(primary, secondary_hostname=f"{place}/account", retry_to_secondary=True)
    call(lambda client: client.get_blob_properties())
    # primary, secondary (which has not got it yet: 404), primary, secondary
    assert (len(primary.requests), len(secondary.requests)) == (2, 2)


def test_the_last_answer_is_the_one_that_is_named(serve: Make, blobs: Make, busy: Make, clock: Any) -> None:
    primary, secondary = serve(busy()), serve(busy(429))
    place = secondary.url.partition("://")[2]
    call = blobs(primary, {"max_retries": 1}, secondary_hostname=f"{place}/account", retry_to_secondary=True)
    with pytest.raises(HttpResponseError) as caught:
        call(lambda client: client.get_blob_properties())
    assert caught.value.status_code == 429
    response: Any = caught.value.response
    assert response.request.url.startswith(secondary.url)
    assert response.location_mode == "secondary"


def test_no_secondary_unless_it_is_wanted(serve: Make, blobs: Make, busy: Make, Answer: Any, clock: Any) -> None:
    primary, secondary = serve(busy(), busy(), Answer(200, b"", GET)), serve(Answer(200, b"", GET))
    blobs(primary, secondary_hostname=secondary.url.partition("://")[2])(lambda client: client.get_blob_properties())
    assert (len(primary.requests), len(secondary.requests)) == (3, 0)


def test_storages_hook_hears_of_each_retry(serve: Make, blobs: Make, busy: Make, Answer: Any, clock: Any) -> None:
    server, heard = serve(busy(), busy(), Answer(200, b"", GET)), []
    blobs(server)(lambda client: client.get_blob_properties(retry_hook=lambda **told: heard.append(told)))
    assert [told["retry_count"] for told in heard] == [0, 1]
    assert [told["response"].status_code for told in heard] == [503, 503]
    assert {told["location_mode"] for told in heard} == {"primary"}


def test_one_attempt_of_a_client_and_of_a_call(serve: Make, blobs: Make, busy: Make, clock: Any) -> None:
    server = serve(busy())
    for client_options, options in (({"retry_total": 0}, {}), ({}, {"retry_total": 0})):
        with pytest.raises(HttpResponseError):
            blobs(server, **client_options)(lambda client, options=options: client.get_blob_properties(**options))
    assert len(server.requests) == 2


def test_in_observe_mode_storage_decides(serve: Make, blobs: Make, busy: Make) -> None:
    server, report = serve(busy()), Report()
    policy = {"initial_backoff": 0, "increment_base": 0, "random_jitter_range": 0}
    with pytest.raises(HttpResponseError) as caught:
        blobs(server, {"mode": "observe"}, report, **policy)(lambda client: client.get_blob_properties())
    assert len(server.requests) == 4
    told = history(caught.value)
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("sdk", 4)
    assert report.total.throttled == 4


def test_a_users_own_backoff_goes_on_deciding(serve: Make, busy: Make) -> None:
    class Quick(blob.ExponentialRetry):  # type: ignore[misc,name-defined]  # the package is found at run time
        def get_backoff_time(self, settings: dict[str, Any]) -> float:
            return 0.001

    server = serve(busy())
    service = blob.BlobServiceClient(f"{server.url}/account", retry_policy=Quick(retry_total=2))
    with attach(service, configuration={}) as client, pytest.raises(HttpResponseError) as caught:
        client.get_service_properties()
    assert len(server.requests) == 3
    told = history(caught.value)
    assert told is not None
    assert told.reason == "sdk"


def test_clients_that_a_client_makes(serve: Make, busy: Make, Answer: Any, clock: Any) -> None:
    page = b'<?xml version="1.0"?><EnumerationResults ContainerName="c"><Blobs/><NextMarker/></EnumerationResults>'
    server = serve(busy(429), Answer(200, page, {"Content-Type": "application/xml"}))
    with AzureApiCommand(configuration={}) as az:
        service = az.client(blob.BlobServiceClient, f"{server.url}/account")
        assert list(service.get_container_client("c").list_blobs()) == []
        assert (az.report.total.calls, az.report.total.throttled) == (1, 1)
    assert len(server.requests) == 2
    assert re.search("comp=list", server.requests[0].path)
