"""Limits that were measured outlive the process, as places to start at; nothing that stands in the file can do harm."""

from __future__ import annotations

import logging
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cloudretry.core.call import Call
from cloudretry.core.match import Match
from cloudretry.core.pacing_settings import KnownRate, PacingSettings
from cloudretry.core.quota import Quota, quota_of
from cloudretry.core.rate import Learning, Limit
from cloudretry.runtime.pacing import Pacing
from cloudretry.runtime.remembered import RememberedLimits
from cloudretry.runtime.state_folder import StateFolder
from cloudretry.testing import VirtualClock, virtual_clock

SETTINGS = PacingSettings(reserve=0.0)
CALL = Call(
    provider="aws",
    service="sqs",
    operation="ListQueues",
    region="eu-west-1",
    account="111122223333",
    host="sqs.eu-west-1.amazonaws.com",
)
QUOTA = quota_of(CALL)
KEY = ["aws", "111122223333", "sqs.eu-west-1.amazonaws.com", "eu-west-1", "sqs", "ListQueues"]
DAY = 86_400.0
Process = Callable[[], Pacing]


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(str(tmp_path / "state"), "pacing", largest=2 * 1_048_576)


@pytest.fixture
def process(folder: StateFolder, clock: VirtualClock) -> Process:
    """What a process of this user has for its quotas."""
    return lambda: Pacing(memory=RememberedLimits(lambda: folder))


def file_of(folder: StateFolder) -> Path:
    return Path(folder.path) / "limits.json"


def measure(pacing: Pacing, call: Call = CALL, settings: PacingSettings = SETTINGS, count: int = 40) -> Limit:
    """Let a quota measure so many calls a second."""
    turns = pacing.turns(call, settings)
    rate, start = turns.pacer.rate, turns.used
    for second in (1.0, 2.0, 3.0, 4.0, 5.0):
        for _ in range(count):
            rate.accept(start + second, start + second)
        rate.throttle(start + second, start + second)
    assert (rate.learning, rate.verified) == (Learning.TRACK, True)
    return Limit(rate.rate, rate.burst)


def starts_at(pacing: Pacing, call: Call = CALL, settings: PacingSettings = SETTINGS) -> Limit | None:
    return pacing.turns(call, settings).state().limit


def write(folder: StateFolder, *limits: Any, **more: Any) -> None:
    folder.write("limits.json", {"format": 1, "limits": limits, **more})


def entry(clock: VirtualClock, rate: Any = 40.0, burst: Any = 80.0, age: float = 0.0) -> list[Any]:
    return [KEY, rate, burst, clock.wall() - age]


def kept(folder: StateFolder) -> dict[Quota, Limit]:
    return {Quota(*key): Limit(rate, burst) for key, rate, burst, _ in folder.read("limits.json")["limits"]}


def test_a_process_starts_where_an_earlier_one_ended(process: Process, folder: StateFolder, clock: VirtualClock) -> None:
    first = process()
    measured = measure(first)
    assert measured.rate == pytest.approx(39.5, abs=1.0)
    first.keep(last=True)
    assert folder.read("limits.json") == {
        "format": 1,
        "limits": [[KEY, measured.rate, measured.burst, clock.wall()]],
    }
    assert stat.S_IMODE(file_of(folder).stat().st_mode) == 0o600
    assert starts_at(process()) == measured


def test_what_is_remembered_is_not_believed(process: Process, folder: StateFolder, clock: VirtualClock) -> None:
    write(folder, entry(clock, rate=5000.0, burst=50_000.0))
    second = process()
    turns = second.turns(CALL, SETTINGS)
    assert (turns.state().verified, list(second._worth_keeping())) == (False, [])
    with turns.take() as turn:
        turn.throttled()
    state = turns.state()
    assert state.learning is Learning.MEASURE
    assert state.limit is not None
    assert (state.limit.rate, state.limit.burst) < (1.0, 10.0)
    second.keep(last=True)  # nothing was measured, so nothing is made younger
    assert folder.read("limits.json")["limits"] == [entry(clock, rate=5000.0, burst=50_000.0)]


@pytest.mark.parametrize("reserve", [0.0, 0.1, 0.5])
def test_a_limit_that_was_measured_too_low_is_left_behind_at_once(
    process: Process, folder: StateFolder, clock: VirtualClock, reserve: float
) -> None:
    write(folder, entry(clock, rate=10.0, burst=20.0))
    rate = process().turns(CALL, PacingSettings(reserve=reserve)).pacer.rate
    start = clock.monotonic()
    assert rate.speed(start) == 10.0
    assert rate.speed(start + 30.0) > 40.0


def test_with_a_reserve_a_known_rate_is_kept_to_for_a_while(process: Process, folder: StateFolder, clock: VirtualClock) -> None:
    write(folder, entry(clock, rate=10.0, burst=20.0))
    known = KnownRate(match=Match(service="sqs"), rate=10.0, burst=20.0)
    rate = process().turns(CALL, PacingSettings(reserve=0.1, rates=(known,))).pacer.rate
    assert rate.speed(clock.monotonic() + 30.0) == 9.0


def test_what_was_measured_comes_before_what_is_published_unless_it_is_far_less(
    process: Process, folder: StateFolder, clock: VirtualClock
) -> None:
    ec2 = replace(CALL, service="ec2", operation="DescribeVpcs", host="ec2.eu-west-1.amazonaws.com")
    first = process()
    less = measure(first, ec2, count=10)
    first.keep(last=True)
    assert less.rate < 20.0
    assert starts_at(process(), ec2) == less
    key = [ec2.provider, ec2.account, ec2.host, ec2.region, ec2.service, ec2.operation]
    write(folder, [key, 1.9, 10.0, clock.wall()])
    assert starts_at(process(), ec2) == Limit(20.0, 100.0)


@pytest.mark.parametrize(
    "host",
    [
        "sqs.eu-west-1.amazonaws.com",
        "vpce-1.sqs.eu-west-1.vpce.amazonaws.com:443",
        "sqs.cn-north-1.amazonaws.com.cn",
        "sqs.eu-west-1.api.aws",
        "management.azure.com",
        "management.usgovcloudapi.net",
    ],
)
def test_limits_of_the_clouds_are_kept(process: Process, host: str) -> None:
    first = process()
    measured = measure(first, replace(CALL, host=host))
    first.keep(last=True)
    assert starts_at(process(), replace(CALL, host=host)) == measured
    assert starts_at(process(), replace(CALL, host="elsewhere." + host)) is None


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:4566", "localhost:5000", "[::1]:4566", "localhost.localstack.cloud:4566", "moto:5000", "10.0.0.7", "aws.corp",
     "sqs.amazonaws.com:4566", "amazonaws.com.example.org", "notamazonaws.com", ""],
)  # fmt: skip
def test_limits_of_anybody_else_are_neither_kept_nor_believed(
    process: Process, folder: StateFolder, clock: VirtualClock, host: str
) -> None:
    elsewhere = replace(CALL, host=host)
    first = process()
    measure(first, elsewhere)
    first.keep(last=True)
    assert not file_of(folder).exists()
    key = [*KEY[:2], host, *KEY[3:]]
    write(folder, [key, 40.0, 80.0, clock.wall()])
    assert starts_at(process(), elsewhere) is None


@pytest.mark.parametrize("call", [replace(CALL, account=None), replace(CALL, account="é"), replace(CALL, account="1" * 600)])
def test_a_limit_of_nobody_or_with_a_strange_key_is_not_kept(process: Process, folder: StateFolder, call: Call) -> None:
    first = process()
    measure(first, call)
    first.keep(last=True)
    assert not file_of(folder).exists()


def test_a_limit_so_low_that_learning_it_anew_is_quicker_is_not_kept(process: Process, folder: StateFolder) -> None:
    first = process()
    memory = first._memory
    first.turns(CALL, SETTINGS)
    memory.note(QUOTA, Limit(0.5, 10.0))
    first.keep(last=True)
    assert not file_of(folder).exists()


def test_it_grows_old(process: Process, folder: StateFolder, clock: VirtualClock) -> None:
    write(folder, entry(clock, age=13.9 * DAY))
    running = process()
    assert starts_at(running, replace(CALL, account="2")) is None  # which reads the file
    assert starts_at(process()) == Limit(40.0, 80.0)
    clock.advance(0.2 * DAY)
    assert starts_at(running) is None
    assert starts_at(process()) is None


def test_what_was_not_measured_again_keeps_its_age(process: Process, folder: StateFolder, clock: VirtualClock) -> None:
    running = process()
    measure(running)
    running.keep(last=True)
    began = clock.wall()
    for _ in range(3):
        clock.advance(DAY)
        running.keep(last=True)
    ((_, _, _, measured),) = folder.read("limits.json")["limits"]
    assert measured == began


def test_several_processes_keep_what_each_has_measured(process: Process, folder: StateFolder, clock: VirtualClock) -> None:
    accounts = [replace(CALL, account=str(number)) for number in range(3)]
    running = [process() for _ in accounts]
    for pacing, call in zip(running, accounts, strict=True):
        measure(pacing, call)
    for pacing in running:
        pacing.keep(last=True)
    assert kept(folder).keys() == {quota_of(call) for call in accounts}


def test_the_latest_of_two_measurements_stays(process: Process, folder: StateFolder, clock: VirtualClock) -> None:
    slower, faster = process(), process()
    measure(slower, count=20)
    slower.keep()  # before its first minute is over, as its last does, it is noted by now
    slower._memory.note(QUOTA, Limit(19.0, 20.0))
    clock.advance(5.0)
    measured = measure(faster, count=60)
    faster.keep(last=True)
    slower.keep(last=True)
    assert kept(folder) == {QUOTA: measured}


def test_a_running_process_hears_of_others_when_it_writes(process: Process, folder: StateFolder, clock: VirtualClock) -> None:
    running, other = process(), process()
    measure(running)
    elsewhere = replace(CALL, account="2")
    measured = measure(other, elsewhere)
    other.keep(last=True)
    running.keep(last=True)
    assert starts_at(running, elsewhere) == measured


def test_the_file_is_bounded_and_keeps_the_latest(process: Process, folder: StateFolder, clock: VirtualClock) -> None:
    running = process()
    running.turns(CALL, SETTINGS)
    long = "x" * (512 - len("".join(KEY)))
    for number in range(2500):
        clock.advance(1.0)
        running._memory.note(replace(QUOTA, owner=f"{number:012d}", group=KEY[5] + long), Limit(40.0 + 1 / 3, 80.0 + 1 / 3))
    running.keep(last=True)
    owners = sorted(quota.owner for quota in kept(folder))
    assert owners == [f"{number:012d}" for number in range(500, 2500)]
    assert file_of(folder).stat().st_size < 2 * 1_048_576


def test_it_is_written_at_most_every_minute_and_only_what_is_new(
    process: Process, folder: StateFolder, clock: VirtualClock
) -> None:
    running = process()

    def use() -> None:
        """What a call does, twice, for the first one notes that time has passed."""
        for _ in range(2):
            with running.turns(CALL, SETTINGS).take():
                pass

    use()
    measure(running)
    clock.advance(59.0)
    use()
    assert not file_of(folder).exists()
    clock.advance(2.0)
    use()
    assert kept(folder).keys() == {QUOTA}
    file_of(folder).unlink()
    clock.advance(600.0)
    use()
    assert not file_of(folder).exists()


def test_a_quota_that_was_dropped_is_kept(process: Process, folder: StateFolder, clock: VirtualClock) -> None:
    running = process()
    measured = measure(running)
    clock.advance(700.0)
    running.turns(replace(CALL, account="2"), SETTINGS)
    assert QUOTA not in running.states()
    running.keep(last=True)
    assert kept(folder) == {QUOTA: measured}


def test_whoever_does_not_want_it_leaves_and_finds_no_trace(folder: StateFolder, clock: VirtualClock) -> None:
    find = Mock(return_value=folder)
    settings = replace(SETTINGS, remember=False)
    running = Pacing(memory=RememberedLimits(find))
    write(folder, entry(clock))
    assert starts_at(running, settings=settings) is None
    measure(running, settings=settings)
    clock.advance(700.0)
    running.turns(replace(CALL, account="2"), settings)  # drops the first one
    running.keep(last=True)
    assert find.call_count == 0
    assert folder.read("limits.json")["limits"] == [entry(clock, age=700.0)]


def test_nothing_is_read_before_the_first_quota_is_opened(folder: StateFolder, clock: VirtualClock) -> None:
    find = Mock(return_value=folder)
    running = Pacing(memory=RememberedLimits(find))
    running.keep(last=True)
    assert find.call_count == 0
    for account in "123":
        running.turns(replace(CALL, account=account), SETTINGS)
    assert find.call_count == 1


def test_where_nothing_can_be_written_nothing_is_lost_but_that(
    clock: VirtualClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    running = Pacing(memory=RememberedLimits(lambda: StateFolder(str(tmp_path / "file" / "state"), "pacing")))
    caplog.set_level(logging.INFO, "cloudretry")
    measure(running)
    for _ in range(3):
        running.keep(last=True)
    assert [record.message.partition(": ")[0] for record in caplog.records] == ["learned limits are not kept for later runs"]
    assert starts_at(running) is not None


STAYS = """
import sys
from cloudretry.runtime.state_folder import StateFolder
with StateFolder(*sys.argv[1:]).alone("limits.lock") as alone:
    print(alone, flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_in(folder: StateFolder) -> Iterator[None]:
    command = [sys.executable, "-c", STAYS, folder._path, "pacing"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        yield
        process.communicate()


def test_who_is_not_alone_writes_later_and_at_the_end_in_any_case(
    process: Process, folder: StateFolder, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("cloudretry.runtime.remembered.time.sleep", waited.append)
    running = process()
    measure(running)
    with another_process_in(folder):
        running.keep()
        assert not file_of(folder).exists()
        running.keep(last=True)
    assert sum(waited) == pytest.approx(0.5)
    assert kept(folder).keys() == {QUOTA}


def test_while_one_thread_writes_no_other_looks_what_there_is(process: Process, clock: VirtualClock) -> None:
    running = process()
    measure(running)
    clock.advance(100.0)
    collected = Mock(return_value=[])
    with running._memory._writing:
        running._memory.keep(collected)
    assert collected.call_count == 0
    running._memory.keep(collected)
    assert collected.call_count == 1


def test_a_child_process_can_write(process: Process, folder: StateFolder) -> None:
    running = process()
    measured = measure(running)
    with running._memory._writing:  # held by a thread that the child does not have
        running.after_fork()
    running._memory.note(QUOTA, measured)
    running.keep(last=True)
    assert kept(folder) == {QUOTA: measured}
