"""Kinds of aiobotocore clients, and ways to put them under cloudretry."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloudretry import Report, attach, history
from cloudretry.core.events import MemberChanged
from cloudretry.core.outcome import Phase
from cloudretry.core.tries import Reason
from cloudretry.runtime.pacing import PACING
from tests.aws.conftest import assume_a_role_at
from tests.aws.test_egress import URL, address
from tests.strategies.conftest import install

__all__ = ["install"]  # a fixture

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PAGE = b"<!DOCTYPE html><html><body>Service temporarily unavailable</body>"


@pytest.fixture
def session() -> Any:
    from aiobotocore.session import get_session

    return get_session()


def cut() -> type[Exception]:
    """What aiobotocore lets through where a body ends too soon."""
    from aiohttp import ClientPayloadError

    return ClientPayloadError


@pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])
async def test_a_session_hooks_the_clients_it_makes_from_now_on(
    mode: str, session: Any, create: Make, serve: Make, throttle: Make, clock: Any
) -> None:
    server, retries = serve(throttle("sts")), {"mode": mode}
    async with create("sts", server, session) as earlier:
        assert attach(attach(session, configuration={"aws": {"max_retries": 1}})) is session
        async with create("sts", server, session, retries=retries) as hooked, create("sts", server) as other:
            with pytest.raises(ClientError):
                await hooked.get_caller_identity()
            assert [client for client in (earlier, other) if "_cloudretry" in vars(client)] == []
    assert len(server.requests) == 2
    assert len(clock.sleeps) == 1


async def test_attaching_twice_is_once(create: Make, serve: Make, throttle: Make, clock: Any) -> None:
    server, report = serve(throttle("sts")), Report()
    async with create("sts", server) as client:
        for _ in range(3):
            assert attach(client, configuration={"aws": {"max_retries": 3}}) is client
        attach(client, report=report)
        with pytest.raises(ClientError) as caught:
            await client.get_caller_identity()
    assert len(server.requests) == 4
    assert (report.total.calls, report.total.attempts, report.total.throttled, report.total.lost) == (1, 4, 4, 1)
    told = history(caught.value)
    assert told is not None
    assert told.reason == "max_retries"
    assert told.total_wait == pytest.approx(sum(clock.sleeps))


async def test_observe_mode_records_and_leaves_the_sdks_retry_in_place(
    create: Make, serve: Make, throttle: Make, answer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)
    report, server = Report(), serve(throttle("sts"))
    async with create("sts", server, retries={"total_max_attempts": 4, "mode": "standard"}) as client:
        attach(client, configuration={"aws": {"mode": "observe", "max_retries": 1}}, report=report)
        with pytest.raises(ClientError, match="reached max retries: 3") as caught:
            await client.get_caller_identity()
        server.say(answer("sts"))
        await client.get_caller_identity()
    assert len(server.requests) == 5
    told = history(caught.value)
    assert told is not None
    assert told.reason == "sdk"
    assert (report.total.calls, report.total.attempts, report.total.throttled, report.total.lost) == (2, 5, 4, 1)


@pytest.mark.parametrize("how", ["session", "client"])
async def test_the_adaptive_modes_limiter_goes(
    how: str, session: Any, create: Make, serve: Make, throttle: Make, answer: Make, clock: Any
) -> None:
    server = serve(*[throttle("sts")] * 5, answer("sts"))
    if how == "session":
        attach(session, configuration={})
    async with create("sts", server, session, retries={"mode": "adaptive"}) as client:
        if how == "client":
            attach(client, configuration={})
        names = {
            type(getattr(handler, "__self__", None)).__name__
            for event in ("before-send.sts.GetCallerIdentity", "needs-retry.sts.GetCallerIdentity")
            for handler in client.meta.events._emitter._handlers.prefix_search(event)
        }
        await client.get_caller_identity()
    assert "AioClientHook" in names
    assert "AsyncClientRateLimiter" not in names
    assert len(server.requests) == 6
    assert len(clock.sleeps) == 5


async def test_aiobotocore_is_told_none_or_zero_and_nothing_else(
    create: Make, serve: Make, throttle: Make, answer: Make, error: Make, clock: Any, Answer: Any, monkeypatch: Any
) -> None:
    """Older versions take False for "again, at once", and True for a second."""
    from cloudretry.aws.aio_hook import AioClientHook

    replies, original = [], AioClientHook.needs_retry

    async def recorded(self: AioClientHook, *args: Any, **kwargs: Any) -> Any:
        replies.append(await original(self, *args, **kwargs))
        return replies[-1]

    monkeypatch.setattr(AioClientHook, "needs_retry", recorded)
    async with create("sts", serve(throttle("sts"), Answer(reset=True), answer("sts"))) as client:
        await attach(client, configuration={}).get_caller_identity()
    async with create("sts", serve(error(403, "AccessDenied"))) as client:
        with pytest.raises(ClientError):
            await attach(client, configuration={}).get_caller_identity()
    assert replies == [0.0, 0.0, None, None]
    assert {type(reply) for reply in replies} == {float, type(None)}


@pytest.mark.parametrize("service", ["dynamodb", "lambda", "sts"])
async def test_what_has_damaged_answers_is_asked_again(
    service: str, create: Make, serve: Make, answer: Make, clock: Any, Answer: Any
) -> None:
    operation = {"dynamodb": "list_tables", "lambda": "list_functions", "sts": "get_caller_identity"}[service]
    whole = answer(service)
    cut = Answer(200, whole.body[:-5], {"Content-Length": str(len(whole.body)), "Connection": "close"})
    damaged = [cut] if service == "sts" else [cut, Answer(200, whole.body[:-1])]
    server = serve(*damaged, whole)
    async with create(service, server) as client:
        metadata = (await getattr(attach(client, configuration={}), operation)())["ResponseMetadata"]
    assert metadata["RetryAttempts"] == len(damaged) == len(server.requests) - 1


async def test_an_async_strategy_decides_each_wait(
    create: Make, serve: Make, throttle: Make, clock: Any, install: Make
) -> None:
    install(
        "steps",
        """
        import asyncio

        class Strategy:
            async def getDelay(self, context):
                await asyncio.sleep(0)
                return 100 * context.retry_number if context.retry_number < 4 else None
        """,
    )
    server = serve(throttle("sts"))
    async with create("sts", server) as client:
        attach(client, configuration={"aws": {"strategy": "custom", "plugin": "steps"}})
        with pytest.raises(ClientError) as caught:
            await client.get_caller_identity()
    assert clock.sleeps == pytest.approx([0.1, 0.2, 0.3])
    told = history(caught.value)
    assert told is not None
    assert told.reason == "plugin"


async def test_a_streamed_body_is_the_callers(create: Make, serve: Make, throttle: Make, clock: Any, Answer: Any) -> None:
    server = serve(throttle("s3"), Answer(200, PAGE))
    async with create("s3", server) as client:
        body = (await attach(client, configuration={}).get_object(Bucket="bucket", Key="k"))["Body"]
        assert [chunk async for chunk in body.iter_chunks(10)] == [PAGE[at : at + 10] for at in range(0, len(PAGE), 10)]
        server.say(Answer(200, b"x" * 100, {"Content-Length": "1000"}, hang_up=True))
        body = (await client.get_object(Bucket="bucket", Key="k"))["Body"]
        with pytest.raises(cut()):
            await body.read()
        body.close()
    assert len(server.requests) == 3
    assert len(clock.sleeps) == 1


async def test_a_body_that_is_cut_while_the_caller_reads_is_recorded(create: Make, serve: Make, Answer: Any) -> None:
    server = serve(Answer(200, b"x" * 100, {"Content-Length": "1000", "x-amz-request-id": "1"}, hang_up=True))
    changes: list[Any] = []
    pool = {"members": [{**address(server), "name": "cut"}]}
    async with create("s3", URL) as client:
        attach(client, configuration={"aws": {"pool": "p"}, "pools": {"p": pool}}, report=Report(changes.append))
        body = (await client.get_object(Bucket="b", Key="k"))["Body"]
        with pytest.raises(cut()):
            await body.read()
        body.close()
    steps = [change.transition for change in changes if isinstance(change, MemberChanged)]
    assert [(step.destination, step.reason, step.phase) for step in steps] == [("sts.cloud.test", Reason.RESET, Phase.BODY)]


async def test_an_s3_redirect_that_names_no_region_asks_head_bucket_in_between(
    create: Make, serve: Make, throttle: Make, clock: Any, Answer: Any
) -> None:
    moved = Answer(301, b"<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>")
    told = Answer(200, b"", {"x-amz-bucket-region": "us-west-2"})
    server, report = serve(moved, throttle("s3"), told, throttle("s3"), Answer(200, b"<ListBucketResult/>")), Report()
    async with create("s3", server) as client:
        await attach(client, configuration={}, report=report).list_objects_v2(Bucket="bucket")
    assert [request.method for request in server.requests] == ["GET", "HEAD", "HEAD", "GET", "GET"]
    assert server.requests[-1].headers["Authorization"].split("/")[2] == "us-west-2"
    counts = {call.operation: (counts.calls, counts.attempts) for call, counts in report.operations.items()}
    assert counts == {"ListObjectsV2": (1, 3), "HeadBucket": (1, 2)}


async def test_an_upload_is_sent_again_from_its_beginning(
    create: Make, serve: Make, throttle: Make, clock: Any, Answer: Any, tmp_path: Path
) -> None:
    server = serve(throttle("s3"), throttle("s3"), Answer(200, b"", {"ETag": '"e"'}))
    file = tmp_path / "content"
    file.write_bytes(b"content" * 1000)
    async with create("s3", server) as client:
        with file.open("rb") as body:
            await attach(client, configuration={}).put_object(Bucket="bucket", Key="key", Body=body)
    assert [request.method for request in server.requests] == ["PUT"] * 3
    assert all(b"content" * 1000 in request.body for request in server.requests)


async def test_an_event_streams_first_answer_is_retried(
    create: Make, serve: Make, throttle: Make, clock: Any, Answer: Any
) -> None:
    server = serve(throttle("s3"), throttle("s3"), Answer(200, b""))
    async with create("s3", server) as client:
        answer = await attach(client, configuration={}).select_object_content(
            Bucket="bucket",
            Key="key",
            Expression="select 1",
            ExpressionType="SQL",
            InputSerialization={"JSON": {"Type": "LINES"}},
            OutputSerialization={"JSON": {}},
        )
        assert [event async for event in answer["Payload"]] == []
    assert len(server.requests) == 3
    assert len(clock.sleeps) == 2


@pytest.fixture
def role_session(monkeypatch: pytest.MonkeyPatch) -> Make:
    """A session that assumes a role at a server."""

    def make(sts: Any) -> Any:
        from aiobotocore.session import AioSession

        assume_a_role_at(sts, monkeypatch)
        return AioSession(profile="role")

    return make


async def test_a_client_inside_a_credential_provider_gives_up_soon_and_is_not_paced(
    create: Make, serve: Make, throttle: Make, answer: Make, Answer: Any, clock: Any, role_session: Make
) -> None:
    role = Answer(
        200,
        b"<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAIOSFODNN7EXAMPLE</AccessKeyId>"
        b"<SecretAccessKey>fake</SecretAccessKey><SessionToken>fake</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>"
        b"</Credentials></AssumeRoleResult></AssumeRoleResponse>",
    )
    sts, dynamodb = serve(throttle("sts")), serve(answer("dynamodb"))
    session = attach(role_session(sts), configuration={"aws": {"max_retries": 20, "pacing": {"mode": "adaptive"}}})
    async with create("dynamodb", dynamodb, session) as client:
        with pytest.raises(ClientError, match="AssumeRole"):
            await client.list_tables()
        assert len(sts.requests) == 4
        assert sum(clock.sleeps) <= 10
        sts.say(role)
        clock.advance(180)
        assert (await client.list_tables())["TableNames"] == []
    assert "ASIAIOSFODNN7EXAMPLE" in dynamodb.requests[0].headers["Authorization"]
    assert [quota.service for quota in PACING.states()] == ["dynamodb"]


async def test_answers_without_a_send_take_part_in_retries_and_in_nothing_else(
    create: Make, serve: Make, answer: Make, clock: Any
) -> None:
    from aiobotocore.awsrequest import AioAWSResponse

    server = serve(answer("sts"))
    throttle = (400, b"<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>")
    said = [throttle, (200, answer("sts").body)] * 6

    def instead(request: Any, **_: Any) -> Any:
        status, body = said.pop(0)
        response = AioAWSResponse(request.url, status, {}, None)
        response._content = body
        return response

    async with create("sts", server) as client:
        attach(client, configuration={"aws": {"pacing": {"mode": "adaptive"}}})
        client.meta.events.register("before-send.sts", instead)
        for _ in range(6):
            await client.get_caller_identity()
    (state,) = PACING.states().values()
    assert (state.accepted, state.throttled, state.in_flight, len(server.requests)) == (0, 0, 0, 0)
    assert len(clock.sleeps) == 6


async def test_a_presigned_url_takes_no_turn(create: Make, serve: Make, answer: Make) -> None:
    async with create("s3", serve(answer("s3"))) as client:
        attach(client, configuration={"aws": {"pacing": {"mode": "adaptive"}}})
        assert "Signature=" in await client.generate_presigned_url("get_object", {"Bucket": "b", "Key": "k"})
    assert not PACING.states()


async def test_clients_leave_nothing_behind(session: Any, create: Make, serve: Make) -> None:
    attach(session, configuration={})
    gone = []
    gc.disable()  # freed by their reference count alone, as clients without a hook are
    try:
        for _ in range(5):
            async with create("sts", "http://127.0.0.1:9", session) as client:
                gone += [weakref.ref(client), weakref.ref(client._endpoint), weakref.ref(client._endpoint.http_session)]
            del client
        assert [ref() for ref in gone] == [None] * 15
    finally:
        gc.enable()


async def test_a_failed_read_of_a_kept_connection_is_no_failure(create: Make, serve: Make, clock: Any, Answer: Any) -> None:
    made = Answer(200, b"<CreateUserResponse><CreateUserResult><User/></CreateUserResult></CreateUserResponse>", hang_up=True)
    server = serve(made)
    async with create("iam", server) as client:
        attach(client, configuration={})
        for _ in range(3):
            await client.create_user(UserName="u")
            await asyncio.sleep(0.02)  # until the end of the connection has arrived
    assert len(server.requests) == 3
    assert clock.sleeps == []
