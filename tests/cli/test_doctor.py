from __future__ import annotations

import gc
import json
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from cloudretry.cli.main import main
from tests.egress import faults

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <(ssl|socket):ResourceWarning")  # as in test_destination_faults.py


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Sockets that ssl forgets to close are found here, where that is no fault, and not in somebody else's test."""
    yield
    gc.collect()


HOST = "destination.test"  # a name of nobody: a proxy would have to know it
URL = f"https://{HOST}/"


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str

    def line(self, member: str) -> str:
        """What is said of one member."""
        (line,) = [line for line in self.out.splitlines() if f" {member} " in line]
        return line.strip()


Run = Callable[..., Done]
Proxy = Callable[[faults.Behaviour], int]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """`cloudretry doctor …` in this process, over a pool of these members."""

    def ran(*arguments: str, members: Any = None, provider: str = "aws", **settings: Any) -> Done:
        if members is not None:
            document = {provider: {"pool": "corp"}, "pools": {"corp": {"members": members, **settings}}}
            (tmp_path / "c.json").write_text(json.dumps(document))
            arguments = ("--config", str(tmp_path / "c.json"), *arguments)
        monkeypatch.setattr(sys, "argv", ["cloudretry", "doctor", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Done(int(str(ended.value.code or 0)), out, err)

    return ran


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Starts a proxy that behaves like this; its port."""
    with ExitStack() as servers:
        yield lambda behaviour: servers.enter_context(faults.FaultServer(behaviour)).port


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> trustme.CA:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return authority


@pytest.fixture
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    return context


def named(name: str, port: int, scheme: str = "http", login: str = "") -> dict[str, str]:
    return {"name": name, "url": f"{scheme}://{login}127.0.0.1:{port}"}


def refusing(status: str, *headers: str) -> faults.Behaviour:
    """A proxy that does not open a tunnel."""
    head = "\r\n".join([f"HTTP/1.1 {status}", "Content-Length: 0", *headers, "", ""])
    return faults.after_request(faults.saying(head.encode(), faults.close))


@pytest.mark.parametrize("provider", ["aws", "azure"])
def test_a_member_that_works_is_ok(
    run: Run, proxy: Proxy, tls: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE" if provider == "aws" else "REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    inside = faults.in_tls(tls, faults.answering())
    members = [named("web", proxy(faults.as_proxy(inside))), named("socks", proxy(faults.as_socks(inside)), "socks5h")]
    done = run("--to", URL, members=members, provider=provider)
    assert done.status == 0
    assert done.line("web").startswith(f"ok      web    {URL}  answered with 200 in ")
    assert done.line("socks").startswith("ok ")


def test_the_same_address_for_another_name(run: Run, proxy: Proxy, tls: ssl.SSLContext, tmp_path: Path) -> None:
    port = proxy(faults.in_tls(tls, faults.answering()))
    members = [{"connect_to": f"127.0.0.1:{port}", "name": "zone"}]
    assert run("--to", URL, members=members).line("zone").startswith("FAILED")  # nobody trusts its certificate
    trusting = run("--to", URL, members=members, ca_bundle=str(tmp_path / "ca.pem"))
    assert (trusting.status, trusting.line("zone").split()[0]) == (0, "ok")


FAULTS: list[tuple[faults.Behaviour, str, str]] = [
    (faults.after_read(faults.reset), "reset in phase proxy_handshake", "it cuts the connection without a word"),
    (refusing("502 Bad Gateway"), "tunnel_refused in phase proxy_handshake with status 502", "can't reach the destination"),
    (refusing("403 Forbidden"), "forbidden in phase proxy_handshake with status 403", "ask its operator to allow"),
    (refusing("407 No", "Proxy-Authenticate: Basic realm=x"), "auth_rejected", "it wants credentials: write them"),
    (
        refusing("407 No", "Proxy-Authenticate: NTLM"),
        "auth_rejected",
        "it wants NTLM, which is not supported: let a local",
    ),
    (refusing("407 No", "Proxy-Authenticate: Negotiate"), "auth_rejected", "it wants Kerberos, which is not supported"),
    (refusing("407 No", "Proxy-Authenticate: Negotiate, Basic realm=x"), "auth_rejected", "it wants credentials"),
    (faults.saying(b"SSH-2.0-OpenSSH_9\r\n", faults.hang), "protocol_error", "what answers there is no http proxy"),
    (faults.as_proxy(faults.after_read(faults.reset)), "reset in phase tls", "a firewall before it, cuts the connection"),
    (
        faults.as_proxy(faults.after_read(faults.saying(faults.TLS_ALERT, faults.hang))),
        "protocol_error in phase tls",
        "does not speak TLS",
    ),
]


@pytest.mark.parametrize(("behaviour", "what", "advice"), FAULTS)
def test_a_fault_is_told_with_its_phase_and_what_to_do(
    run: Run, proxy: Proxy, behaviour: faults.Behaviour, what: str, advice: str
) -> None:
    done = run("--to", URL, members=[named("web", proxy(behaviour))])
    line = done.line("web")
    assert done.status == 1
    assert line.startswith(f"FAILED  web  {URL}  ")
    assert what in line
    assert advice in line


@pytest.mark.parametrize("provider", ["aws", "azure"])
def test_on_plain_http_too_a_proxy_is_heard_out(run: Run, proxy: Proxy, provider: str) -> None:
    member = named("web", proxy(refusing("407 No", "Proxy-Authenticate: NTLM")))
    assert "it wants NTLM" in run("--to", f"http://{HOST}/", members=[member], provider=provider).line("web")


def test_who_does_not_listen_or_answer(run: Run) -> None:
    with faults.black_hole() as silent:
        members = [named("nobody", faults.refused_port()), named("silent", silent)]
        done = run("--to", URL, members=members, connect_timeout="200ms")
    assert "refused in phase connect" in done.line("nobody")
    assert "nothing listens there: check host and port" in done.line("nobody")
    assert "timeout in phase connect" in done.line("silent")
    assert "connect_timeout is 0.2 s" in done.line("silent")


def test_socks_proxies_say_why(run: Run, proxy: Proxy) -> None:
    blocked = named("blocked", proxy(faults.as_socks(faults.hang, reply=2)), "socks5h")
    lost = named("lost", proxy(faults.as_socks(faults.hang, reply=4)), "socks5h")
    locked = named("locked", proxy(faults.as_socks(faults.hang, login=("me", "hunter2"))), "socks5h")
    done = run("--to", URL, members=[blocked, lost, locked])
    assert "forbidden in phase proxy_handshake" in done.line("blocked")
    assert "tunnel_refused in phase proxy_handshake" in done.line("lost")
    assert "auth_rejected in phase proxy_handshake" in done.line("locked")


def test_rejected_credentials_are_never_shown(run: Run, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASS", "hunter2")
    port = proxy(refusing("407 No", "Proxy-Authenticate: Basic realm=x"))
    done = run("--to", URL, members=[named("web", port, login="me:${env:PASS}@"), named("bad", port, login="x:hunter3@")])
    assert "it does not take the credentials" in done.line("web")
    assert "hunter" not in done.out + done.err


def test_a_disabled_member_is_tried_and_does_not_fail_the_run(run: Run) -> None:
    member = {**named("out", faults.refused_port()), "disabled": True}
    done = run("--to", URL, members=[member])
    assert done.line("out").startswith("off     out")
    assert done.status == 0


def test_a_reference_with_nothing_behind_it(run: Run) -> None:
    done = run("--to", URL, members=[named("web", 1, login="${env:NOBODY}@")])
    assert done.status == 1
    assert "FAILED  web  https://destination.test/  ${env:NOBODY}: the environment has no variable NOBODY" in done.out
    assert "problem: " in done.out


def test_a_ca_bundle_that_is_not_there(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    done = run("--to", URL, members=[named("web", faults.refused_port())], ca_bundle=str(tmp_path / "none.pem"))
    assert "none.pem: No such file or directory" in done.out
    assert "the certificates to trust can't be loaded: No such file" in done.line("web")
    done = run("--to", URL, members=[named("web", faults.refused_port())], ca_bundle=str(tmp_path / "empty.pem"))
    assert "empty.pem: no certificates in it" in done.out


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_that_is_no_member(
    run: Run, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    port = proxy(refusing("403 Forbidden"))
    monkeypatch.setenv(name, "http://me:hunter2@127.0.0.1:9")
    done = run("--to", URL, members=[named("web", port)])
    assert f"warning: {name} is http://***@127.0.0.1:9, which is no member" in done.out
    assert "forbidden" in done.line("web")  # the pool's way was taken, not the environment's
    monkeypatch.setenv(name, f"http://127.0.0.1:{port}/")
    assert "which is no member" not in run("--to", URL, members=[named("web", port)]).out


def test_a_destination_that_goes_past_the_pool(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", ".test")
    done = run("--to", URL, members=[named("web", faults.refused_port())])
    assert f"warning: calls to {URL} go past pool corp: bypass or NO_PROXY covers it" in done.out


@pytest.mark.parametrize(
    ("provider", "urls"),
    [
        ("aws", {"https://sts.amazonaws.com/"}),
        ("azure", {"https://management.azure.com/", "https://login.microsoftonline.com/"}),
    ],
)
def test_where_to_follows_from_who_uses_the_pool(run: Run, provider: str, urls: set[str]) -> None:
    done = run(members=[named("web", faults.refused_port())], provider=provider)
    assert {line.split()[2] for line in done.out.splitlines() if "FAILED" in line} == urls


def test_a_destination_is_shown_as_it_can_be_copied_without_its_query(run: Run) -> None:
    done = run("--to", f"http://{HOST}:8080/a/b?token=hunter2", members=[named("web", faults.refused_port())])
    assert done.line("web").split()[2] == f"http://{HOST}:8080/a/b"
    assert "hunter2" not in done.out


def test_a_bypass_of_one_port_concerns_that_port_alone(run: Run) -> None:
    members = [named("web", faults.refused_port())]
    done = run("--to", f"http://{HOST}:8080/", "--to", URL, members=members, bypass=[f"{HOST}:8080"])
    assert [line for line in done.out.splitlines() if line.startswith("warning: calls to ")] == [
        f"warning: calls to http://{HOST}:8080/ go past pool corp: bypass or NO_PROXY covers it"
    ]


def test_a_refused_configuration_is_told(run: Run) -> None:
    done = run(members=["ftp://x"])
    assert done.status == 1
    assert "problem: " in done.err
    assert "pools.corp.members[0].url: 'ftp://x' is not the URL of a proxy" in done.err


def test_without_a_pool_there_is_nothing_to_try(run: Run) -> None:
    done = run()
    assert (done.status, done.out) == (
        0,
        "no pool is configured: calls leave by the SDK's own connections, and there is nothing to try\n",
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("--pool", "x"), "'x' is no pool; known: corp"), (("--to", "http://me:hunter2@x"), "'http://***@x' is no URL to try")],
)
def test_an_argument_that_makes_no_sense(run: Run, arguments: tuple[str, ...], told: str) -> None:
    done = run(*arguments, members=["http://127.0.0.1:1"])
    assert done.status == 2
    assert told in done.err


def test_nothing_leaves_but_by_the_member(run: Run, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    own = socket.getaddrinfo

    def noting(host: Any, *rest: Any, **more: Any) -> Any:
        asked.append(host)
        return own(host, *rest, **more)

    monkeypatch.setattr("socket.getaddrinfo", noting)
    run("--to", URL, members=[named("web", proxy(refusing("403 Forbidden")))])
    assert set(asked) == {"127.0.0.1"}
