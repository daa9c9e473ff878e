"""Which page of a listing was lost, and what led to it, whoever goes from page to page."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ParamValidationError

from cloudretry import Report, attach, history
from cloudretry.report.completeness import completeness

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
ONCE = {"max_retries": 0}


def iam(marker: str) -> bytes:
    truncated = f"<IsTruncated>true</IsTruncated><Marker>{marker}</Marker>"
    return f"<ListUsersResponse><ListUsersResult><Users/>{truncated}</ListUsersResult></ListUsersResponse>".encode()


def ec2(token: str) -> bytes:
    return f"<DescribeVpcsResponse><vpcSet/><nextToken>{token}</nextToken></DescribeVpcsResponse>".encode()


def tables(token: str) -> bytes:
    return json.dumps({"TableNames": [token], "LastEvaluatedTableName": token}).encode()


def items(token: str) -> bytes:
    return json.dumps({"Items": [], "LastEvaluatedKey": {"id": {"S": token}}}).encode()


def functions(token: str) -> bytes:
    return json.dumps({"Functions": [], "NextMarker": token}).encode()


def objects(token: str) -> bytes:
    contents = f"<Contents><Key>a b/{token}</Key></Contents>"
    return f"<ListBucketResult><IsTruncated>true</IsTruncated>{contents}</ListBucketResult>".encode()


def objects_v2(token: str) -> bytes:
    next_one = f"<NextContinuationToken>{token}</NextContinuationToken>"
    return f"<ListBucketResult><IsTruncated>true</IsTruncated>{next_one}</ListBucketResult>".encode()


def versions(token: str) -> bytes:
    markers = f"<NextKeyMarker>{token}</NextKeyMarker><NextVersionIdMarker>v</NextVersionIdMarker>"
    return f"<ListVersionsResult><IsTruncated>true</IsTruncated>{markers}</ListVersionsResult>".encode()


LISTINGS = [
    ("iam", "list_users", {}, iam, "{}"),
    ("ec2", "describe_vpcs", {}, ec2, "{}"),
    ("dynamodb", "list_tables", {}, tables, "{}"),
    ("dynamodb", "scan", {"TableName": "t"}, items, '{{"ExclusiveStartKey": {{"id": {{"S": "{}"}}}}}}'),
    ("lambda", "list_functions", {}, functions, "{}"),
    ("s3", "list_objects", {"Bucket": "b"}, objects, "a b/{}"),
    ("s3", "list_objects_v2", {"Bucket": "b"}, objects_v2, "{}"),
    ("s3", "list_object_versions", {"Bucket": "b"}, versions, '{{"KeyMarker": "{}", "VersionIdMarker": "v"}}'),
]


@pytest.fixture
def listing(serve: Make, hooked: Make, throttle: Make, Answer: Any, clock: Any) -> Make:
    """`listing(service, page, tokens)` is a client whose pages lead on by these tokens, then it throttles; and its report."""

    def make(service: str, page: Make, tokens: Any, throttled: str | None = None) -> tuple[Any, Report]:
        report = Report()
        server = serve(*[Answer(200, page(token)) for token in tokens], throttle(throttled or service))
        return attach(hooked(service, server, ONCE), report=report), report

    return make


@pytest.mark.parametrize("pages", [0, 1, 2, 5])
@pytest.mark.parametrize(("service", "method", "params", "page", "token"), LISTINGS, ids=[row[1] for row in LISTINGS])
def test_a_paginator_of_botocores(
    listing: Make, service: str, method: str, params: dict[str, str], page: Make, token: str, pages: int
) -> None:
    tokens = [f"t{number}{method}" for number in range(2, 2 + pages)]
    client, report = listing(service, page, tokens, "sts" if service == "iam" else None)
    with pytest.raises(ClientError):
        list(client.get_paginator(method).paginate(**params))
    (lost,) = report.lost
    assert (lost.page, lost.token) == (pages + 1, token.format(tokens[-1]) if tokens else None)
    assert report.total.calls == pages + 1


def by_hand(client: Any) -> Iterator[Any]:
    answer = client.list_functions()
    while True:
        yield answer
        answer = client.list_functions(Marker=answer["NextMarker"])


def test_a_loop_by_hand(listing: Make) -> None:
    client, report = listing("lambda", functions, ["hand-2", "hand-3"])
    with pytest.raises(ClientError):
        list(by_hand(client))
    assert [(lost.page, lost.token) for lost in report.lost] == [(3, "hand-3")]


def test_each_page_in_another_thread(listing: Make) -> None:
    client, report = listing("lambda", functions, ["thread-2", "thread-3"])
    pages = by_hand(client)

    def elsewhere() -> None:
        with ThreadPoolExecutor(1) as other:
            other.submit(next, pages).result()

    elsewhere()
    elsewhere()
    with pytest.raises(ClientError):
        elsewhere()
    assert [lost.page for lost in report.lost] == [3]


def test_two_listings_at_once(serve: Make, throttle: Make, Answer: Any, clock: Any) -> None:
    """Pages are told apart by their tokens, not by the order of the calls."""
    report = Report()
    made = []
    for name, count in (("one", 4), ("two", 2)):
        server = serve(*[Answer(200, functions(f"{name}-{number}")) for number in range(count)], throttle("lambda"))
        client = boto3.client("lambda", endpoint_url=server.url)
        made.append(by_hand(attach(client, configuration={"aws": ONCE}, report=report)))
    for pages in made * 2:
        next(pages)
    for pages in made:
        with pytest.raises(ClientError):
            list(pages)
    assert sorted((lost.page, lost.token) for lost in report.lost) == [(3, "two-1"), (5, "one-3")]


def test_a_collection_of_a_resource(serve: Make, throttle: Make, Answer: Any, clock: Any) -> None:
    report, server = Report(), serve(Answer(200, ec2("vpc-2")), throttle("ec2"))
    session = attach(boto3.Session(region_name="eu-west-1"), configuration={"aws": ONCE}, report=report)
    with pytest.raises(ClientError):
        list(session.resource("ec2", endpoint_url=server.url).vpcs.all())
    assert [(lost.operation, lost.page, lost.token) for lost in report.lost] == [("DescribeVpcs", 2, "vpc-2")]


def test_a_table_whose_keys_are_a_resources_own_values(serve: Make, throttle: Make, Answer: Any, clock: Any) -> None:
    report, server = Report(), serve(Answer(200, items("row-2")), Answer(200, items("row-3")), throttle("dynamodb"))
    session = attach(boto3.Session(region_name="eu-west-1"), configuration={"aws": ONCE}, report=report)
    table = session.resource("dynamodb", endpoint_url=server.url).Table("t")
    second = table.scan(ExclusiveStartKey=table.scan()["LastEvaluatedKey"])
    assert second["LastEvaluatedKey"] == {"id": "row-3"}
    with pytest.raises(ClientError):
        table.scan(ExclusiveStartKey=second["LastEvaluatedKey"])
    assert [(lost.page, lost.token) for lost in report.lost] == [(3, '{"ExclusiveStartKey": {"id": {"S": "row-3"}}}')]


def test_a_listing_that_was_begun_elsewhere(listing: Make) -> None:
    client, report = listing("lambda", functions, ["went-on"])
    client.list_functions(Marker="from-elsewhere")
    with pytest.raises(ClientError):
        client.list_functions(Marker="went-on")
    assert [(lost.page, lost.token) for lost in report.lost] == [(None, "went-on")]


def test_a_page_that_is_asked_for_again(listing: Make, throttle: Make, serve: Make, Answer: Any, hooked: Make) -> None:
    report = Report()
    pages = [Answer(200, functions("again-2")), throttle("lambda"), Answer(200, functions("again-3")), throttle("lambda")]
    client = attach(hooked("lambda", serve(*pages), ONCE), report=report)
    client.list_functions()
    with pytest.raises(ClientError):
        client.list_functions(Marker="again-2")
    client.list_functions(Marker="again-2")
    with pytest.raises(ClientError):
        client.list_functions(Marker="again-3")
    assert [(lost.page, lost.token) for lost in report.lost] == [(3, "again-3")]
    assert [(lost.page, lost.token) for lost in report.recovered] == [(2, "again-2")]


def ends(service: str) -> bytes:
    """The last page, whose token is what some services give there too: botocore's list says by what else it is known."""
    last = b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>z</Key></Contents></ListBucketResult>"
    return last if service == "s3" else b"{}"


@pytest.mark.parametrize("read", [1, 2, 3, 4])
@pytest.mark.parametrize("row", [row for row in LISTINGS if row[1] in {"scan", "list_objects"}], ids=lambda row: row[1])
def test_a_listing_that_is_not_read_to_its_end(serve: Make, hooked: Make, Answer: Any, clock: Any, row: Any, read: int) -> None:
    service, method, params, page, _ = row
    report = Report()
    server = serve(*[Answer(200, page(f"{read}-{number}")) for number in range(3)], Answer(200, ends(service)))
    pages = iter(attach(hooked(service, server, ONCE), report=report).get_paginator(method).paginate(**params))
    for _ in range(read):
        next(pages)
    assert (report.total.calls, report.total.unfinished, report.total.lost) == (read, int(read < 4), 0)
    ((_, counts),) = report.operations.items()
    (told,) = completeness([(None, None, "x", counts)])["-"]["-"].values()
    assert told == ("partial" if read < 4 else "complete")


def test_operations_that_botocores_list_of_paginators_lacks(serve: Make, hooked: Make, Answer: Any, clock: Any) -> None:
    report = Report()
    server = serve(Answer(200, b'{"NextMarker": "two", "WebACLs": []}'), Answer(200, b'{"WebACLs": []}'))
    client = attach(hooked("wafv2", server), report=report)
    assert not client.can_paginate("list_web_acls")
    marker = client.list_web_acls(Scope="REGIONAL")["NextMarker"]
    assert report.total.unfinished == 1
    client.list_web_acls(Scope="REGIONAL", NextMarker=marker)
    assert report.total.unfinished == 0


def test_a_page_that_is_lost_and_then_read_leaves_nothing_unfinished(
    serve: Make, hooked: Make, throttle: Make, Answer: Any, clock: Any
) -> None:
    report = Report()
    server = serve(Answer(200, functions("u-2")), *[throttle("lambda")] * 2, Answer(200, functions("u-3")), Answer(200, b"{}"))
    client = attach(hooked("lambda", server, ONCE), report=report)
    client.list_functions()
    for _ in range(2):
        with pytest.raises(ClientError):
            client.list_functions(Marker="u-2")
    assert (report.total.lost, report.total.unfinished) == (2, 0)
    client.list_functions(Marker="u-2")
    assert (report.total.lost, report.total.recovered, report.total.unfinished) == (0, 2, 1)
    client.list_functions(Marker="u-3")
    assert report.total.unfinished == 0


def test_two_listings_by_the_same_tokens(serve: Make, hooked: Make, throttle: Make, Answer: Any, clock: Any) -> None:
    """Two tables with the same keys: where one goes on at its third page, the other does at its second."""
    report = Report()
    answers = [*map(items, ("k1", "k2", "k2", "k4")), None]
    server = serve(*[Answer(200, body) if body else throttle("dynamodb") for body in answers])
    client = attach(hooked("dynamodb", server, ONCE), report=report)

    def scan(table: str, key: str | None = None) -> None:
        client.scan(TableName=table, Limit=5, **({"ExclusiveStartKey": {"id": {"S": key}}} if key else {}))

    scan("one")
    scan("one", "k1")
    scan("two")
    scan("two", "k2")
    with pytest.raises(ClientError):
        scan("one", "k2")
    assert [lost.page for lost in report.lost] == [3]


def test_a_token_that_is_too_long_to_keep_is_not_the_first_pages(listing: Make) -> None:
    client, report = listing("lambda", functions, ["t" * 5000])
    with pytest.raises(ClientError):
        list(by_hand(client))
    assert [(lost.page, lost.token) for lost in report.lost] == [(2, None)]
    assert " page=2 " in str(report.lost[0])


def test_what_is_no_listing_has_no_page(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    report = Report()
    with pytest.raises(ClientError):
        attach(hooked("sts", serve(throttle("sts")), ONCE), report=report).get_caller_identity()
    assert [(lost.page, lost.token) for lost in report.lost] == [(None, None)]


def test_one_line_is_logged_without_the_token(listing: Make, caplog: pytest.LogCaptureFixture) -> None:
    client, report = listing("lambda", functions, ["secret-2"])
    with pytest.raises(ClientError):
        list(by_hand(client))
    (line,) = [record.getMessage() for record in caplog.records if "lost call" in record.getMessage()]
    assert line == f"lost call {report.lost[0]}"
    assert " page=2 " in line
    assert line.endswith(" rule=max_retries=0 (argument)")
    assert "secret-2" not in line


@pytest.mark.parametrize("token", [5, {1: 2, "a": 3}, {("a",): b"x"}, [object()]])
def test_a_token_that_is_none_is_botocores_to_refuse(listing: Make, token: object) -> None:
    client, _ = listing("lambda", functions, [])
    with pytest.raises(ParamValidationError):
        client.list_functions(Marker=token)


def test_an_error_with_a_page_survives_pickle(hooked: Make, serve: Make, Answer: Any, clock: Any) -> None:
    client = hooked("lambda", serve(Answer(200, functions("pickled-2")), Answer(reset=True)), ONCE)
    client.list_functions()
    with pytest.raises(ConnectionClosedError) as caught:
        client.list_functions(Marker="pickled-2")
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    told = history(copy)
    assert told is not None
    assert len(told.attempts) == 1
