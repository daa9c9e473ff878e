"""Errors stay the SDK's own, and carry what happened."""

from __future__ import annotations

import pickle
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from cloudretry import Report, attach, history

pytestmark = pytest.mark.wire

Make = Callable[..., Any]


def test_history_survives_pickling(serve: Make, hooked: Make, throttle: Make, clock: Any, Answer: Any) -> None:
    errors = []
    for script in (throttle("sts"), Answer(reset=True)):
        with pytest.raises((ClientError, ConnectionClosedError)) as caught:
            hooked("sts", serve(script)).get_caller_identity()
        errors.append(caught.value)
    for error in errors:
        twin = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
        assert str(twin) == str(error)
        assert history(twin) == history(error)
        assert history(twin) is not None
    assert len(clock.sleeps) == 8 + 3


def test_an_error_that_was_not_ours_has_no_history(serve: Make, plain: Make, error: Make) -> None:
    with pytest.raises(ClientError) as caught:
        plain("sts", serve(error(403, "AccessDenied"))).get_caller_identity()
    assert history(caught.value) is None
    assert history(ValueError("something else")) is None


def test_an_answer_that_botocore_cannot_read_ends_in_its_own_error(
    serve: Make,
    hooked: Make,
    Answer: Any,
) -> None:
    from botocore.parsers import ResponseParserError

    report = Report()
    server = serve(Answer(200, b"<html>portal"))
    client = hooked("sts", server)
    attach(client, report=report)
    with pytest.raises(ResponseParserError) as caught:
        client.get_caller_identity()
    told = history(caught.value)
    assert told is not None
    assert told.attempts[-1].code == "ResponseParserError"
    assert report.total.lost == 1


def test_an_error_that_the_program_is_just_handling_is_no_cause(serve: Make, hooked: Make, clock: Any, Answer: Any) -> None:
    """A certificate refused elsewhere must not make a lost connection look like one."""
    server = serve(Answer(reset=True))
    try:
        raise ssl.SSLCertVerificationError("somebody else's")  # noqa: TRY301 - it has to be in the handling
    except ssl.SSLCertVerificationError:
        with pytest.raises(ConnectionClosedError) as caught:
            hooked("sts", server).get_caller_identity()
    assert len(server.requests) == 4
    told = history(caught.value)
    assert told is not None
    assert told.attempts[0].outcome == "transient"
    assert len(clock.sleeps) == 3


def test_a_history_is_one_line(serve: Make, hooked: Make, throttle: Make, clock: Any) -> None:
    with pytest.raises(ClientError) as caught:
        hooked("sts", serve(throttle("sts")), {"max_retries": 1}).get_caller_identity()
    assert str(history(caught.value)) == (
        f"sts:GetCallerIdentity@key:581039954779/eu-west-1 attempts=2 waited={clock.sleeps[0]:.1f}s last=400 Throttling "
        "reason=max_retries request_id=00000000-0000-0000-0000-000000000001"
    )
