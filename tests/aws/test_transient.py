"""Broken connections and servers: a request goes out again only as far as that is safe."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from typing import Any

import pytest
from botocore import UNSIGNED
from botocore.exceptions import ChecksumError, ClientError, ConnectionClosedError, EndpointConnectionError

from cloudretry import history

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


@pytest.mark.parametrize(("status", "requests"), [(500, 4), (502, 4), (503, 4), (504, 4), (501, 1)])
def test_a_broken_server_is_asked_again_three_times_for_a_read(
    status: int, requests: int, serve: Make, hooked: Make, error: Make, clock: Any
) -> None:
    server = serve(error(status, "Broken"))
    with pytest.raises(ClientError):
        hooked("sts", server).get_caller_identity()
    assert len(server.requests) == requests
    assert len(clock.sleeps) == requests - 1


def test_a_change_is_not_sent_again_when_the_server_may_have_made_it(
    serve: Make,
    hooked: Make,
    error: Make,
    clock: Any,
    Answer: Any,
) -> None:
    for broken, expected in ((error(500, "InternalFailure"), ClientError), (Answer(reset=True), ConnectionClosedError)):
        server = serve(broken)
        with pytest.raises(expected) as caught:
            hooked("iam", server).create_user(UserName="u")
        assert len(server.requests) == 1
        told = history(caught.value)
        assert told is not None
        assert told.reason == "not_replayable"
    assert clock.sleeps == []


def test_a_read_is_sent_again_when_the_connection_is_lost(
    serve: Make,
    hooked: Make,
    answer: Make,
    clock: Any,
    Answer: Any,
) -> None:
    server = serve(Answer(reset=True), Answer(reset=True), answer("sts"))
    assert hooked("sts", server).get_caller_identity()["Account"] == "111122223333"
    assert len(server.requests) == 3
    assert len(clock.sleeps) == 2


def test_a_change_with_an_idempotency_token_goes_out_again_with_the_same_token(
    serve: Make,
    hooked: Make,
    clock: Any,
    Answer: Any,
) -> None:
    server = serve(Answer(500, b"<Response/>"), Answer(500, b"<Response/>"), Answer(200, b"<RunInstancesResponse/>"))
    hooked("ec2", server).run_instances(ImageId="ami-1", MinCount=1, MaxCount=1)
    tokens = [
        next(part for part in request.body.split(b"&") if part.startswith(b"ClientToken=")) for request in server.requests
    ]
    assert len(tokens) == 3
    assert len(set(tokens)) == 1
    assert len(clock.sleeps) == 2


def test_a_request_that_never_left_is_sent_again_even_if_it_changes_something(hooked: Make, clock: Any) -> None:
    with socket.socket() as listener:  # bound, never listening: the connection is refused
        listener.bind(("127.0.0.1", 0))
        nobody = type("Nobody", (), {"url": f"http://127.0.0.1:{listener.getsockname()[1]}"})
        with pytest.raises(EndpointConnectionError) as caught:
            hooked("iam", nobody).create_user(UserName="u")
    told = history(caught.value)
    assert told is not None
    assert [(attempt.outcome, attempt.phase) for attempt in told.attempts] == [("not_sent", "connect")] * 4
    assert told.reason == "transient_retries"
    assert len(clock.sleeps) == 3


def test_transient_errors_can_be_left_alone(serve: Make, hooked: Make, error: Make, clock: Any) -> None:
    server = serve(error(500, "InternalFailure"))
    with pytest.raises(ClientError):
        hooked("sts", server, {"transient_errors": False}).get_caller_identity()
    assert len(server.requests) == 1
    assert clock.sleeps == []


def test_a_stream_that_cannot_go_back_is_never_sent_twice(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    class Pipe(io.RawIOBase):
        """Like a pipe: readable once."""

        def __init__(self) -> None:
            self._left = b"data"

        def read(self, size: int = -1) -> bytes:
            size = len(self._left) if size is None or size < 0 else size
            part, self._left = self._left[:size], self._left[size:]
            return part

        def seekable(self) -> bool:
            return False

        def tell(self) -> int:
            raise io.UnsupportedOperation

        def seek(self, offset: int, whence: int = 0) -> int:
            raise io.UnsupportedOperation

    server = serve(throttle("lambda"))
    client = hooked("lambda", server, signature_version=UNSIGNED)  # a signature would have to read it first
    with pytest.raises(ClientError) as caught:
        client.invoke(FunctionName="f", Payload=Pipe())
    assert len(server.requests) == 1
    told = history(caught.value)
    assert told is not None
    assert told.reason == "body_not_rewindable"
    assert clock.sleeps == []


def test_damaged_dynamodb_data_is_read_again_and_never_handed_out(
    serve: Make,
    hooked: Make,
    clock: Any,
    Answer: Any,
) -> None:
    damaged = Answer(200, b'{"TableNames": ["wrong"]}', {"x-amz-crc32": "1"})
    server = serve(damaged, Answer(200, b'{"TableNames": ["t"]}'))
    assert hooked("dynamodb", server).list_tables()["TableNames"] == ["t"]
    assert len(server.requests) == 2
    server = serve(damaged)
    with pytest.raises(ChecksumError) as caught:
        hooked("dynamodb", server).list_tables()
    assert len(server.requests) == 4
    told = history(caught.value)
    assert told is not None
    assert told.reason == "transient_retries"
    assert len(clock.sleeps) == 4
