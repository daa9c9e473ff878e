"""Proxies that people run, from Debian and PyPI, started on loopback; one that is not installed is skipped, and says so."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from cloudretry.core.outcome import Phase
from cloudretry.core.pool_settings import Member
from cloudretry.core.tries import Hop, Reason
from tests.egress import faults
from tests.egress.conftest import HOST, Ask

if TYPE_CHECKING:
    import ssl

pytestmark = [  # as in test_destination_faults.py
    pytest.mark.filterwarnings("ignore:unclosed <(ssl|socket):ResourceWarning"),
    pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"),
]

PATH = "/usr/sbin:/usr/bin:/usr/local/bin"
LOGIN = ("user", "right")

Start = Callable[[Path, int, "Setup"], list[str]]


@dataclass(frozen=True)
class Setup:
    """What a proxy is to do: ask for LOGIN, or forbid CONNECT to all ports but 443."""

    login: bool = False
    only_443: bool = False


def tinyproxy(folder: Path, port: int, setup: Setup) -> list[str]:
    lines = [f"Port {port}", "Listen 127.0.0.1", "Timeout 30", "MaxClients 50", "Allow 127.0.0.1"]
    if setup.login:
        lines.append(f"BasicAuth {LOGIN[0]} {LOGIN[1]}")
    if setup.only_443:
        lines.append("ConnectPort 443")
    return ["tinyproxy", "-d", "-c", written(folder / "tinyproxy.conf", lines)]


def squid(folder: Path, port: int, setup: Setup) -> list[str]:
    lines = [
        f"http_port 127.0.0.1:{port}",
        "pid_filename none",
        "access_log none",
        "cache_log /dev/null",
        f"coredump_dir {folder}",
        "cache deny all",
        "shutdown_lifetime 0 seconds",
        "pinger_enable off",
        "visible_hostname proxy.test",
    ]
    if setup.login:
        helper = next(iter(Path("/usr/lib").glob("squid*/basic_ncsa_auth")), None)
        if helper is None:
            pytest.skip("squid's basic_ncsa_auth is not installed")
        users = written(folder / "users", [f"{LOGIN[0]}:$apr1$salt$iN3YBGFI9g9emp8Zc7Ysf."])
        lines += [f"auth_param basic program {helper} {users}", "acl known proxy_auth REQUIRED", "http_access allow known"]
    if setup.only_443:
        lines += ["acl other port 1-442 444-65535", "acl CONNECT method CONNECT", "http_access deny CONNECT other"]
    lines.append("http_access deny all" if setup.login else "http_access allow all")
    return ["squid", "-N", "-f", written(folder / "squid.conf", lines)]


def proxy_py(folder: Path, port: int, setup: Setup) -> list[str]:
    login = ["--basic-auth", ":".join(LOGIN)] if setup.login else []
    if setup.only_443:
        pytest.skip("proxy.py forbids no ports")
    return [sys.executable, "-m", "proxy", "--hostname", "127.0.0.1", "--port", str(port), "--num-workers", "1", *login]


def microsocks(folder: Path, port: int, setup: Setup) -> list[str]:
    return ["microsocks", "-i", "127.0.0.1", "-p", str(port), *(["-u", LOGIN[0], "-P", LOGIN[1]] if setup.login else [])]


def danted(folder: Path, port: int, setup: Setup) -> list[str]:
    lines = [
        f"logoutput: {folder}/log",
        f"internal: 127.0.0.1 port = {port}",
        "external: lo",
        "clientmethod: none",
        "socksmethod: none",
        "client pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }",
        *(["socks block { from: 0.0.0.0/0 to: 0.0.0.0/0 port lt 443 }"] if setup.only_443 else []),
        *(["socks block { from: 0.0.0.0/0 to: 0.0.0.0/0 port gt 443 }"] if setup.only_443 else []),
        "socks pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }",
    ]
    return ["danted", "-f", written(folder / "danted.conf", lines), "-p", str(folder / "pid")]


HTTP: dict[str, Start] = {"tinyproxy": tinyproxy, "squid": squid, "proxy.py": proxy_py}
SOCKS: dict[str, Start] = {"microsocks": microsocks, "danted": danted}


def written(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    path.chmod(0o644)
    return str(path)


def require(name: str) -> None:
    installed = find_spec("proxy") if name == "proxy.py" else shutil.which(name, path=PATH)
    if installed is None:
        pytest.skip(f"{name} is not installed")


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    silent = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=silent, stderr=silent, env={"PATH": PATH}, start_new_session=True)
    try:
        for _ in range(500):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None, f"{command[0]} has ended by itself"
            time.sleep(0.02)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its workers, too
        process.wait(10)


@pytest.fixture(scope="module")
def started() -> Iterator[Callable[..., int]]:
    """`started(name, login=…, only_443=…)` is the port of such a proxy; the same one for the whole module."""
    ports: dict[tuple[str, Setup], int] = {}
    with ExitStack() as stack:

        def start(name: str, **settings: bool) -> int:
            require(name)
            setup = Setup(**settings)
            if (name, setup) not in ports:
                folder = Path(stack.enter_context(TemporaryDirectory(prefix="proxy-")))
                folder.chmod(0o755)  # some give up root, and must still get at their files
                port = faults.refused_port()
                stack.enter_context(running((HTTP | SOCKS)[name](folder, port, setup), port))
                ports[name, setup] = port
            return ports[name, setup]

        yield start


def via(name: str, port: int, login: str = "") -> Member:
    return Member(name=name, url=f"{'socks5' if name in SOCKS else 'http'}://{login}127.0.0.1:{port}")


@pytest.mark.parametrize("name", [*HTTP, *SOCKS])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_request_and_the_next(rig: Any, name: str, scheme: str, started: Callable[..., int], tls: ssl.SSLContext) -> None:
    port = started(name)
    with faults.FaultServer(faults.in_tls(tls, faults.answering()) if scheme == "https" else faults.answering()) as server:
        ask = Ask(f"{scheme}://127.0.0.1:{server.port}/", "POST", b"{}")
        # tinyproxy closes after an answer on plain HTTP, when it likes
        asks = (ask, ask) if scheme == "https" else (ask,)
        sent = rig.through(via(name, port), *asks)
        assert [(one.end.phase, one.end.reason, one.end.status) for one in sent] == [(Phase.DONE, None, 200) for _ in asks]
        assert [one.end.reused for one in sent] == [False, True][: len(asks)]


@pytest.mark.parametrize("name", [*HTTP, *SOCKS])
def test_a_destination_that_refuses(rig: Any, name: str, started: Callable[..., int]) -> None:
    port = started(name)
    ask = Ask(f"https://127.0.0.1:{faults.refused_port()}/", "POST", b"{}")
    end = rig.through(via(name, port), ask)[0].end
    assert (end.phase, end.hop, end.reason) == (Phase.PROXY_HANDSHAKE, Hop.DESTINATION, Reason.TUNNEL_REFUSED)


@pytest.mark.parametrize("name", HTTP)
def test_a_destination_that_refuses_on_plain_http(rig: Any, name: str, started: Callable[..., int]) -> None:
    port = started(name)
    end = rig.through(via(name, port), Ask(f"http://127.0.0.1:{faults.refused_port()}/"))[0].end  # no body: as below
    assert (end.hop, end.reason) == (Hop.DESTINATION, Reason.TUNNEL_REFUSED), end


@pytest.mark.parametrize("name", [*HTTP, *SOCKS])
def test_a_destination_that_resets_in_tls(rig: Any, name: str, started: Callable[..., int]) -> None:
    port = started(name)
    with faults.FaultServer(faults.after_read(faults.reset)) as server:
        end = rig.through(via(name, port), Ask(f"https://127.0.0.1:{server.port}/", "POST", b"{}"))[0].end
        assert (end.phase, end.hop, end.reason) == (Phase.TLS, Hop.DESTINATION, Reason.RESET)


@pytest.mark.parametrize("name", [*HTTP, "microsocks"])
@pytest.mark.parametrize("login", ["", "user:wrong@"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_credentials_that_are_not_taken(rig: Any, name: str, login: str, scheme: str, started: Callable[..., int]) -> None:
    port = started(name, login=True)
    # without a body: tinyproxy does not read one before it refuses, and a reset overtakes its answer
    sent = rig.through(via(name, port, login), Ask(f"{scheme}://127.0.0.1:{faults.refused_port()}/"))[0]
    end = sent.end
    assert (end.phase, end.hop, end.reason) == (Phase.PROXY_HANDSHAKE, Hop.MEMBER, Reason.AUTH_REJECTED), sent.answer
    if name in HTTP and scheme == "https":
        assert end.status == (401 if name == "tinyproxy" and login else 407)
        assert (sent.record.challenge or "").startswith("Basic") or end.status == 401


@pytest.mark.parametrize("name", [*HTTP, "microsocks"])
def test_credentials_that_are_taken(rig: Any, name: str, started: Callable[..., int], tls: ssl.SSLContext) -> None:
    port = started(name, login=True)
    with faults.FaultServer(faults.in_tls(tls, faults.answering())) as server:
        sent = rig.through(via(name, port, "user:right@"), Ask(f"https://127.0.0.1:{server.port}/", "POST", b"{}"))[0]
        assert sent.end.reason is None, sent.answer


@pytest.mark.parametrize("name", ["tinyproxy", "squid", "danted"])
def test_a_destination_that_is_forbidden(rig: Any, name: str, started: Callable[..., int]) -> None:
    port = started(name, only_443=True)
    end = rig.through(via(name, port), Ask(f"https://127.0.0.1:{faults.refused_port()}/", "POST", b"{}"))[0].end
    assert (end.phase, end.hop, end.reason) == (Phase.PROXY_HANDSHAKE, Hop.DESTINATION, Reason.FORBIDDEN)


@pytest.mark.parametrize("behind", ["somebody", "nobody"])
def test_an_address_that_is_a_load_balancer(rig: Any, behind: str, tmp_path: Path, tls: ssl.SSLContext) -> None:
    """haproxy accepts, and only then finds out whether anybody is behind it."""
    require("haproxy")
    port = faults.refused_port()
    with faults.FaultServer(faults.in_tls(tls, faults.answering())) as server:
        lines = [
            "defaults",
            " mode tcp",
            " timeout connect 1s",
            " timeout client 10s",
            " timeout server 10s",
            " retries 0",
            "frontend front",
            f" bind 127.0.0.1:{port}",
            " default_backend back",
            "backend back",
            f" server one 127.0.0.1:{server.port if behind == 'somebody' else faults.refused_port()}",
        ]
        with running(["haproxy", "-db", "-f", written(tmp_path / "haproxy.cfg", lines)], port):
            member = Member(name="balancer", connect_to=f"127.0.0.1:{port}")
            sent = rig.through(member, Ask(f"https://{HOST}/", "POST", b"{}"))[0]
        if behind == "somebody":
            assert sent.end.reason is None, sent.answer
        else:
            assert (sent.end.hop, sent.end.reason, sent.end.written) == (Hop.MEMBER, Reason.RESET, False), sent.answer
