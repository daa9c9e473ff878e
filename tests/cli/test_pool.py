from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cloudretry.cli.main import main
from cloudretry.core.pool_snapshot import Change, MemberState, PairState, PoolSnapshot
from cloudretry.runtime.pool_states import PoolStates
from cloudretry.testing.clock import VirtualClock, virtual_clock

Run = Callable[..., str]


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> Run:
    """`cloudretry pool …` in this process; what it prints."""
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    def ran(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["cloudretry", "pool", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    return ran


def member(name: str, clock: VirtualClock, **changes: Any) -> MemberState:
    values: dict[str, Any] = {
        "name": name, "kind": "http", "state": "eligible", "reason": None, "phase": None, "since": clock.wall() - 600.0,
        "remaining": None, "coolings": 0, "in_flight": 2, "trials": 0, "ramp": None, "weight": 1, "backup": False,
        "removed": False, "answered": 1200, "counters": {}, "history": (),
    }  # fmt: skip
    return MemberState(**{**values, **changes})


def keep(clock: VirtualClock) -> None:
    """A running program with one pool."""
    change = Change(
        before="eligible", after="cooling", reason="refused", phase="connect", at=clock.wall(), by="caller",
        call="ec2:X", pause=5.0, destination=None,
    )  # fmt: skip
    cooling = member(
        "egress-b:3128", clock, state="cooling", reason="refused", phase="connect", since=clock.wall() - 3.0,
        remaining=4.0, in_flight=0, counters={"refused": 2, "reset": 1, "timeout": 0}, history=(change,), backup=True,
    )  # fmt: skip
    pair = PairState(
        member="egress-a:3128", destination="sts.example.com", state="cooling", reason="tunnel_refused",
        phase="proxy_handshake", since=clock.wall(), remaining=30.0, coolings=1,
    )  # fmt: skip
    members = (member("egress-a:3128", clock), cooling)
    snapshot = PoolSnapshot(pool="corp", taken=clock.wall(), waiting=3, members=members, pairs=(pair,))
    PoolStates.of_user(lambda: [snapshot]).look()


def rows(out: str) -> list[list[str]]:
    return [[cell for cell in line.strip().split("  ") if cell] for line in out.splitlines()]


def test_every_member_is_shown_with_what_is_known_of_it(run: Run, clock: VirtualClock) -> None:
    keep(clock)
    title, heads, first, pair, second = run("status").splitlines()
    assert f"({os.getpid()} on " in title
    assert title.endswith(": pool corp, seen 0s ago, 3 waiting")
    assert heads.split() == ["member", "state", "reason", "phase", "since", "left", "in", "flight", "answered", "failures"]
    assert first.split() == ["egress-a:3128", "eligible", "10m", "ago", "2", "1200"]
    assert pair.split() == ["to", "sts.example.com", "cooling", "tunnel_refused", "proxy_handshake", "0s", "ago", "30s"]
    failures = ["0", "1200", "refused", "2,", "reset", "1"]
    assert second.split() == ["egress-b:3128", "(backup)", "cooling", "refused", "connect", "3s", "ago", "4s", *failures]


def test_time_goes_on_after_the_snapshot(run: Run, clock: VirtualClock) -> None:
    keep(clock)
    clock.advance(3.0)
    assert "6s ago   1s" in run("status")
    clock.advance(1.0)
    assert "7s ago   due" in run("status")


def test_json_holds_everything(run: Run, clock: VirtualClock) -> None:
    keep(clock)
    (process,) = json.loads(run("status", "--json"))
    assert process["process"] == os.getpid()
    cooling = process["pools"][0]["members"][1]
    assert (cooling["remaining"], cooling["history"][0]["call"]) == (4.0, "ec2:X")


def test_without_a_running_program_it_says_where_it_looked(run: Run) -> None:
    assert "no running program keeps pools (looked in " in run("status")
    assert json.loads(run("status", "--json")) == []


def test_a_program_whose_pools_are_gone_is_none_that_keeps_pools(run: Run, clock: VirtualClock) -> None:
    PoolStates.of_user(list).look()
    assert "no running program keeps pools" in run("status")


def test_on_a_terminal_it_is_a_table(run: Run, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    keep(clock)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("cloudretry.cli.pool.sys.stdout.isatty", lambda: True, raising=False)
    assert "┃" in run("status")
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert "┃" not in run("status")
