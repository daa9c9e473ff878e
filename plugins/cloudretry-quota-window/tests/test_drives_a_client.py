"""The installed plugin decides the waits of a real boto3 client, by name and with options as a configuration has them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cloudretry import AwsApiCommand, ConfigurationError, history
from cloudretry.testing import virtual_clock

THROTTLE = b"<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Too fast.</Message></Error></Errors></Response>"
ANSWER = b'<DescribeRegionsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><regionInfo/></DescribeRegionsResponse>'
OPTIONS = {"headers": ["X-Quota-Opens"], "longest_wait_ms": 60_000, "jitter_ms": 250}


class Ec2:
    """Throttles once for each of `says`, with that in the header, and then answers; counts the requests."""

    def __init__(self) -> None:
        self.says: list[str] = []
        self.requests = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                owner.requests += 1
                says = owner.says.pop(0) if owner.says else None
                body = ANSWER if says is None else THROTTLE
                self.send_response_only(200 if says is None else 503)
                self.send_header("Date", "Thu, 01 Jan 2026 12:00:00 GMT")
                self.send_header("X-Quota-Opens", says or "0")
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


def client(server: Ec2, **options: Any) -> Any:
    aws = {"strategy": "custom", "plugin": "quota-window", "plugin_options": {**OPTIONS, **options}}
    aws["pacing"] = {"mode": "off"}  # the waits between attempts alone
    return AwsApiCommand(configuration={"aws": aws}).client("ec2", region_name="eu-west-1", endpoint_url=server.url)


def test_each_throttle_is_waited_for_as_its_header_says(ec2: Ec2) -> None:
    ec2.says = ["00:00:05", "7", "Thu, 01 Jan 2026 12:00:30 GMT", "2026-01-01T12:00:40Z"]
    with virtual_clock() as clock:
        assert client(ec2).describe_regions()["Regions"] == []
    assert ec2.requests == 5
    for opening, wait in zip([5, 7, 30, 40], clock.sleeps, strict=True):
        assert opening <= wait <= opening + 0.25


def test_a_window_that_opens_too_late_gives_the_sdk_s_error_at_once(ec2: Ec2) -> None:
    ec2.says = ["00:01:01"]
    with virtual_clock() as clock, pytest.raises(ClientError, match="RequestLimitExceeded") as raised:
        client(ec2).describe_regions()
    told = history(raised.value)
    assert told is not None
    assert (ec2.requests, clock.sleeps, told.reason) == (1, [], "plugin")


def test_bad_options_are_an_error_before_the_first_call(ec2: Ec2) -> None:
    with pytest.raises(ConfigurationError, match="quota-window"):
        client(ec2, headers=[]).describe_regions()
    assert ec2.requests == 0
