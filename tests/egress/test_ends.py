"""How a try ended, from its record and what was raised; and what a record can't tell."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import ssl
from types import SimpleNamespace

import aiohttp
import pytest
import requests
import urllib3
from azure.core.exceptions import IncompleteReadError as AzureIncompleteReadError
from azure.core.exceptions import ServiceRequestError
from botocore.exceptions import EndpointConnectionError, IncompleteReadError

from cloudretry.core.outcome import Phase
from cloudretry.core.tries import Hop, Reason
from cloudretry.egress.causes import causes_of, reason_of
from cloudretry.egress.ends import end_of
from cloudretry.egress.record import Record


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (socket.gaierror(socket.EAI_AGAIN, "try again"), Reason.UNRESOLVED),
        (ConnectionRefusedError(errno.ECONNREFUSED, "no"), Reason.REFUSED),
        (OSError(errno.EHOSTUNREACH, "no way"), Reason.REFUSED),
        (OSError(errno.ENETUNREACH, "no way"), Reason.REFUSED),
        (ConnectionResetError(errno.ECONNRESET, "reset"), Reason.RESET),
        (BrokenPipeError(errno.EPIPE, "broken"), Reason.RESET),
        (OSError(errno.ENOTCONN, "gone"), Reason.RESET),
        (http.client.RemoteDisconnected("gone"), Reason.RESET),
        (ssl.SSLEOFError(8, "EOF"), Reason.RESET),
        (http.client.IncompleteRead(b"", 5), Reason.RESET),
        (TimeoutError("timed out"), Reason.TIMEOUT),
        (socket.timeout("timed out"), Reason.TIMEOUT),  # noqa: UP041 - another class before Python 3.10
        (asyncio.TimeoutError(), Reason.TIMEOUT),
        (OSError(errno.ETIMEDOUT, "timed out"), Reason.TIMEOUT),
        (ssl.SSLCertVerificationError(1, "bad"), Reason.CERTIFICATE),
        (ssl.SSLError(1, "wrong version number"), Reason.PROTOCOL_ERROR),
        (http.client.BadStatusLine("junk"), Reason.PROTOCOL_ERROR),
        (OSError(errno.EMFILE, "too many open files"), Reason.CANCELLED),
        (ValueError("an unusable header"), Reason.CANCELLED),
        (IncompleteReadError(actual_bytes=1, expected_bytes=2), Reason.RESET),
        (AzureIncompleteReadError("short"), Reason.RESET),
        (urllib3.exceptions.ProtocolError("Response ended prematurely"), Reason.RESET),
        (aiohttp.ClientPayloadError("Response payload is not completed"), Reason.RESET),
    ],
)
def test_reasons(error: Exception, reason: Reason) -> None:
    assert reason_of(error) is reason
    assert reason_of(EndpointConnectionError(endpoint_url="x", error=error)) is reason
    assert reason_of(ServiceRequestError("x", error=error)) is reason
    assert reason_of(requests.exceptions.ConnectionError(urllib3.exceptions.ProtocolError("aborted", error))) is reason


def test_a_cause_is_looked_at_once_though_causes_go_round() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert list(causes_of(first)) == [first, second]


def test_what_the_program_was_handling_is_no_cause() -> None:
    error = ValueError("mine")
    error.__context__ = ConnectionResetError("another call's")
    assert reason_of(error) is Reason.CANCELLED


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), asyncio.CancelledError(), GeneratorExit()])
def test_who_cancels_is_not_blamed_on_a_member(error: BaseException) -> None:
    record = Record()
    record.at(Phase.WAIT, Hop.DESTINATION)
    record.error = ConnectionResetError("on the way out")
    end = end_of(record, error)
    assert (end.phase, end.reason, end.written) == (Phase.WAIT, Reason.CANCELLED, True)


@pytest.mark.parametrize(
    ("error", "phase"),
    [
        (urllib3.exceptions.NewConnectionError(None, "no"), Phase.CONNECT),  # type: ignore[arg-type]
        (urllib3.exceptions.ConnectTimeoutError(), Phase.CONNECT),
        (requests.exceptions.ConnectionError(urllib3.exceptions.ProtocolError("aborted")), Phase.SEND),
        (ConnectionResetError("when?"), Phase.SEND),
        (ssl.SSLError(1, "when?"), Phase.SEND),
    ],
)
def test_without_a_record_a_request_may_have_been_seen_unless_nothing_else_can_be(error: Exception, phase: Phase) -> None:
    assert end_of(Record(), error).phase is phase


def test_the_record_is_believed_and_not_the_class() -> None:
    record = Record()
    record.at(Phase.SEND, Hop.DESTINATION)
    assert end_of(record, urllib3.exceptions.NewConnectionError(None, "no")).written  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [200, 400, 403, 407, 429, 500, 503])
def test_without_a_proxy_every_answer_is_the_destinations(status: int) -> None:
    record = Record()
    record.at(Phase.BODY, Hop.DESTINATION)
    record.reused, record.first_byte = True, 0.25
    end = end_of(record, SimpleNamespace(status_code=status, headers={"content-type": "text/html"}))
    assert (end.phase, end.reason, end.status, end.reused, end.first_byte) == (Phase.DONE, None, status, True, 0.25)


@pytest.mark.parametrize(
    ("took", "length", "slow"),
    [(3.0, "1048576", True), (3.0, "2097152", False), (3.0, "10", True), (1.0, "10", False), (900.0, None, False)],
)
def test_a_body_is_slow_by_its_size(took: float, length: str | None, *, slow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0 + 0.5 + took)
    record, headers = Record(), {} if length is None else {"Content-Length": length}
    record.sent_at, record.first_byte = 100.0, 0.5
    answer = SimpleNamespace(status_code=200, headers=headers)
    assert end_of(record, answer).reason is None
    end = end_of(record, answer, per_mib=2.0)
    assert (end.reason, end.phase) == ((Reason.SLOW_BODY, Phase.BODY) if slow else (None, Phase.DONE))
