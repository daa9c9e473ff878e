"""Connections that break, proxies that refuse, certificates that nobody trusts; and what is never sent twice for it."""

from __future__ import annotations

import pickle
import ssl
from collections.abc import Callable
from typing import Any

import pytest
import trustme
from azure.core.exceptions import AzureError, ServiceRequestError

from cloudretry.azure.classify import outcome_of_error
from cloudretry.core.outcome import Kind, Phase

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
PATH = "/subscriptions/aa/resourcegroups"


class At:
    """A place where nobody of ours listens."""

    def __init__(self, url: str) -> None:
        self.url = url


def test_a_cut_body_is_read_again(serve: Make, pipeline: Make, answer: Make, clock: Any, Answer: Any) -> None:
    server = serve(Answer(200, b'{"a"', {"Content-Length": "10", "Connection": "close"}), answer({"a": 1}))
    assert pipeline(server).send("GET", PATH).json() == {"a": 1}
    assert len(server.requests) == 2
    assert len(clock.sleeps) == 1


def test_a_slow_answer_to_a_write_is_one_request(serve: Make, pipeline: Make, clock: Any, Answer: Any, history: Make) -> None:
    server = serve(Answer(silent=True))
    with pytest.raises(AzureError) as caught:
        pipeline(server).send("POST", PATH, read_timeout=0.2)
    assert len(server.requests) == 1
    (attempt,) = history(caught.value).attempts
    assert (attempt.outcome, attempt.phase) == ("transient", "wait")
    assert history(caught.value).reason == "not_replayable"


@pytest.mark.parametrize(("status", "tries", "outcome"), [(407, 1, "fatal"), (403, 1, "fatal"), (503, 4, "not_sent")])
def test_a_proxy_that_refuses_the_tunnel(
    status: int, tries: int, outcome: str, serve: Make, pipeline: Make, clock: Any, Answer: Any, history: Make
) -> None:
    proxy = serve(Answer(status, b"", {"Connection": "close"}))
    with pytest.raises(AzureError) as caught:
        pipeline(At("https://management.example")).send("POST", PATH, proxies={"https": proxy.url})
    assert [request.method for request in proxy.requests] == ["CONNECT"] * tries
    told = history(caught.value)
    assert [(attempt.outcome, attempt.phase) for attempt in told.attempts] == [(outcome, "proxy_handshake")] * tries


def test_a_certificate_that_nobody_trusts_is_one_attempt(
    serve: Make, pipeline: Make, answer: Make, clock: Any, history: Make
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = serve(answer(), tls=context)
    with pytest.raises(ServiceRequestError) as caught:
        pipeline(server).send("GET", PATH)
    assert server.requests == []
    (attempt,) = history(caught.value).attempts
    assert (attempt.outcome, attempt.phase) == ("fatal", "tls")


def test_a_mistake_in_the_configuration_is_not_waited_for(serve: Make, manager: Make, answer: Make, clock: Any) -> None:
    server = serve(answer())
    with pytest.raises(ServiceRequestError, match="non-TLS"):
        manager(server, authentication_policy=None)(lambda client: client.resource_groups.get("one"))
    assert server.requests == []
    assert clock.sleeps == []


def test_what_the_program_was_handling_is_no_cause() -> None:
    """A fallback called in an `except` block: Python links the earlier error to the later one."""
    error = ServiceRequestError("reset", error=ConnectionResetError())
    error.__context__ = ssl.SSLCertVerificationError("of another server")
    outcome = outcome_of_error(error)
    assert (outcome.kind, outcome.phase) == (Kind.TRANSIENT, Phase.SEND)


def test_the_history_of_a_broken_connection_survives_pickling_where_the_error_does(history: Make, engine: Make) -> None:
    from azure.core.pipeline import Pipeline
    from azure.core.pipeline.policies import HTTPPolicy
    from azure.core.rest import HttpRequest

    from cloudretry.azure.policy import CloudRetryPolicy

    class Breaks(HTTPPolicy[Any, Any]):
        def send(self, request: Any) -> Any:
            raise ServiceRequestError("reset", error=ConnectionResetError())

    pipeline: Any = Pipeline(None, policies=[CloudRetryPolicy(engine=engine({"max_retries": 0})), Breaks()])  # type: ignore[arg-type]  # is never reached
    with pytest.raises(ServiceRequestError) as caught:
        pipeline.run(HttpRequest("GET", "https://x.example/"))
    twin = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert history(twin) == history(caught.value)
    assert history(twin).reason == "max_retries"
