"""The installed plugin decides the waits of a real boto3 client that a server on loopback throttles."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cloudretry import AwsApiCommand, history
from cloudretry.testing import virtual_clock

THROTTLE = b"<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Too fast.</Message></Error></Errors></Response>"
ANSWER = b'<DescribeRegionsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><regionInfo/></DescribeRegionsResponse>'
CONFIGURATION = {
    "aws": {
        "strategy": "custom",
        "plugin": "decorrelated-jitter",
        "plugin_options": {"base_ms": 100, "cap_ms": 2000},
        "max_retries": 5,
        "pacing": {"mode": "off"},  # the waits between attempts alone
    }
}


class Ec2:
    """Throttles as often as it is told, then answers; counts the requests that arrive until it is closed."""

    def __init__(self) -> None:
        self.throttles = 0
        self.requests = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                owner.requests += 1
                status, body = (503, THROTTLE) if owner.requests <= owner.throttles else (200, ANSWER)
                self.send_response_only(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def ec2() -> Iterator[Ec2]:
    with closing(Ec2()) as server:
        yield server


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials, proxies, profiles or configuration of the machine."""
    for name in list(os.environ):
        if name.upper().startswith(("AWS_", "CLOUDRETRY")) or name.upper().endswith(("_PROXY", "_CA_BUNDLE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "fake-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.chdir(tmp_path)


def client(server: Ec2) -> Any:
    return AwsApiCommand(configuration=CONFIGURATION).client("ec2", region_name="eu-west-1", endpoint_url=server.url)


def test_a_throttled_call_waits_as_the_plugin_says_and_succeeds(ec2: Ec2) -> None:
    ec2.throttles = 4
    with virtual_clock() as clock:
        assert client(ec2).describe_regions()["Regions"] == []
    assert ec2.requests == 5
    assert len(clock.sleeps) == 4
    before = 0.1
    for wait in clock.sleeps:
        assert 0.1 <= wait <= min(2.0, 3 * before)
        before = wait


def test_when_the_retries_end_the_caller_gets_the_sdk_s_error_and_its_history(ec2: Ec2) -> None:
    from botocore.exceptions import ClientError

    ec2.throttles = 99
    with virtual_clock() as clock, pytest.raises(ClientError, match="RequestLimitExceeded") as raised:
        client(ec2).describe_regions()
    told = history(raised.value)
    assert told is not None
    assert ec2.requests == len(told.attempts) == 6
    assert [attempt.source for attempt in told.attempts] == ["plugin"] * 5 + [None]
    assert told.total_wait == pytest.approx(sum(clock.sleeps))
    assert told.reason == "max_retries"
