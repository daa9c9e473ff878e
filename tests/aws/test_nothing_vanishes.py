"""Every call is counted with its end: whatever raises, wherever it raises."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import ClientError, ConnectionClosedError, NoCredentialsError

from cloudretry import AwsApiCommand, CallsLost, Report, attach, history
from cloudretry.runtime.current import CURRENT
from tests.aws.conftest import assume_a_role_at

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


def counts(report: Report) -> tuple[int, int, int]:
    return report.total.calls, report.total.attempts, report.total.lost


def test_a_call_without_credentials_is_lost_and_told(serve: Make, answer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    server = serve(answer("sts"))
    report = Report()
    session: Any = boto3.Session(region_name="eu-west-1")
    client = attach(session.client("sts", endpoint_url=server.url), configuration={}, report=report)
    with pytest.raises(NoCredentialsError) as caught:
        client.get_caller_identity()
    assert server.requests == []
    assert counts(report) == (1, 0, 1)
    told = history(caught.value)
    assert told is not None
    assert told.attempts == ()
    with pytest.raises(CallsLost):
        report.raise_if_lost()


def test_a_throttled_credential_provider_loses_the_call_that_waits_for_it(
    serve: Make, throttle: Make, answer: Make, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sts, ec2 = serve(throttle("sts")), serve(answer("ec2"))
    assume_a_role_at(sts, monkeypatch)
    report = Report()
    session: Any = attach(boto3.Session(profile_name="role"), configuration={}, report=report)
    with pytest.raises(ClientError, match="AssumeRole"):
        session.client("ec2", endpoint_url=ec2.url).describe_regions()
    assert ec2.requests == []
    assert {call.service: (item.calls, item.lost) for call, item in report.operations.items()} == {
        "sts": (1, 1),
        "ec2": (1, 1),
    }
    assert len(clock.sleeps) == 3


def test_a_refresh_that_makes_unsigned_calls_of_its_own_does_not_hang(serve: Make, answer: Make, Answer: Any) -> None:
    role = Answer(
        200,
        b"<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAIOSFODNN7EXAMPLE"
        b"</AccessKeyId><SecretAccessKey>fake</SecretAccessKey><SessionToken>fake</SessionToken>"
        b"<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
        b"</AssumeRoleWithWebIdentityResponse>",
    )
    identity, sts = serve(role), serve(answer("sts"))
    core: Any = botocore.session.get_session()
    session: Any = attach(boto3.Session(botocore_session=core, region_name="eu-west-1"), configuration={})

    def refresh() -> dict[str, str]:
        client = session.client("sts", endpoint_url=identity.url)
        made = client.assume_role_with_web_identity(
            RoleArn="arn:aws:iam::111122223333:role/audit", RoleSessionName="audit", WebIdentityToken="token"
        )["Credentials"]
        keys = {"access_key": made["AccessKeyId"], "secret_key": made["SecretAccessKey"], "token": made["SessionToken"]}
        return {**keys, "expiry_time": made["Expiration"].isoformat()}

    past = datetime.now(timezone.utc) - timedelta(hours=1)
    core._credentials = RefreshableCredentials("a", "b", "c", past, refresh_using=refresh, method="custom")
    assert session.client("sts", endpoint_url=sts.url).get_caller_identity()["Account"] == "111122223333"
    assert "ASIAIOSFODNN7EXAMPLE" in sts.requests[0].headers["Authorization"]


def test_an_account_that_signing_has_found_out_holds_from_the_first_answer(serve: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    core: Any = botocore.session.get_session()
    keys = {"access_key": "ASIAIOSFODNN7EXAMPLE", "secret_key": "fake", "token": "fake", "account_id": "111122223333"}
    past = datetime.now(timezone.utc) - timedelta(hours=1)
    core._credentials = RefreshableCredentials(
        "a", "b", "c", past, refresh_using=lambda: {**keys, "expiry_time": "2099-01-01T00:00:00Z"}, method="custom"
    )
    session: Any = attach(
        boto3.Session(botocore_session=core, region_name="eu-west-1"),
        configuration={"aws": {"overrides": [{"match": {"account": "111122223333"}, "max_retries": 2}]}},
    )
    with pytest.raises(ClientError) as caught:
        session.client("sts", endpoint_url=server.url).get_caller_identity()
    assert len(server.requests) == 3
    told = history(caught.value)
    assert told is not None
    assert told.call == "sts:GetCallerIdentity@111122223333/eu-west-1"
    assert len(clock.sleeps) == 2


@pytest.mark.parametrize("status", [302, 304, 307])
@pytest.mark.parametrize(("service", "operation"), [("dynamodb", "list_tables"), ("ec2", "describe_regions")])
def test_a_redirect_that_nobody_follows_is_a_refusal(
    status: int, service: str, operation: str, serve: Make, hooked: Make, Answer: Any
) -> None:
    report = Report()
    client = attach(hooked(service, serve(Answer(status, b"", {"Location": "http://portal.example.com/"}))), report=report)
    with pytest.raises(ClientError) as caught:
        getattr(client, operation)()
    told = history(caught.value)
    assert told is not None
    assert told.reason == "not_retryable"
    assert (report.total.calls, report.total.refused) == (1, 1)


def test_ctrl_c_while_an_attempt_is_in_flight_is_told(
    serve: Make, hooked: Make, throttle: Make, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Report()
    client = attach(hooked("sts", serve(throttle("sts"))), report=report)
    inner = client._endpoint.http_session._inner
    send, sent = inner.send, []

    def interrupted_later(request: Any) -> Any:
        sent.append(request)
        if len(sent) == 2:
            raise KeyboardInterrupt
        return send(request)

    monkeypatch.setattr(inner, "send", interrupted_later)
    with pytest.raises(KeyboardInterrupt):
        client.get_caller_identity()
    assert counts(report) == (1, 2, 1)
    assert "reason=cancelled" in str(report.lost[0])
    assert len(clock.sleeps) == 1


def test_a_call_made_while_another_is_signed_does_not_take_its_place(
    serve: Make, hooked: Make, answer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Report()
    inner = hooked("sts", serve(answer("sts")))
    outer = attach(hooked("ec2", serve(answer("ec2"))), report=report)
    outer.meta.events.register("before-sign.ec2", lambda **_: inner.get_caller_identity())

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(outer._endpoint.http_session._inner, "send", interrupted)
    with pytest.raises(KeyboardInterrupt):
        outer.describe_regions()
    assert counts(report) == (1, 1, 1)
    assert "ec2:DescribeRegions" in str(report.lost[0])
    assert CURRENT.get() is None


def test_an_attempt_that_never_left_is_not_counted(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    report = Report()
    client = attach(hooked("sts", server), report=report)

    def break_second(request: Any, **_: Any) -> None:
        if server.requests:
            raise RuntimeError("somebody's handler")

    client.meta.events.register("before-sign.sts", break_second)
    with pytest.raises(RuntimeError, match="somebody's handler"):
        client.get_caller_identity()
    assert len(server.requests) == 1
    assert counts(report) == (1, 1, 1)
    assert len(clock.sleeps) == 1


def test_observing_counts_the_attempt_that_the_legacy_handler_gives_up_with(
    serve: Make, plain: Make, monkeypatch: pytest.MonkeyPatch, Answer: Any
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    server = serve(Answer(reset=True))
    report = Report()
    client = attach(plain("sts", server, retries={"mode": "legacy"}), configuration={"aws": {"mode": "observe"}}, report=report)
    with pytest.raises(ConnectionClosedError) as caught:
        client.get_caller_identity()
    assert counts(report) == (1, len(server.requests), 1)
    told = history(caught.value)
    assert told is not None
    assert (told.reason, len(told.attempts)) == ("sdk", len(server.requests))


def test_a_server_can_not_forge_lines_of_a_report(serve: Make, hooked: Make, clock: Any, Answer: Any) -> None:
    body = b'{"__type": "Throttling\\nec2:DeleteEverything", "message": "no"}'
    report = Report()
    client = attach(
        hooked("dynamodb", serve(Answer(429, body, {"x-amzn-RequestId": "a" * 5000})), {"max_retries": 0}), report=report
    )
    with pytest.raises(ClientError):
        client.list_tables()
    (line,) = map(str, report.lost)
    assert "\n" not in line
    assert len(line) < 400
    assert clock.sleeps == []


def test_a_password_in_an_endpoint_is_told_nowhere(serve: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    report = Report()
    session: Any = boto3.Session(region_name="eu-west-1")
    url = server.url.replace("://", "://user:s3cr3tpw@")
    client = attach(session.client("sts", endpoint_url=url), configuration={"aws": {"max_retries": 0}}, report=report)
    with pytest.raises(ClientError) as caught:
        client.get_caller_identity()
    for told in (repr(report.operations), str(report.lost), repr(history(caught.value))):
        assert "s3cr3tpw" not in told
    assert clock.sleeps == []


# Attaching again changes what is given, and nothing else.


def test_a_later_report_leaves_what_was_given_before(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    first, second = Report(), Report()
    client = attach(attach(hooked("sts", server, {"max_retries": 1}), report=first), report=second)
    with pytest.raises(ClientError):
        client.get_caller_identity()
    assert len(server.requests) == 2
    assert counts(first) == counts(second) == (1, 2, 1)
    assert len(clock.sleeps) == 1


def test_a_later_account_holds(serve: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    session: Any = attach(boto3.Session(region_name="eu-west-1"), configuration={})
    configuration = {"aws": {"max_retries": 1, "overrides": [{"match": {"account": "2222*"}, "max_retries": 3}]}}
    aws = AwsApiCommand(session, account="222233334444", configuration=configuration)
    with pytest.raises(ClientError) as caught:
        aws.client("sts", endpoint_url=server.url, config=Config()).get_caller_identity()
    assert len(server.requests) == 4
    told = history(caught.value)
    assert told is not None
    assert told.call == "sts:GetCallerIdentity@222233334444/eu-west-1"
    assert len(clock.sleeps) == 3


def test_another_mode_for_a_client_that_exists_is_refused_aloud(
    serve: Make, hooked: Make, answer: Make, caplog: pytest.LogCaptureFixture
) -> None:
    attach(hooked("sts", serve(answer("sts"))), configuration={"aws": {"mode": "observe"}})
    assert "mode is decided when it is attached" in caplog.text


def test_the_kill_switch_helps_against_a_broken_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("[aws]\nmax_retries = many\n")
    monkeypatch.setenv("CLOUDRETRY_CONFIG", str(tmp_path / "broken.toml"))
    monkeypatch.setenv("CLOUDRETRY_DISABLED", "1")
    assert "_cloudretry" not in vars(AwsApiCommand().client("sts"))
