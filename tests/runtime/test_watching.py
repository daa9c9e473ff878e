from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cloudretry.config import Configuration, load_configuration
from cloudretry.config.compiled import write_compiled
from cloudretry.egress.pool import EgressPool
from cloudretry.runtime.watching import Watch, read_compiled
from cloudretry.testing.clock import VirtualClock, virtual_clock

if TYPE_CHECKING:
    from cloudretry.core.settings import Settings

FIRST = "[aws]\nmax_retries = 1\n"
SECOND = "[aws]\nmax_retries = 2\n"


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "c.toml"
    file.write_text(FIRST)
    return file


class Watched:
    """A watch over a file, with what its listener was told."""

    def __init__(self, file: Path, clock: VirtualClock) -> None:
        self.loads = 0
        self.told: list[int] = []
        self.file = file
        self.clock = clock
        self.watch = Watch(load_configuration(file, environ={}, cwd=file.parent / "x"), self._load)
        self.watch.subscribe(lambda settings: self.told.append(retries(settings)))

    def _load(self) -> Configuration:
        self.loads += 1
        return load_configuration(self.file, environ={}, cwd=self.file.parent / "x")

    def look(self, times: int = 1) -> list[int]:
        for _ in range(times):
            self.clock.advance(1.0)
            self.watch.look()
        return self.told


@pytest.fixture
def watched(file: Path, clock: VirtualClock) -> Watched:
    return Watched(file, clock)


def retries(settings: Settings) -> int:
    return settings.providers["aws"].retry.max_retries


def replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


def test_a_replaced_file_is_taken_when_it_has_settled(watched: Watched, file: Path, clock: VirtualClock) -> None:
    replace(file, SECOND)
    assert watched.look() == []
    clock.advance(0.1)
    watched.watch.look()
    assert watched.told == [2]
    assert retries(watched.watch.settings) == 2


def test_it_is_looked_at_once_a_second(watched: Watched, file: Path, clock: VirtualClock) -> None:
    clock.advance(0.999)
    replace(file, SECOND)
    watched.watch.look()
    assert watched.told == []
    assert watched.look(2) == [2]


def test_nothing_is_read_while_nothing_changes(watched: Watched) -> None:
    watched.look(50)
    assert watched.loads == 0


def test_a_file_that_is_being_written_is_taken_when_it_is_whole(watched: Watched, file: Path) -> None:
    file.write_text("[aws]\n")  # valid, but half
    assert watched.look() == []
    file.write_text(FIRST)
    assert watched.look() == []
    file.write_text(SECOND)
    assert watched.look() == []
    assert watched.look() == [2]
    assert watched.loads == 1


def test_a_broken_file_is_refused_and_said_once(watched: Watched, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    replace(file, "[aws]\nmax_retries = 'x'\n")
    assert watched.look(5) == []
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "the last good one stays" in record.getMessage()
    assert "c.toml:2:1: aws.max_retries" in record.getMessage()
    assert retries(watched.watch.settings) == 1
    replace(file, SECOND)
    assert watched.look(2) == [2]


def test_a_deleted_file_changes_nothing_until_it_is_back(
    watched: Watched, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.unlink()
    assert watched.look(3) == []
    assert [record.getMessage() for record in caplog.records if "c.toml: gone" in record.getMessage()] == [
        f"the changed configuration is not taken, the last good one stays: {file}: gone"
    ]
    file.write_text(SECOND)
    assert watched.look(2) == [2]


def test_links_are_followed_as_kubernetes_swaps_them(tmp_path: Path, clock: VirtualClock) -> None:
    for number, text in (("1", FIRST), ("2", SECOND)):
        (tmp_path / number).mkdir()
        (tmp_path / number / "c.toml").write_text(text)
    (tmp_path / "..data").symlink_to("1")
    (tmp_path / "c.toml").symlink_to("..data/c.toml")
    watched = Watched(tmp_path / "c.toml", clock)
    (tmp_path / "swap").symlink_to("2")
    (tmp_path / "swap").rename(tmp_path / "..data")
    assert watched.look(2) == [2]


def test_a_rewrite_that_says_the_same_is_told_to_nobody(watched: Watched, file: Path) -> None:
    replace(file, f"# a comment\n{FIRST}")
    assert watched.look(5) == []
    assert watched.loads == 1


def test_a_listener_that_fails_does_not_keep_it_from_the_others(
    watched: Watched, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched.watch._listeners.insert(0, lambda _: 1 / 0)
    replace(file, SECOND)
    assert watched.look(2) == [2]
    assert "were not taken" in caplog.text


def test_a_loader_may_raise_anything(file: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Callable[[], None]:
        raise RuntimeError("no")

    watch = Watch(load_configuration(file, environ={}, cwd="/"), broken)  # type: ignore[arg-type]
    replace(file, SECOND)
    for _ in range(2):
        clock.advance(1.0)
        watch.look()
    assert "RuntimeError('no')" in caplog.text
    assert retries(watch.settings) == 1


def test_many_threads_load_it_once(watched: Watched, file: Path, clock: VirtualClock) -> None:
    replace(file, SECOND)
    watched.look()
    clock.advance(1.0)
    threads = [threading.Thread(target=watched.watch.look) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert watched.loads == 1
    assert watched.told == [2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_during_a_look_does_not_stop_the_child(watched: Watched, file: Path, clock: VirtualClock) -> None:
    replace(file, SECOND)
    watched.look()
    clock.advance(1.0)
    watched.watch._looking.acquire()  # another thread of the parent is at it
    child = os.fork()
    if child == 0:
        watched.watch.look()
        os._exit(0 if watched.told == [2] else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_compiled_settings_are_watched_without_the_configuration_room(tmp_path: Path, clock: VirtualClock) -> None:
    path = str(tmp_path / "compiled.json")
    write_compiled(load_configuration({"aws": {"max_retries": 1}}, environ={}).settings, path)
    watch = Watch(read_compiled(path), lambda: read_compiled(path))
    told: list[int] = []
    watch.subscribe(lambda settings: told.append(retries(settings)))
    write_compiled(load_configuration({"aws": {"max_retries": 2}}, environ={}).settings, path)
    for _ in range(2):
        clock.advance(1.0)
        watch.look()
    assert told == [2]


def test_without_a_file_there_is_nothing_to_look_at(clock: VirtualClock) -> None:
    watch = Watch(load_configuration(environ={}, cwd="/nowhere"), lambda: pytest.fail("nothing to load"))
    clock.advance(10.0)
    watch.look()


def test_a_member_is_taken_out_and_comes_back_by_a_probe(tmp_path: Path, clock: VirtualClock) -> None:
    file = tmp_path / "c.toml"
    text = '[aws]\npool = "p"\n[pools.p]\nmembers = [{ url = "http://a:1"%s }, "http://b:1"]\n'
    file.write_text(text % "")
    configuration = load_configuration(file, environ={}, cwd="/")
    pool = EgressPool(configuration.settings.pools["p"])
    watch = Watch(configuration, lambda: load_configuration(file, environ={}, cwd="/"))
    watch.subscribe(lambda settings: pool.reconfigure(settings.pools["p"]))
    states = []
    for disabled in (", disabled = true", ""):
        replace(file, text % disabled)
        for _ in range(2):
            clock.advance(1.0)
            watch.look()
        states.append({member.name: member.state for member in pool.snapshot().members})
    assert states == [{"a:1": "disabled", "b:1": "eligible"}, {"a:1": "probe_allowed", "b:1": "eligible"}]
