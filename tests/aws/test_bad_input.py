"""Whatever a server sends, a program meets nothing but the SDK's own errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.wire

Make = Callable[..., Any]
CALLS = {"sts": "get_caller_identity", "dynamodb": "list_tables", "lambda": "list_functions", "s3": "list_buckets"}

_TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["__type", "message", "Error", "x"]), inner),
    max_leaves=6,
)
_JSON = _TREES.map(lambda tree: json.dumps(tree).encode())
_CODES = st.text(max_size=30).map(lambda code: json.dumps({"__type": code, "message": code}).encode())
_XML = st.sampled_from(
    [
        b"<Error/>",
        b"<Error><Code/></Error>",
        b"<ErrorResponse><Error><Code>A#B:C</Code></Error></ErrorResponse>",
        b"<ErrorResponse><Errors><Error/></Errors></ErrorResponse>",
        b"<Response><Errors/></Response>",
        b"<a>\xff</a>",
        b"<?xml version='1.0' encoding='nonsense'?><a/>",
        b"<a xmlns='x'><Code>Throttling</Code></a>",
    ]
)
BODIES = st.one_of(_JSON, _CODES, _XML, st.binary(max_size=60))


@pytest.mark.parametrize("service", CALLS)
def test_nothing_but_the_sdks_errors(
    service: str,
    serve: Make,
    plain: Make,
    hooked: Make,
    clock: Any,
    Answer: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    server = serve(Answer())
    as_it_comes, ours = plain(service, server), hooked(service, server, {"max_retries": 1})

    def ended(client: Any) -> type[BaseException] | None:
        try:
            getattr(client, CALLS[service])()
        except Exception as error:  # noqa: BLE001 - whatever it is, is what the test is about
            return type(error)
        return None

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(status=st.sampled_from([200, 301, 400, 403, 429, 500, 503]), body=BODIES)
    def compare(status: int, body: bytes) -> None:
        server.say(Answer(status, body))
        before, after = ended(as_it_comes), ended(ours)
        if after is not before:  # a repair: what botocore can't read ends as an error that it has for that
            assert after is not None
            assert issubclass(after, (ClientError, BotoCoreError, ResponseParserError))

    compare()
