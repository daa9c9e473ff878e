from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloudretry.core.pool_snapshot import MemberState, PoolSnapshot
from cloudretry.runtime.pool_states import PoolStates, running_pools
from cloudretry.testing.clock import VirtualClock, virtual_clock


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"CLOUDRETRY_STATE_DIR": str(tmp_path / "state")}


def member(**changes: Any) -> MemberState:
    values: dict[str, Any] = {
        "name": "a:3128", "kind": "http", "state": "cooling", "reason": "refused", "phase": "connect", "since": 5.0,
        "remaining": 4.0, "coolings": 1, "in_flight": 0, "trials": 0, "ramp": None, "weight": 1, "backup": False,
        "removed": False, "answered": 7, "counters": {"refused": 1}, "history": (),
    }  # fmt: skip
    return MemberState(**{**values, **changes})


class Program:
    """A process with one pool."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.environ = environ
        self.taken = 0
        self.states = PoolStates.of_user(self._snapshots, environ)

    def _snapshots(self) -> list[PoolSnapshot]:
        self.taken += 1
        return [PoolSnapshot(pool="corp", taken=1.0, waiting=self.taken, members=(member(),), pairs=())]

    @property
    def files(self) -> list[Path]:
        return sorted(Path(self.environ["CLOUDRETRY_STATE_DIR"], "pools").glob("*"))


@pytest.fixture
def program(environ: dict[str, str], clock: VirtualClock) -> Program:
    return Program(environ)


def test_a_running_program_is_seen(program: Program) -> None:
    program.states.look()
    (seen,) = running_pools(program.environ)
    assert (seen.process, seen.pools[0].pool, seen.pools[0].members) == (os.getpid(), "corp", (member(),))


def test_it_is_written_once_a_second_and_only_when_something_changed(program: Program, clock: VirtualClock) -> None:
    program.states.look()
    for _ in range(5):
        program.states.changed()
    assert program.taken == 1
    clock.advance(1.0)
    program.states.look()
    assert program.taken == 2
    clock.advance(1.0)
    program.states.look()
    assert program.taken == 2


def test_counters_are_refreshed_now_and_then(program: Program, clock: VirtualClock) -> None:
    program.states.look()
    clock.advance(31.0)
    program.states.look()
    assert program.taken == 2


def test_large_pools_are_written_less_often(environ: dict[str, str], clock: VirtualClock) -> None:
    taken = []

    def slowly() -> list[PoolSnapshot]:
        clock.advance(0.2)
        taken.append(1)
        return []

    states = PoolStates.of_user(slowly, environ)
    states.look()
    for _ in range(9):
        clock.advance(1.0)
        states.changed()
    assert len(taken) == 1
    clock.advance(1.0)
    states.changed()
    assert len(taken) == 2


def test_no_monotonic_stamp_and_no_secret_is_written(program: Program) -> None:
    program.states.look()
    (file,) = program.files
    document = json.loads(file.read_text())
    assert set(document) == {"format", "process", "born", "host", "command", "taken", "pools"}
    assert document["taken"] == 1_767_225_600.0
    assert "/" not in document["command"]


def test_what_a_dead_process_left_is_dropped(program: Program) -> None:
    program.states.look()
    (file,) = program.files
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    document = {**json.loads(file.read_text()), "process": gone.pid}
    file.with_name(f"{gone.pid}-x.json").write_text(json.dumps(document))
    assert [seen.process for seen in running_pools(program.environ)] == [os.getpid()]
    assert program.files == [file]


def test_another_process_with_the_same_number_is_not_it(program: Program) -> None:
    program.states.look()
    (file,) = program.files
    document = json.loads(file.read_text())
    if document["born"] is None:
        pytest.skip("the system does not say when a process began")
    file.write_text(json.dumps({**document, "born": "1"}))
    assert running_pools(program.environ) == []
    assert program.files == []


@pytest.mark.parametrize(("age", "seen"), [(3600.0, 1), (90_000.0, 0)])
def test_a_process_on_another_machine_is_believed_for_a_day(
    program: Program, clock: VirtualClock, age: float, seen: int
) -> None:
    program.states.look()
    (file,) = program.files
    file.write_text(json.dumps({**json.loads(file.read_text()), "host": "elsewhere"}))
    clock.advance(age)
    assert len(running_pools(program.environ)) == seen


@pytest.mark.parametrize("text", ["{}", "[]", '{"format": 1, "pools": [3]}', "null", "{"])
def test_a_file_that_makes_no_sense_is_dropped(program: Program, text: str) -> None:
    program.states.look()
    (file,) = program.files
    file.with_name("1.json").write_text(text)
    assert len(running_pools(program.environ)) == 1
    assert program.files == [file]


def test_another_versions_file_is_left_alone(program: Program) -> None:
    program.states.look()
    (file,) = program.files
    file.with_name("1.json").write_text('{"format": 99}')
    assert len(running_pools(program.environ)) == 1
    assert len(program.files) == 2


def test_a_folder_that_cannot_be_used_breaks_nothing(tmp_path: Path, clock: VirtualClock) -> None:
    (tmp_path / "state").write_text("a file")
    program = Program({"CLOUDRETRY_STATE_DIR": str(tmp_path / "state")})
    for _ in range(3):
        program.states.changed()
        clock.advance(2.0)
    assert program.taken == 1


def test_without_a_home_nothing_is_kept(clock: VirtualClock) -> None:
    program = Program({})
    program.states.changed()
    assert program.taken == 0
    assert running_pools({}) == []


def test_threads_write_it_once(program: Program) -> None:
    threads = [threading.Thread(target=program.states.look) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert program.taken == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_file_of_its_own(program: Program) -> None:
    program.states.look()
    program.states._writing.acquire()  # another thread of the parent is at it
    child = os.fork()
    if child == 0:
        program.states._next = 0.0
        program.states.changed()
        os._exit(0 if len(program.files) == 2 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
