"""Which page of a listing was lost, and what led to it: by the links that Azure's answers give, sync and aio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from azure.core.exceptions import HttpResponseError
from azure.core.rest import HttpRequest

from cloudretry import Report
from cloudretry.azure.calls import call_of
from cloudretry.azure.pages import note_next, page_of
from cloudretry.core.lost import Page

Make = Callable[..., Any]
ARM = "https://management.azure.com"
GROUPS = "/subscriptions/00000000-0000-0000-0000-0000000000aa/resourcegroups"
GRAPH = f"{ARM}/providers/Microsoft.ResourceGraph/resources?api-version=1"
TOKEN = "eyJuZXh0/+=Und3 w%"


def page(url: str, method: str = "GET", **body: Any) -> Page | None:
    return page_of(HttpRequest(method, url, **body), call_of(method, url))


@pytest.mark.wire
@pytest.mark.parametrize("name", ["$skiptoken", "%24skipToken", "ctoken", "page"])
def test_a_listing_that_stops_at_its_third_page(
    serve: Make, manager: Make, error: Make, answer: Make, clock: Any, name: str
) -> None:
    server, report = serve(), Report()
    links = [f"{server.url}{GROUPS}?api-version=2&{name}={quote(f'{number}{TOKEN}', safe='')}" for number in (2, 3)]
    server.say(*[answer({"value": [{"name": "g"}], "nextLink": link}) for link in links], error())
    with pytest.raises(HttpResponseError):
        manager(server, listeners=[report])(lambda client: client.resource_groups.list())
    (lost,) = report.lost
    assert (lost.page, lost.reason) == (3, "max_retries")
    assert lost.token == (f"3{TOKEN}" if name != "page" else None)  # of a name that we know nothing of, nothing is kept
    assert TOKEN not in str(lost) + repr(lost)


@pytest.mark.wire
def test_a_listing_that_stops_at_its_first_page(serve: Make, manager: Make, error: Make, clock: Any) -> None:
    report = Report()
    with pytest.raises(HttpResponseError):
        manager(serve(error()), listeners=[report])(lambda client: client.resource_groups.list())
    assert [(lost.page, lost.token) for lost in report.lost] == [(1, None)]


@pytest.mark.wire
def test_what_is_only_watched_is_known_as_well(serve: Make, pipeline: Make, error: Make, answer: Make, clock: Any) -> None:
    server, report = serve(), Report()
    server.say(answer({"value": [], "nextLink": f"{server.url}{GROUPS}?$skiptoken=two"}), error(403, "TooMuch"), error())
    options = {"listeners": [report], "retry_total": 1, "retry_backoff_factor": 0}
    pipeline(server, {"mode": "observe"}, **options).send("GET", GROUPS)
    pipeline(server, {"mode": "observe"}, **options).send("GET", f"{GROUPS}?$skiptoken=two")
    pipeline(server, {"mode": "observe"}, **options).send("GET", f"{GROUPS}?$skiptoken=two")
    assert [(lost.page, lost.token) for lost in report.lost] == [(2, "two")]


def test_resource_graph_pages_in_its_body() -> None:
    first = {"query": "resources"}
    assert page(GRAPH, "POST", json=first) == Page(1)
    note_next(Page(1), GRAPH, b'{"data": [], "$skipToken": "ab\\u002Bc"}')
    assert page(GRAPH, "POST", json={**first, "options": {"$skipToken": "ab+c"}}) == Page(2, "ab+c")
    assert page(GRAPH, "POST", json={**first, "options": {"$skipToken": "elsewhere"}}) == Page(None, "elsewhere")


@pytest.mark.parametrize("in_front", [True, False])
def test_a_long_answer(in_front: bool) -> None:  # noqa: FBT001 - both cases
    link = f'"nextLink": "{ARM}{GROUPS}?$skiptoken=long-{in_front}{"x" * 8000 * (not in_front)}"'
    value = f'"value": ["{"y" * 200_000}"]'
    note_next(Page(4), f"{ARM}{GROUPS}", f"{{{link if in_front else value}, {value if in_front else link}}}".encode())
    found = page(f"{ARM}{GROUPS}?$skiptoken=long-{in_front}{'x' * 8000 * (not in_front)}")
    assert found is not None
    assert found.number == 5


def test_storage_pages_by_markers() -> None:
    url = "https://x.blob.core.windows.net/c?restype=container&comp=list"
    assert page(url) == Page(1)
    note_next(Page(1), url, b"<Blobs/><NextMarker>2!a&amp;b</NextMarker>")
    assert page(f"{url}&marker=2%21a%26b") == Page(2, "2!a&b")


def test_a_link_of_an_answer_that_did_not_look_like_a_listing() -> None:
    note_next(None, "https://v.vault.azure.net/secrets", b'{"nextLink": "https://v.vault.azure.net:443/secrets?$skiptoken=x"}')
    assert page("https://v.vault.azure.net/secrets?api-version=7.4&$skiptoken=x") == Page(2, "x")


@pytest.mark.parametrize(
    ("url", "method", "expected"),
    [
        (f"{ARM}{GROUPS}/one?api-version=1", "GET", None),
        (f"{ARM}{GROUPS}?api-version=1&$filter=x", "GET", Page(1)),
        (f"{ARM}{GROUPS}?api-version=1&$skiptoken=unseen", "GET", Page(None, "unseen")),
        (f"{ARM}{GROUPS}/one?api-version=1", "PUT", None),
        ("https://login.microsoftonline.com/t/oauth2/v2.0/token", "POST", None),
        ("https://v.vault.azure.net/secrets?api-version=7.4", "GET", None),
    ],
)
def test_what_asks_for_a_page(url: str, method: str, expected: Page | None) -> None:
    assert page(url, method) == expected


@pytest.mark.parametrize(
    "body", [b"", b'{"nextLink": null}', b'{"nextLink": ""}', b'"nextLink": "\\ud8', b'{"nextLink": 5}', b'\xff nextLink"']
)
def test_answers_that_lead_nowhere(body: bytes) -> None:
    note_next(Page(1), f"{ARM}{GROUPS}", body)
