"""Ways to hook in, to stay out, and to watch."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from cloudretry import AwsApiCommand, Report, attach, history
from cloudretry.runtime.current import CURRENT

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


def test_attaching_twice_is_once(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    client = hooked("sts", server, {"max_retries": 3})
    attach(client)
    attach(client)
    with pytest.raises(ClientError):
        client.get_caller_identity()
    assert len(server.requests) == 4
    attach(client, configuration={"aws": {"max_retries": 1}})
    clock.advance(180)  # another call, no round of a loop
    with pytest.raises(ClientError):
        client.get_caller_identity()
    assert len(server.requests) == 4 + 2
    assert len(clock.sleeps) == 3 + 1


@pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])
def test_a_session_hooks_the_clients_it_makes_from_now_on(mode: str, serve: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    config = Config(retries={"mode": mode})  # type: ignore[arg-type]  # a parameter
    session = boto3.Session(region_name="eu-west-1")
    earlier = session.client("sts", endpoint_url=server.url, config=config)
    assert attach(attach(session, configuration={"aws": {"max_retries": 1}})) is session
    hooked = session.client("sts", endpoint_url=server.url, config=config)
    other = boto3.Session(region_name="eu-west-1").client("sts", endpoint_url=server.url)
    with pytest.raises(ClientError):
        hooked.get_caller_identity()
    assert len(server.requests) == 2
    assert len(clock.sleeps) == 1
    for untouched in (earlier, other):
        assert "_cloudretry" not in vars(untouched)


def test_a_botocore_session_and_a_resource_can_be_attached(serve: Make, throttle: Make, clock: Any) -> None:
    import botocore.session

    server = serve(throttle("s3"))
    session: Any = attach(botocore.session.get_session(), configuration={"aws": {"max_retries": 1}})
    with pytest.raises(ClientError):
        session.create_client("s3", region_name="eu-west-1", endpoint_url=server.url).list_buckets()
    assert len(server.requests) == 2
    clock.advance(180)  # another call, no round of a loop
    resource = attach(boto3.resource("s3", endpoint_url=server.url), configuration={"aws": {"max_retries": 2}})
    with pytest.raises(ClientError):
        list(resource.buckets.all())
    assert len(server.requests) == 2 + 3
    assert len(clock.sleeps) == 1 + 2


def test_only_clients_resources_and_sessions_can_be_attached() -> None:
    with pytest.raises(TypeError, match="not int"):
        attach(7)


def test_the_kill_switch_leaves_everything_as_it_was(
    serve: Make, plain: Make, throttle: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CLOUDRETRY_DISABLED", "1")
    monkeypatch.setattr("cloudretry.commands._warned", [])
    server = serve(throttle("sts"))
    client = attach(plain("sts", server, retries={"total_max_attempts": 1}))
    with pytest.raises(ClientError) as caught:
        client.get_caller_identity()
    assert history(caught.value) is None
    assert "_cloudretry" not in vars(AwsApiCommand().client("sts"))
    assert "neither retried nor counted" in caplog.text


def test_observe_mode_records_and_leaves_the_sdks_retry_in_place(
    serve: Make, plain: Make, throttle: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    report = Report()
    server = serve(throttle("sts"))
    client = attach(
        plain("sts", server, retries={"total_max_attempts": 4, "mode": "standard"}),
        configuration={"aws": {"mode": "observe", "max_retries": 1}},
        report=report,
    )
    with pytest.raises(ClientError, match="reached max retries: 3") as caught:
        client.get_caller_identity()
    assert len(server.requests) == 4
    told = history(caught.value)
    assert told is not None
    assert told.reason == "sdk"
    assert (report.total.calls, report.total.attempts, report.total.throttled, report.total.lost) == (1, 4, 4, 1)


def test_a_command_makes_clients_and_resources_executes_and_paginates(
    serve: Make, throttle: Make, answer: Make, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(throttle("sts"), answer("sts"), throttle("sts"), answer("sts"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    with AwsApiCommand() as aws:
        assert aws.client("sts", "eu-west-1").meta.region_name == "eu-west-1"
        assert aws.resource("s3").meta.client.meta.region_name == "eu-west-1"
        assert aws.execute("sts", "get_caller_identity")["Account"] == "111122223333"
        assert [page["Account"] for page in aws.paginate("sts", "get_caller_identity")] == ["111122223333"]
        assert (aws.report.total.calls, aws.report.total.attempts, aws.report.total.throttled) == (2, 4, 2)
        aws.report.raise_if_lost()
    assert len(server.requests) == 4
    assert len(clock.sleeps) == 2


def test_a_command_can_be_pickled_where_its_session_can_be_made_anew() -> None:
    for session in (None, boto3.Session):
        command = AwsApiCommand(session, account="111122223333", configuration={"aws": {"max_retries": 2}})
        twin = pickle.loads(pickle.dumps(command))  # noqa: S301 - our own bytes
        assert twin.account == "111122223333"
        assert twin.configuration.settings.providers["aws"].retry.max_retries == 2
    with pytest.raises(Exception, match="importable function"):
        pickle.dumps(AwsApiCommand(boto3.Session()))


def test_the_callers_config_is_not_changed() -> None:
    config = Config(retries={"max_attempts": 3, "mode": "legacy"})
    AwsApiCommand().client("sts", config=config)
    assert config.retries == {"max_attempts": 3, "mode": "legacy"}  # type: ignore[attr-defined]


def test_overrides_hold_for_their_operation_and_account(serve: Make, throttle: Make, plain: Make, clock: Any) -> None:
    server = serve(throttle("ec2"))
    client = attach(
        plain("ec2", server),
        account="111122223333",
        configuration={
            "aws": {
                "max_retries": 1,
                "overrides": [
                    {"match": {"service": "ec2", "operation": "DescribeR*"}, "max_retries": 3},
                    {"match": {"account": "999*"}, "max_retries": 0},
                ],
            }
        },
    )
    with pytest.raises(ClientError):
        client.describe_regions()
    assert len(server.requests) == 4
    with pytest.raises(ClientError):
        client.describe_vpcs()
    assert len(server.requests) == 4 + 2
    assert len(clock.sleeps) == 3 + 1


def test_an_override_by_account_says_so_when_the_account_is_not_known(
    serve: Make, answer: Make, plain: Make, caplog: pytest.LogCaptureFixture
) -> None:
    configuration = {"aws": {"overrides": [{"match": {"account": "111122223333"}, "max_retries": 0}]}}
    client = attach(plain("sts", serve(answer("sts"))), configuration=configuration)
    for _ in range(3):
        client.get_caller_identity()
    known = attach(plain("sts", serve(answer("sts"))), configuration=configuration, account="111122223333")
    known.get_caller_identity()
    assert [record.getMessage() for record in caplog.records if record.name == "cloudretry"] == [
        (
            "overrides match by account, but the account of sts:GetCallerIdentity@key:581039954779/eu-west-1 is not known;"
            " pass account="
        )
    ]


def test_a_misspelt_operation_is_an_attribute_error_as_with_boto3() -> None:
    with pytest.raises(AttributeError, match="list_bucketss"):
        AwsApiCommand().paginate("s3", "list_bucketss")


def test_a_handler_that_raises_hides_no_loss(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    class TheirsError(Exception):
        pass

    def translate(http_response: Any, **_: Any) -> None:
        raise TheirsError(http_response.status_code)

    report = Report()
    client = attach(hooked("sts", serve(throttle("sts")), {"max_retries": 1}), report=report)
    client.meta.events.register_first("after-call.sts.GetCallerIdentity", translate)
    for _ in range(3):
        with pytest.raises(TheirsError):
            client.get_caller_identity()
    assert (report.total.calls, report.total.lost) == (3, 3)
    assert CURRENT.get() is None


def test_what_a_thread_looked_up_before_does_not_hold_for_ever(serve: Make, plain: Make, throttle: Make, clock: Any) -> None:
    server, report = serve(throttle("sts")), Report()
    client = plain("sts", server)
    emitter = client.meta.events._emitter
    before = emitter._handlers.prefix_search("needs-retry.sts.GetCallerIdentity")
    attach(client, configuration={"aws": {"max_retries": 3}}, report=report)
    emitter._lookup_cache["needs-retry.sts.GetCallerIdentity"] = before  # by a thread that was about to
    with pytest.raises(ClientError):
        client.get_caller_identity()
    assert (len(server.requests), report.total.lost) == (4, 1)
