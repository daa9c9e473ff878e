"""Turns for boto3's calls: before signing, given back where nothing is sent, and never in the way of what is no call."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.stub import Stubber

from cloudretry import attach
from cloudretry import history as told
from cloudretry.aws.errors import TurnTimeout
from cloudretry.report import Report
from cloudretry.runtime.current import CURRENT
from cloudretry.runtime.pacing import PACING

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


def paced(**pacing: Any) -> dict[str, Any]:
    return {"pacing": {"mode": "adaptive", **pacing}}


def states() -> Any:
    return PACING.states().values()


def is_tidy() -> bool:
    """Whether nobody waits, and nothing counts as under way."""
    return bool(states()) and all(state.waiting == state.in_flight == 0 for state in states())


def test_a_turn_too_late_is_the_sdks_error_at_once(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("dynamodb", {"Retry-After": "1200"}))
    client = hooked("dynamodb", server, paced())
    with pytest.raises(ClientError):
        client.list_tables()
    report = Report()
    attach(client, report=report)
    with pytest.raises(EndpointConnectionError) as caught:
        client.list_tables()
    assert isinstance(caught.value, TurnTimeout)
    assert (len(server.requests), clock.monotonic()) == (1, 0.0)
    history = told(caught.value)
    assert history is not None
    assert history.retry_at is not None
    assert (history.reason, history.attempts) == ("queue_timeout", ())
    assert history.retry_at.timestamp() == pytest.approx(clock.wall() + 1200)
    assert (report.total.calls, report.total.attempts, report.total.lost) == (1, 0, 1)
    twin = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert (type(twin), str(twin), told(twin)) == (TurnTimeout, str(caught.value), history)
    assert is_tidy()
    assert CURRENT.get() is None


def test_a_retry_whose_turn_comes_too_late_gives_the_answer_that_is_there(
    serve: Make, hooked: Make, throttle: Make, answer: Make, clock: Any
) -> None:
    server = serve(throttle("dynamodb", {"Retry-After": "2"}), answer("dynamodb"))
    client = hooked("dynamodb", server, paced(queue_timeout="100ms"))
    sleep = clock.sleep

    def meanwhile(seconds: float) -> None:
        sleep(seconds)
        for state in PACING._quotas.values():
            state.turns.pacer.rate.hold = clock.monotonic() + 100.0

    clock.sleep = meanwhile
    with pytest.raises(ClientError) as caught:
        client.list_tables()
    history = told(caught.value)
    assert history is not None
    assert (history.reason, len(history.attempts), len(server.requests)) == ("queue_timeout", 1, 1)
    assert is_tidy()


@pytest.mark.parametrize("seconds", ["1764482400", "9" * 200])
def test_an_absurd_pause_neither_breaks_nor_ends_a_quota(
    seconds: str, serve: Make, hooked: Make, throttle: Make, answer: Make, clock: Any
) -> None:
    server = serve(throttle("dynamodb", {"Retry-After": seconds}), answer("dynamodb"))
    client = hooked("dynamodb", server, paced())
    with pytest.raises(ClientError):
        client.list_tables()
    with pytest.raises(TurnTimeout):
        client.list_tables()
    clock.advance(3600)
    assert client.list_tables()["TableNames"] == []


def test_a_presigned_url_takes_no_turn(serve: Make, hooked: Make, answer: Make) -> None:
    client = hooked("s3", serve(answer("s3")), paced())
    client.generate_presigned_url("get_object", {"Bucket": "b", "Key": "k"})
    client.generate_presigned_post("b", "k")
    assert not states()


def test_a_stub_is_no_business_of_a_quota(serve: Make, hooked: Make, answer: Make) -> None:
    client = hooked("sts", serve(answer("sts")), paced())
    with Stubber(client) as stub:
        stub.add_client_error("get_caller_identity", "Throttling", http_status_code=400)
        with pytest.raises(ClientError):
            client.get_caller_identity()
    assert not states()


def test_answers_without_a_send_give_their_turns_back(serve: Make, hooked: Make, answer: Make, clock: Any) -> None:
    """As moto's, in the process: throttled or not, at once and not after the wait."""
    server = serve(answer("sts"))
    client = hooked("sts", server, paced())
    throttle = (400, b"<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>")
    said = [throttle, (200, answer("sts").body)] * 6  # more than may be under way at once
    under_way: list[int] = []

    def instead(request: Any, **_: Any) -> Any:
        status, body = said.pop(0)
        return AWSResponse(request.url, status, HTTPHeaders(), Raw(body))

    def count(seconds: float) -> None:
        under_way.append(sum(state.in_flight for state in states()))
        sleep(seconds)

    sleep, clock.sleep = clock.sleep, count
    client.meta.events.register("before-send.sts", instead)
    for _ in range(6):
        client.get_caller_identity()
    (state,) = states()
    assert (state.accepted, state.throttled, len(server.requests)) == (0, 0, 0)
    assert under_way == [0] * 6
    assert is_tidy()


class Raw:
    def __init__(self, body: bytes) -> None:
        self.stream = lambda *_, **__: iter([body])


@pytest.mark.parametrize("event", ["request-created", "before-sign", "before-send"])
@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_a_users_handler_that_raises_gives_the_turn_back(
    event: str, kind: Any, serve: Make, hooked: Make, answer: Make
) -> None:
    client = hooked("sts", serve(answer("sts")), paced())

    def refuse(**_: Any) -> None:
        raise kind("no")

    client.meta.events.register_last(f"{event}.sts", refuse)
    for _ in range(6):
        with pytest.raises(kind):
            client.get_caller_identity()
    client.meta.events.unregister(f"{event}.sts", refuse)
    client.get_caller_identity()
    assert is_tidy()
    assert CURRENT.get() is None


def test_interrupted_while_it_waits(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("dynamodb", {"Retry-After": "400"}))
    report = Report()
    client = attach(hooked("dynamodb", server, paced()), report=report)
    with pytest.raises(ClientError):
        client.list_tables()

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    clock.sleep = interrupt
    with pytest.raises(KeyboardInterrupt):
        client.list_tables()
    assert is_tidy()
    assert (report.total.calls, report.total.lost) == (2, 2)
    assert CURRENT.get() is None


def test_a_redirected_bucket_is_charged_for_both(serve: Make, hooked: Make, Answer: Any, answer: Make, clock: Any) -> None:
    moved = Answer(
        301,
        b"<Error><Code>PermanentRedirect</Code><Message>m</Message><Endpoint>b.s3.eu-central-1.amazonaws.com</Endpoint></Error>",
        {"x-amz-bucket-region": "eu-central-1"},
    )
    server = serve(moved, Answer(200, b"<ListBucketResult/>"))
    hooked("s3", server, paced()).list_objects_v2(Bucket="b")
    assert len(server.requests) == 2
    assert sum(state.accepted for state in states()) == 2
    assert is_tidy()


@pytest.mark.parametrize("attempts", [None, "1"])
def test_a_client_that_fetches_credentials_is_never_paced(
    attempts: str | None, serve: Make, Answer: Any, answer: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Not even where the user allows the SDK a single attempt."""
    role = (
        b"<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIAIOSFODNN7EXAMPLE</AccessKeyId>"
        b"<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>"
        b"</Credentials></AssumeRoleResult></AssumeRoleResponse>"
    )
    sts, dynamodb = serve(Answer(200, role)), serve(answer("dynamodb"))
    config = tmp_path / "config"
    config.write_text(
        "[profile base]\naws_access_key_id=AKIAIOSFODNN7EXAMPLE\naws_secret_access_key=s\n"
        "[profile role]\nrole_arn=arn:aws:iam::111122223333:role/r\nsource_profile=base\nregion=eu-west-1\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
    if attempts:
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", attempts)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    session = attach(boto3.Session(profile_name="role"), configuration={"aws": paced()})
    session.client("dynamodb", endpoint_url=dynamodb.url).list_tables()
    assert len(sts.requests) == 1
    assert [quota.service for quota in PACING.states()] == ["dynamodb"]
    assert is_tidy()


def test_a_signature_is_younger_than_the_wait(serve: Make, hooked: Make, throttle: Make, answer: Make, clock: Any) -> None:
    """It is made when the turn is there, for a first attempt and for a retry alike."""
    signed: list[float] = []
    server = serve(throttle("dynamodb", {"Retry-After": "7"}), answer("dynamodb"))
    client = hooked("dynamodb", server, paced())
    client.meta.events.register("before-sign.dynamodb", lambda **_: signed.append(clock.monotonic()))
    client.list_tables()
    assert signed[0] == 0.0
    assert signed[1] == pytest.approx(clock.monotonic())
    assert signed[1] >= 7.0
