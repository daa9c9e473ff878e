"""What every test gets: an environment of its own, and real HTTP servers on loopback that count what reaches them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cloudretry.runtime.outer_loops import OUTER_LOOPS
from cloudretry.runtime.pacing import PACING

if TYPE_CHECKING:
    import ssl

    from typing_extensions import Self

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

_FOREIGN = ("AWS_", "CLOUDRETRY", "BOTO", "AZURE_")
_FOREIGN_ENDINGS = ("_PROXY", "_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing preset on the machine reaches a test: no credentials, proxies, CA bundles, profiles, configuration."""
    for name in list(os.environ):
        if name.upper().startswith(_FOREIGN) or name.upper().endswith(_FOREIGN_ENDINGS):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".state"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(home / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(home / "aws-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "fake-secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.chdir(home)
    PACING.forget()
    OUTER_LOOPS.forget()


@dataclass(frozen=True)
class Answer:
    """What the server says: a whole response, or the end of the connection (`reset`) or silence where one was due.

    `hang_up`: it closes the connection after the response, without having said so.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    reset: bool = False
    silent: bool = False
    hang_up: bool = False


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # with the default of 5, many clients at once are refused


class LoopbackServer:
    """Gives the answers of a script in order, the last one for ever; `requests` holds all that arrived."""

    def __init__(self, script: list[Answer], *, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self._script = script
        self._lock = threading.Lock()
        self._ended = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one write for each answer

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                chunked = self.headers.get("Transfer-Encoding", "") == "chunked"
                body = _chunks(self.rfile) if chunked else self.rfile.read(length)
                answer = owner._next(Request(self.command, self.path, dict(self.headers.items()), body))
                if answer.reset or answer.silent:
                    self.close_connection = True
                    owner._ended.wait(30 if answer.silent else 0)
                    return
                self.send_response_only(answer.status)
                for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)
                self.wfile.flush()
                self.close_connection = self.close_connection or answer.hang_up

            do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_CONNECT = _answer  # noqa: N815 - names of the base class

            def handle_expect_100(self) -> bool:
                expected = super().handle_expect_100()
                self.wfile.flush()  # who waits for it gets it
                return expected

            def log_message(self, *_: Any) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def say(self, *script: Answer) -> None:
        """Give other answers from now on."""
        with self._lock:
            self._script = list(script)

    def _next(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            return self._script.pop(0) if len(self._script) > 1 else self._script[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _chunks(stream: Any) -> bytes:
    body = b""
    while size := int(stream.readline().split(b";")[0], 16):
        body += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass
    return body


@pytest.fixture
def serve() -> Iterator[Callable[..., LoopbackServer]]:
    """`serve(answer, answer, …, tls=None)` starts a server that gives these in order, the last one for ever."""
    with ExitStack() as servers:
        yield lambda *script, **options: servers.enter_context(LoopbackServer(list(script), **options))


@pytest.fixture(name="Answer")
def answer_class() -> type[Answer]:
    return Answer
