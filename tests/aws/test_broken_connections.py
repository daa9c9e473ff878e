"""Connections that break, proxies that refuse, certificates that nobody trusts; and what is never sent twice for it."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from botocore.exceptions import ClientError, ProxyConnectionError, ReadTimeoutError, SSLError

from cloudretry import AwsApiCommand, CallsLost, Report, attach, history
from cloudretry.aws.hook import ClientHook

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


def attempts(error: BaseException) -> list[tuple[str, str]]:
    told = history(error)
    assert told is not None
    return [(attempt.outcome, attempt.phase) for attempt in told.attempts]


def test_a_function_is_not_invoked_twice_for_a_slow_answer(serve: Make, hooked: Make, clock: Any, Answer: Any) -> None:
    server = serve(Answer(silent=True))
    with pytest.raises(ReadTimeoutError) as caught:
        hooked("lambda", server, read_timeout=0.2).invoke(FunctionName="f")
    assert len(server.requests) == 1
    assert attempts(caught.value) == [("transient", "wait")]
    assert clock.sleeps == []


def test_a_read_is_asked_again_for_a_slow_answer(serve: Make, hooked: Make, answer: Make, clock: Any, Answer: Any) -> None:
    server = serve(Answer(silent=True), answer("lambda"))
    assert hooked("lambda", server, read_timeout=0.2).list_functions()["Functions"] == []
    assert len(server.requests) == 2
    assert len(clock.sleeps) == 1


def test_a_kept_alive_connection_that_was_closed_costs_nothing(serve: Make, hooked: Make, clock: Any, Answer: Any) -> None:
    made = Answer(200, b"<CreateUserResponse><CreateUserResult><User/></CreateUserResult></CreateUserResponse>", hang_up=True)
    server = serve(made)
    client = hooked("iam", server)
    for _ in range(5):
        client.create_user(UserName="u")
        threading.Event().wait(0.02)  # until the end of the connection has arrived
    assert len(server.requests) == 5
    assert clock.sleeps == []


@pytest.fixture
def tls() -> tuple[trustme.CA, ssl.SSLContext]:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return authority, context


def test_a_certificate_that_nobody_trusts_is_one_attempt(serve: Make, hooked: Make, answer: Make, clock: Any, tls: Any) -> None:
    server = serve(answer("sts"), tls=tls[1])
    with pytest.raises(SSLError) as caught:
        hooked("sts", server).get_caller_identity()
    assert server.requests == []
    assert attempts(caught.value) == [("fatal", "tls")]
    assert clock.sleeps == []


def test_tls_works_with_the_users_bundle(
    serve: Make,
    hooked: Make,
    throttle: Make,
    answer: Make,
    clock: Any,
    tls: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bundle = tmp_path / "ca.pem"
    tls[0].cert_pem.write_to_path(bundle)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    server = serve(throttle("sts"), answer("sts"), tls=tls[1])
    assert hooked("sts", server).get_caller_identity()["Account"] == "111122223333"
    assert len(server.requests) == 2
    assert len(clock.sleeps) == 1


@pytest.mark.parametrize(("status", "tries", "outcome"), [(407, 1, "fatal"), (403, 1, "fatal"), (503, 4, "not_sent")])
def test_a_proxy_that_refuses_the_tunnel(
    status: int,
    tries: int,
    outcome: str,
    serve: Make,
    hooked: Make,
    clock: Any,
    Answer: Any,
) -> None:
    proxy = serve(Answer(status, b"", {"Connection": "close"}))
    nowhere = type("Nowhere", (), {"url": "https://sts.example.com"})
    client = hooked("sts", nowhere, proxies={"https": proxy.url.replace("://", "://user:secret@")})
    with pytest.raises(ProxyConnectionError) as caught:
        client.get_caller_identity()
    assert [request.method for request in proxy.requests] == ["CONNECT"] * tries
    assert attempts(caught.value) == [(outcome, "proxy_handshake")] * tries
    assert "secret" not in repr(history(caught.value))
    assert len(clock.sleeps) == tries - 1


def test_a_proxys_407_in_plain_http_is_no_throttle_and_ends_in_a_client_error(
    serve: Make,
    hooked: Make,
    clock: Any,
    Answer: Any,
) -> None:
    proxy = serve(Answer(407, b"<html>who are you?</html>"))
    nowhere = type("Nowhere", (), {"url": "http://sts.example.com"})
    with pytest.raises(ClientError) as caught:
        hooked("sts", nowhere, proxies={"http": proxy.url}).get_caller_identity()
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 407
    assert len(proxy.requests) == 1
    assert clock.sleeps == []


def test_a_lost_call_makes_a_run_incomplete(serve: Make, throttle: Make, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(throttle("sts"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    aws = AwsApiCommand(account="111122223333", configuration={"aws": {"max_retries": 1}})
    with pytest.raises(ClientError):
        aws.execute("sts", "get_caller_identity")
    with pytest.raises(CallsLost) as caught:
        aws.report.raise_if_lost()
    (line,) = caught.value.lost
    assert line.startswith("sts:GetCallerIdentity@111122223333/eu-west-1 attempts=2 ")
    assert "last=400 Throttling reason=max_retries request_id=00000000-0000-0000-0000-000000000001" in line
    assert len(clock.sleeps) == 1


def test_botocore_is_told_none_or_zero_and_nothing_else(
    serve: Make,
    hooked: Make,
    throttle: Make,
    answer: Make,
    error: Make,
    clock: Any,
    monkeypatch: pytest.MonkeyPatch,
    Answer: Any,
) -> None:
    """Older versions take False for "again, at once", and True for a second."""
    replies: list[Any] = []
    original = ClientHook.needs_retry

    def recorded(self: ClientHook, *args: Any, **kwargs: Any) -> Any:
        reply = original(self, *args, **kwargs)
        replies.append(reply)
        return reply

    monkeypatch.setattr(ClientHook, "needs_retry", recorded)
    for script in ([throttle("sts"), Answer(reset=True), answer("sts")], [throttle("sts")], [error(403, "AccessDenied")]):
        client = attach(hooked("sts", serve(*script)), report=Report())
        with contextlib.suppress(ClientError):
            client.get_caller_identity()
    assert replies == [0.0, 0.0, None, *[0.0] * 8, None, None]
    assert {type(reply) for reply in replies} == {float, type(None)}
    assert len(clock.sleeps) == 10
