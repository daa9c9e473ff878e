"""Limits that were measured, kept by real processes that end: all of theirs, and none of tests and simulators."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloudretry.runtime.remembered import users_folder
from cloudretry.runtime.state_folder import StateFolder

HOST = "sqs.eu-west-1.amazonaws.com"

SCRIPT = """
import sys
from cloudretry.core.call import Call
from cloudretry.core.pacing_settings import PacingSettings
from cloudretry.runtime.pacing import PACING

account, host = sys.argv[1:]
call = Call(provider="aws", service="sqs", operation="ListQueues", region="eu-west-1", account=account, host=host)
rate = PACING.turns(call, PacingSettings(reserve=0.0)).pacer.rate
print(rate.rate)
now = rate._accrued_at
for second in (1.0, 2.0, 3.0, 4.0):
    for _ in range(40):
        rate.accept(now + second, now + second)
    rate.throttle(now + second, now + second)
"""


def start(environ: dict[str, str], account: str, script: str = SCRIPT, host: str = HOST) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    command = [sys.executable, "-c", script, account, host]
    return subprocess.Popen(command, env={**clean, **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> float:
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return float(output)


def test_processes_that_end_at_the_same_time_all_leave_what_they_have_measured(tmp_path: Path) -> None:
    environ = {"CLOUDRETRY_STATE_DIR": str(tmp_path / "state")}
    running = [start(environ, str(number)) for number in range(5)]
    assert [ended(process) for process in running] == [float("inf")] * 5
    limits = StateFolder(str(tmp_path / "state"), "pacing").read("limits.json")["limits"]
    assert sorted(key[1] for key, *_ in limits) == ["0", "1", "2", "3", "4"]
    assert ended(start(environ, "3")) == pytest.approx(39.5, abs=1.0)


@pytest.mark.parametrize(
    ("environ", "script", "host"),
    [
        ({"PYTEST_CURRENT_TEST": "test_a.py::test_b (call)"}, SCRIPT, HOST),
        ({}, "import cloudretry.testing\n" + SCRIPT, HOST),
        ({}, SCRIPT + "\nimport cloudretry.testing", HOST),
        ({}, SCRIPT, "127.0.0.1:5000"),
        ({"CLOUDRETRY_STATE_DIR": "/dev/null/state"}, SCRIPT, HOST),
        ({"CLOUDRETRY_STATE_DIR": "state"}, "import os; os.mkdir('d'); os.chdir('d'); os.rmdir('../d')\n" + SCRIPT, HOST),
        ({"CLOUDRETRY_STATE_DIR": "", "XDG_STATE_HOME": "", "HOME": ""}, SCRIPT, HOST),
    ],
    ids=["under pytest", "with our testing", "with our testing, later", "loopback", "no folder", "no directory", "no home"],
)
def test_tests_leave_no_trace(tmp_path: Path, environ: dict[str, str], script: str, host: str) -> None:
    state = tmp_path / "state"
    ended(start({"CLOUDRETRY_STATE_DIR": str(state), **environ}, "1", script, host))
    assert not (state / "pacing" / "limits.json").exists()


def test_this_very_process_has_no_folder() -> None:
    assert users_folder() is None
