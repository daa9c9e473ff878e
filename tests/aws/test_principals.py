"""Where nobody told the account, those who call are kept apart; no secret is shown, and no override or quota is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.credentials import DeferredRefreshableCredentials

from cloudretry import Report, attach

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
KEYS = {"AKIAIOSFODNN7EXAMPLE": "581039954779", "AKIAI44QH8DHBEXAMPLE": "087defd4dba80dcd"}


def client(server: Any, key: str, report: Report, **options: Any) -> Any:
    session = boto3.Session(key, "fake-secret", region_name="eu-west-1")
    return attach(session.client("sts", endpoint_url=server.url), configuration={"aws": {}}, report=report, **options)


def accounts(report: Report) -> list[tuple[str | None, str | None]]:
    return sorted((call.account, call.principal) for call in report.operations)


def test_two_accounts_that_nobody_named(serve: Make, answer: Make, clock: Any) -> None:
    report, server = Report(), serve(answer("sts"))
    for key in KEYS:
        client(server, key, report).get_caller_identity()
    assert {call.account for call in report.operations} == {None}
    assert sorted(str(call) for call in report.operations) == sorted(
        f"sts:GetCallerIdentity@key:{name}/eu-west-1" for name in KEYS.values()
    )
    assert all(key not in repr(report.operations) for key in KEYS)


def test_an_account_that_is_known_wins(serve: Make, answer: Make, clock: Any) -> None:
    report, server = Report(), serve(answer("sts"))
    client(server, "AKIAIOSFODNN7EXAMPLE", report, account="111122223333").get_caller_identity()
    assert accounts(report) == [("111122223333", None)]


@pytest.mark.parametrize("account", [None, "111122223333"])
def test_who_calls_becomes_known_when_credentials_are_fetched(
    serve: Make, answer: Make, throttle: Make, clock: Any, account: str | None
) -> None:
    """They are fetched when the first attempt is signed; the call counts under the name that is known then."""
    report, server = Report(), serve(throttle("sts"), answer("sts"))
    session = boto3.Session(region_name="eu-west-1")
    fetched = {"access_key": "AKIAIOSFODNN7EXAMPLE", "secret_key": "s", "token": "t", "expiry_time": "2099-01-01T00:00:00Z"}
    fetched |= {"account_id": account} if account else {}
    core: Any = session
    core._session._credentials = DeferredRefreshableCredentials(lambda: fetched, "test")
    made = attach(session.client("sts", endpoint_url=server.url), configuration={"aws": {}}, report=report)
    made.get_caller_identity()
    made.get_caller_identity()
    assert accounts(report) == [(account, None if account else "key:581039954779")]
    assert (report.total.calls, report.total.throttled) == (2, 1)


def test_an_override_by_account_does_not_match_a_principal(serve: Make, throttle: Make, clock: Any) -> None:
    server = serve(throttle("sts"))
    session = boto3.Session("AKIAIOSFODNN7EXAMPLE", "fake-secret", region_name="eu-west-1")
    override = {"match": {"account": "?*"}, "max_retries": 5}
    made = attach(
        session.client("sts", endpoint_url=server.url), configuration={"aws": {"max_retries": 0, "overrides": [override]}}
    )
    with pytest.raises(made.exceptions.ClientError):
        made.get_caller_identity()
    assert len(server.requests) == 1


def test_who_signs_nothing_has_no_name(serve: Make, Answer: Any, clock: Any) -> None:
    from botocore import UNSIGNED
    from botocore.config import Config

    report, server = Report(), serve(Answer(200, b"<ListBucketResult/>"))
    options = Config(signature_version=UNSIGNED, s3={"addressing_style": "path"})
    made = attach(boto3.client("s3", endpoint_url=server.url, config=options), configuration={"aws": {}}, report=report)
    made.list_objects_v2(Bucket="b")
    assert accounts(report) == [(None, None)]
