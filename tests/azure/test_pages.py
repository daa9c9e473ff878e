"""Which page of a listing was lost, and what led to it: by the links that Azure's answers give, sync and aio."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from azure.core.exceptions import HttpResponseError
from azure.core.rest import HttpRequest

from cloudretry import Report
from cloudretry.azure.calls import call_of
from cloudretry.azure.pages import note_next, page_of
from cloudretry.core.history import printable
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


def test_two_accounts_with_the_same_markers() -> None:
    urls = [f"https://{name}.blob.core.windows.net/c?restype=container&comp=list" for name in ("one", "two")]
    note_next(Page(3), urls[0], b"<NextMarker>m</NextMarker>")
    note_next(Page(15), urls[1], b"<NextMarker>m</NextMarker>")
    assert [page(f"{url}&marker=m") for url in urls] == [Page(4, "m"), Page(16, "m")]


def test_a_replica_has_the_same_pages() -> None:
    note_next(Page(1), "https://r-secondary.blob.core.windows.net/c?comp=list", b"<NextMarker>m</NextMarker>")
    assert page("https://r.blob.core.windows.net/c?comp=list&marker=m") == Page(2, "m")


@pytest.mark.parametrize("filler", ["", "x" * 50_000])
@pytest.mark.parametrize("name", ["nextLink", "@odata.nextLink"])
def test_the_links_of_what_is_listed_are_others(name: str, filler: str) -> None:
    item = {"properties": {"nextLink": f"{ARM}{GROUPS}?$skiptoken=items"}, "filler": filler}
    answer = {"value": [item], name: f"{ARM}{GROUPS}?$skiptoken=own-{name}-{len(filler)}", "count": [{"nextLink": None}]}
    note_next(Page(1), f"{ARM}{GROUPS}", json.dumps(answer).encode())
    assert page(f"{ARM}{GROUPS}?$skiptoken=own-{name}-{len(filler)}") == Page(2, f"own-{name}-{len(filler)}")
    assert page(f"{ARM}{GROUPS}?$skiptoken=items") == Page(None, "items")


def test_the_last_page_of_what_has_links_leads_nowhere() -> None:
    item = {"properties": {"nextLink": f"{ARM}{GROUPS}?$skiptoken=items"}}
    noted = note_next(Page(1), f"{ARM}{GROUPS}", json.dumps({"value": [item, item]}).encode())
    assert noted is not None
    assert not noted.leads_on


def test_a_link_without_a_host() -> None:
    note_next(Page(1), f"{ARM}{GROUPS}?api-version=1", f'{{"nextLink": "{GROUPS}?$skiptoken=near"}}'.encode())
    assert page(f"{ARM}{GROUPS}?$skiptoken=near") == Page(2, "near")


@pytest.mark.wire
@pytest.mark.parametrize("read", [1, 2, 3])
@pytest.mark.parametrize("name", ["$skiptoken", "page"])
def test_a_listing_that_is_not_read_to_its_end(
    serve: Make, pipeline: Make, answer: Make, clock: Any, read: int, name: str
) -> None:
    server, report = serve(), Report()
    links = [f"{GROUPS}?api-version=1&{name}={read}-{number}" for number in (2, 3)]
    server.say(*[answer({"value": [], "nextLink": server.url + link}) for link in links], answer({"value": []}))
    for path in [f"{GROUPS}?api-version=1", *links][:read]:
        pipeline(server, {}, listeners=[report]).send("GET", path)
    assert (report.total.calls, report.total.unfinished) == (read, int(read < 3))


@pytest.mark.wire
def test_a_page_that_is_lost_and_then_read(serve: Make, pipeline: Make, answer: Make, error: Make, clock: Any) -> None:
    server, report = serve(), Report()
    second = f"{GROUPS}?$skiptoken=lost-2"
    server.say(answer({"value": [], "nextLink": server.url + second}), error(), error(), answer({"value": []}))
    for path in (GROUPS, second, second, second):
        pipeline(server, {"max_retries": 0}, listeners=[report]).send("GET", path)
    assert (report.total.calls, report.total.unfinished) == (4, 0)


COSTS = "/subscriptions/aa/providers/Microsoft.CostManagement/query"


@pytest.mark.wire
def test_a_listing_by_post(serve: Make, pipeline: Make, answer: Make, clock: Any) -> None:
    server, report = serve(), Report()
    second = f"{COSTS}?api-version=1&$skiptoken=costs-2"
    server.say(answer({"properties": {"nextLink": server.url + second}}), answer({"properties": {"nextLink": None}}))
    pipeline(server, {}, listeners=[report]).send("POST", COSTS, json={"type": "Usage"})
    assert report.total.unfinished == 1
    pipeline(server, {}, listeners=[report]).send("POST", second, json={"type": "Usage"})
    assert report.total.unfinished == 0


EVIL = "/subscriptions/s-1/providers/Microsoft.X/th\u2028lost call ec2:X@1 attempts=1\x1b[31m\x85" + "A" * 30_000


@pytest.mark.parametrize("url", [ARM + EVIL, f"https://h\u2028{'x' * 300}/a", f"{ARM}/subscriptions/s\nx/locations/y\u2028"])
def test_a_link_forges_no_line(url: str) -> None:
    call = call_of("GET", url)
    assert str(call).isascii()
    assert str(call).isprintable()
    for part in (call.service, call.operation.removeprefix("GET "), call.account or "", call.region or ""):
        assert part == printable(part) or not part
        assert len(part) <= 128


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
