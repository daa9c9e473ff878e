"""Every kind of client and listener: redirects, transfers, event streams, credential providers, threads and processes."""

from __future__ import annotations

import gc
import io
import multiprocessing
import pickle
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from cloudretry import AwsApiCommand, Report, attach, history
from tests.aws.conftest import assume_a_role_at

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PATIENT = {"max_retries": 100, "time_budget": "24h"}  # which thread meets the throttles is chance


def regions_signed_for(server: Any) -> list[str]:
    return [request.headers["Authorization"].split("/")[2] for request in server.requests]


def test_an_s3_redirect_between_throttles_is_followed(
    serve: Make,
    hooked: Make,
    throttle: Make,
    answer: Make,
    clock: Any,
    Answer: Any,
) -> None:
    moved = Answer(
        301,
        b"<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>",
        {"x-amz-bucket-region": "us-west-2"},
    )
    found = Answer(200, b"<ListBucketResult/>")
    server = serve(throttle("s3"), moved, throttle("s3"), throttle("s3"), found)
    report = Report()
    client = attach(hooked("s3", server), report=report)
    client.list_objects_v2(Bucket="bucket")
    assert regions_signed_for(server) == ["eu-west-1"] * 2 + ["us-west-2"] * 3
    assert len(clock.sleeps) == 3
    assert (report.total.calls, report.total.attempts, report.total.throttled, report.total.lost) == (1, 5, 3, 0)


def test_an_s3_redirect_that_names_no_region_asks_head_bucket_in_between(
    serve: Make,
    hooked: Make,
    throttle: Make,
    clock: Any,
    Answer: Any,
) -> None:
    moved = Answer(301, b"<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>")
    told = Answer(200, b"", {"x-amz-bucket-region": "us-west-2"})
    server = serve(moved, throttle("s3"), told, throttle("s3"), Answer(200, b"<ListBucketResult/>"))
    report = Report()
    client = attach(hooked("s3", server), report=report)
    client.list_objects_v2(Bucket="bucket")
    assert [request.method for request in server.requests] == ["GET", "HEAD", "HEAD", "GET", "GET"]
    assert regions_signed_for(server)[-1] == "us-west-2"
    assert len(clock.sleeps) == 2
    counts = {call.operation: (counts.calls, counts.attempts) for call, counts in report.operations.items()}
    assert counts == {"ListObjectsV2": (1, 3), "HeadBucket": (1, 2)}


def test_s3_transfers_survive_throttles(
    serve: Make,
    hooked: Make,
    throttle: Make,
    clock: Any,
    tmp_path: Path,
    Answer: Any,
) -> None:
    size = Answer(200, b"content", {"ETag": '"e"'})
    server = serve(throttle("s3"), throttle("s3"), size, throttle("s3"), throttle("s3"), throttle("s3"), throttle("s3"), size)
    client = hooked("s3", server)
    client.download_file("bucket", "key", str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == b"content"
    assert [request.method for request in server.requests] == ["HEAD"] * 3 + ["GET"] * 5
    server = serve(throttle("s3"), throttle("s3"), Answer(200, b"", {"ETag": '"e"'}))
    hooked("s3", server).upload_fileobj(io.BytesIO(b"content"), "bucket", "key")
    assert [request.method for request in server.requests] == ["PUT"] * 3
    assert all(b"content" in request.body for request in server.requests)
    assert len(clock.sleeps) == 6 + 2


def test_an_event_streams_first_answer_is_retried(
    serve: Make,
    hooked: Make,
    throttle: Make,
    clock: Any,
    Answer: Any,
) -> None:
    server = serve(throttle("s3"), throttle("s3"), Answer(200, b""))
    answer = hooked("s3", server).select_object_content(
        Bucket="bucket",
        Key="key",
        Expression="select 1",
        ExpressionType="SQL",
        InputSerialization={"JSON": {"Type": "LINES"}},
        OutputSerialization={"JSON": {}},
    )
    assert list(answer["Payload"]) == []
    assert len(server.requests) == 3
    assert len(clock.sleeps) == 2


def test_endpoint_discovery_goes_on_and_nests(
    serve: Make,
    throttle: Make,
    clock: Any,
    monkeypatch: pytest.MonkeyPatch,
    Answer: Any,
) -> None:
    """The client has no endpoint of its own here, so its connections are led to loopback beneath urllib3."""
    from urllib3.util import connection

    server = serve(
        throttle("dynamodb"),
        Answer(200, b'{"Endpoints": [{"Address": "http://cell1.example.com", "CachePeriodInMinutes": 60}]}'),
        throttle("dynamodb"),
        Answer(200, b'{"Databases": []}'),
    )
    port = int(server.url.rpartition(":")[2])
    real = connection.create_connection
    monkeypatch.setattr(connection, "create_connection", lambda _, *args, **kwargs: real(("127.0.0.1", port), *args, **kwargs))
    session: Any = boto3.Session(region_name="eu-west-1")
    client = attach(session.client("timestream-write", use_ssl=False), configuration={})
    assert client.list_databases()["Databases"] == []
    assert [request.headers["X-Amz-Target"].rpartition(".")[2] for request in server.requests] == [
        "DescribeEndpoints",
        "DescribeEndpoints",
        "ListDatabases",
        "ListDatabases",
    ]
    assert server.requests[-1].headers["Host"] == "cell1.example.com"
    assert len(clock.sleeps) == 2


@pytest.mark.parametrize("how", ["session", "client"])
def test_the_adaptive_modes_limiter_goes(how: str, serve: Make, throttle: Make, answer: Make, clock: Any) -> None:
    server = serve(*[throttle("sts")] * 5, answer("sts"))
    config = Config(retries={"mode": "adaptive"})
    session: Any = boto3.Session(region_name="eu-west-1")
    if how == "session":
        attach(session, configuration={})
    client = session.client("sts", endpoint_url=server.url, config=config)
    if how == "client":
        attach(client, configuration={})
    names = {
        type(getattr(handler, "__self__", None)).__name__
        for event in ("before-send.sts.GetCallerIdentity", "needs-retry.sts.GetCallerIdentity")
        for handler in client.meta.events._emitter._handlers.prefix_search(event)
    }
    assert "ClientHook" in names
    assert "ClientRateLimiter" not in names
    client.get_caller_identity()
    assert len(server.requests) == 6
    assert len(clock.sleeps) == 5


@pytest.fixture
def role_profile(serve: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A profile that assumes a role at a server of its own."""

    def make(*script: Any) -> Any:
        server = serve(*script)
        assume_a_role_at(server, monkeypatch)
        return server

    return make


def test_a_client_inside_a_credential_provider_gives_up_soon(role_profile: Make, throttle: Make, clock: Any) -> None:
    sts = role_profile(throttle("sts"))
    session: Any = attach(boto3.Session(profile_name="role"), configuration={"aws": {"max_retries": 20}})
    with pytest.raises(ClientError, match="AssumeRole") as caught:
        session.client("ec2", endpoint_url="http://127.0.0.1:9").describe_regions()
    assert len(sts.requests) == 4
    assert sum(clock.sleeps) <= 10
    assert max(clock.sleeps) <= 2.5
    told = history(caught.value)
    assert told is not None
    assert told.attempts[0].code == "Throttling"


def test_a_users_own_sts_client_is_an_ordinary_one(serve: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    session: Any = attach(boto3.Session(region_name="eu-west-1"), configuration={})
    with pytest.raises(ClientError):
        session.client("sts", endpoint_url=server.url).assume_role(RoleArn="arn:aws:iam::1:role/r" * 2, RoleSessionName="s2")
    assert len(server.requests) == 9
    assert len(clock.sleeps) == 8


def test_a_command_of_its_own_session_fetches_credentials_under_it_too(
    role_profile: Make,
    serve: Make,
    throttle: Make,
    answer: Make,
    clock: Any,
    Answer: Any,
) -> None:
    role = Answer(
        200,
        b"<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAIOSFODNN7EXAMPLE</AccessKeyId>"
        b"<SecretAccessKey>fake</SecretAccessKey><SessionToken>fake</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>"
        b"</Credentials></AssumeRoleResult></AssumeRoleResponse>",
    )
    sts = role_profile(throttle("sts"), throttle("sts"), throttle("sts"), role)
    ec2 = serve(answer("ec2"))
    aws = AwsApiCommand(make_role_session)
    aws.client("ec2", endpoint_url=ec2.url).describe_regions()
    assert len(sts.requests) == 4
    assert "ASIAIOSFODNN7EXAMPLE" in ec2.requests[0].headers["Authorization"]
    assert len(clock.sleeps) == 3
    assert {call.service for call in aws.report.operations} == {"sts", "ec2"}


def make_role_session() -> boto3.Session:
    return boto3.Session(profile_name="role")


# Many clients, threads, processes.


@pytest.mark.parametrize("clients", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_clients_leave_nothing_behind(clients: int) -> None:
    session: Any = attach(boto3.Session(region_name="eu-west-1"), configuration={})
    emitter = session._session.get_component("event_emitter")
    gone = []
    gc.disable()  # freed by their reference count alone, as clients without a hook are
    try:
        for number in range(clients):
            client = session.client("sts")
            gone.append(weakref.ref(client))
            if number == 0:
                before = len(list(emitter._emitter._handlers.prefix_search("creating-client-class.sts")))
            del client
        assert [ref() for ref in gone] == [None] * clients
    finally:
        gc.enable()
    assert len(list(emitter._emitter._handlers.prefix_search("creating-client-class.sts"))) == before


def test_fifty_threads_make_clients_of_one_session(serve: Make, throttle: Make, answer: Make, clock: Any) -> None:
    server = serve(*[throttle("sts")] * 50, answer("sts"))
    session: Any = attach(boto3.Session(region_name="eu-west-1"), configuration={"aws": PATIENT})

    def account(_: int) -> str:
        return str(session.client("sts", endpoint_url=server.url).get_caller_identity()["Account"])

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(account, range(50))) == ["111122223333"] * 50
    assert len(server.requests) == 100
    assert len(clock.sleeps) == 50


def call_in_child(command: Any, results: Any) -> None:
    answer = command.execute("sts", "get_caller_identity")
    results.put((answer["Account"], command.report.total.attempts))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_command_works_in_another_process(
    method: str, serve: Make, throttle: Make, answer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(throttle("sts", {"Retry-After": "0"}), answer("sts"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    command = AwsApiCommand(configuration={"aws": {"additional_delay_window": "1ms"}})
    context: Any = multiprocessing.get_context(method)
    results = context.Queue()
    child = context.Process(target=_child, args=(pickle.dumps(command) if method == "spawn" else command, results))
    child.start()
    assert results.get(timeout=60) == ("111122223333", 2)
    child.join()
    assert len(server.requests) == 2


def _child(command: Any, results: Any) -> None:
    call_in_child(pickle.loads(command) if isinstance(command, bytes) else command, results)  # noqa: S301 - our own bytes
