"""`cloudretry run` beside the retries: exit codes, signals, streams, faults, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cloudretry.telemetry.journal import read_journal

TRIES = 7
ASK = """
import sys
import boto3
try:
    print(boto3.client("sts", endpoint_url=sys.argv[1]).get_caller_identity()["Account"])
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_it_exits_as_the_program_does(run: Any, status: int) -> None:
    result = run("--", sys.executable, "-c", f"raise SystemExit({status})")
    assert (result.returncode, result.stdout, result.stderr) == (status, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV], ids=lambda number: number.name)
def test_it_ends_by_the_programs_signal_and_leaves_nothing(
    run: Any, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    result = run("--", sys.executable, "-c", f"import os; os.kill(os.getpid(), {int(number)})")
    assert (result.returncode, result.stderr) == (-number, "")
    assert not list(tmp_path.glob("cloudretry-*"))


COUNTS_SIGNALS = """
import signal, sys, time
seen = []
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(each, lambda number, _: seen.append(signal.Signals(number).name))
print("ready", flush=True)
sys.stdin.readline()
print(*seen)
"""


@pytest.mark.parametrize("first", ["", "import signal; del signal.sigtimedwait"], ids=["Linux", "elsewhere"])
def test_each_signal_reaches_the_program_once(start: Any, first: str) -> None:
    process = start("--", sys.executable, "-c", COUNTS_SIGNALS, first=first, start_new_session=True)
    assert process.stdout.readline() == "ready\n"
    names = ["SIGINT", "SIGUSR1", "SIGTERM", "SIGHUP"]
    for name in names:
        process.send_signal(signal.Signals[name])
        _until_taken(process.pid, signal.Signals[name])
    output, errors = process.communicate("\n", timeout=60)
    assert (process.returncode, sorted(output.split()), errors) == (0, sorted(names), "")


def _until_taken(pid: int, number: int) -> None:
    """Until the parent no longer has it pending."""
    status = Path(f"/proc/{pid}/status")
    while status.exists() and any(
        int(line.split()[1], 16) >> (number - 1) & 1 for line in status.read_text().splitlines() if line.startswith("ShdPnd")
    ):
        pass


TERMINAL = """
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said = b""
while b"ready" not in said:
    said += os.read(terminal, 1000)
os.write(terminal, b"\\x03")
while b"SIGINT" not in said:
    said += os.read(terminal, 1000)
os.write(terminal, b"\\n")
try:
    while more := os.read(terminal, 1000):
        said += more
except OSError:
    pass
_, status = os.waitpid(pid, 0)
print(said.count(b"SIGINT"), os.waitstatus_to_exitcode(status))
"""
SAYS_SIGNALS = """
import signal, sys
signal.signal(signal.SIGINT, lambda *_: print("SIGINT", flush=True))
print("ready", flush=True)
sys.stdin.readline()
"""


def test_ctrl_c_at_a_terminal_reaches_the_program_once(command: list[str], script: Any) -> None:
    arguments = [*command, "--", sys.executable, script(SAYS_SIGNALS)]
    result = subprocess.run(
        [sys.executable, "-c", TERMINAL, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "1 0\n"


def test_an_interrupted_program_ends_as_python_does(start: Any) -> None:
    process = start("--", sys.executable, "-c", "print('ready', flush=True)\nimport time\ntime.sleep(60)")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert errors.endswith("KeyboardInterrupt\n")
    assert errors.count("Traceback") == 1


def test_the_streams_and_the_folder_are_the_programs_own(run: Any, tmp_path: Path) -> None:
    text = "import os, sys; print(sys.stdin.read().upper()); print('no', file=sys.stderr); print(os.getcwd())"
    result = run("--", sys.executable, "-c", text, input="a b", cwd=tmp_path)
    assert (result.stdout, result.stderr) == (f"A B\n{tmp_path}\n", "no\n")


def test_a_file_descriptor_that_is_inherited_passes_through(run: Any) -> None:
    reading, writing = os.pipe()
    run("--", sys.executable, "-c", f"import os; os.write({writing}, b'here')", pass_fds=(writing,))
    os.close(writing)
    with os.fdopen(reading) as file:
        assert file.read() == "here"


@pytest.mark.parametrize(("name", "status", "said"), [("nowhere", 127, "No such file"), ("text.txt", 126, "Permission denied")])
def test_what_can_not_be_started(run: Any, tmp_path: Path, name: str, status: int, said: str) -> None:
    (tmp_path / "text.txt").write_text("")
    result = run("--", str(tmp_path / name))
    assert result.returncode == status
    assert said in result.stderr


def test_a_broken_configuration_stops_before_anything_starts(run: Any, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[aws]\nmax_retries = -1\ncolour = 1\n")
    result = run("--config", str(tmp_path / "c.toml"), "--", sys.executable, "-c", "open('started', 'w')", cwd=tmp_path)
    assert result.returncode == 78
    assert "c.toml:2" in result.stderr
    assert "c.toml:3" in result.stderr
    assert not (tmp_path / "started").exists()


def test_no_secret_in_the_environment_or_on_the_command_line(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the program's Python finds differs in nothing from what it finds without us."""
    monkeypatch.setenv("PROXY_PASSWORD", "hush-1")
    monkeypatch.setenv("PYTHONPATH", "relative")
    members = '["http://user:${env:PROXY_PASSWORD}@127.0.0.1:1", "http://user:hush-2@127.0.0.1:2"]'
    (tmp_path / "c.toml").write_text(f'[aws]\npool = "p"\n[pools.p]\nmembers = {members}\n')
    text = (
        "import os, sys, json; folder = os.environ['CLOUDRETRY_RUN']; settings = folder + '/settings.json'\n"
        "print(json.dumps([dict(os.environ), open('/proc/self/cmdline').read(), open(settings).read(), sys.path,\n"
        "    os.stat(folder).st_mode, os.stat(settings).st_mode, 'pydantic' in sys.modules]))"
    )
    command = [sys.executable, "-c", text]
    seen = "import json, os, sys; print(json.dumps([dict(os.environ), sys.path]))"
    plain = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    plain_environment, plain_path = json.loads(plain.stdout)
    result = run("--config", str(tmp_path / "c.toml"), "--", *command)
    environment, line, settings, path, folder_mode, mode, has_pydantic = json.loads(result.stdout)
    added = {name for name, value in environment.items() if plain_environment.get(name) != value}
    assert added == {"PYTHONPATH", "CLOUDRETRY_RUN", "CLOUDRETRY_CONFIG"}
    assert "hush" not in json.dumps({name: environment[name] for name in added}) + line
    assert "${env:PROXY_PASSWORD}" in settings
    assert "hush-1" not in settings
    assert (stat.S_IMODE(folder_mode), stat.S_IMODE(mode)) == (0o700, 0o600)
    first, *others = environment["PYTHONPATH"].split(os.pathsep)
    assert Path(first).is_absolute()
    assert sorted(child.name for child in Path(first).iterdir() if child.suffix == ".py") == ["sitecustomize.py"]
    assert others == ["relative"]
    assert path == plain_path
    assert not has_pydantic
    assert not Path(environment["CLOUDRETRY_RUN"]).exists()


OWN = "import os, sys\nif 'CLOUDRETRY_RUN' in os.environ: print('own', sys.modules['sitecustomize'].__file__ == __file__)\n"


def test_the_programs_own_sitecustomize_runs(run: Any, script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(OWN, "site/sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    result = run("--", sys.executable, "-c", "import sitecustomize; print(sitecustomize.__file__)")
    own = tmp_path / "site" / "sitecustomize.py"
    assert (result.stdout, result.stderr) == (f"own True\n{own}\n", "")


BREAKS = {
    "what attaches": "import cloudretry.aws.attach as a\ndef broken(*_): raise OSError('worn out')\na.attach_made = broken",
    "a module that is missing": "import sys\nsys.modules['cloudretry.aws.hook'] = None",
    "the settings": "import os\nopen(os.environ['CLOUDRETRY_RUN'] + '/settings.json', 'w').write('{}')",
}


@pytest.mark.wire
@pytest.mark.parametrize("breaking", BREAKS.values(), ids=BREAKS.keys())
def test_a_broken_piece_of_ours_does_not_stop_the_program(run: Any, script: Any, answering: Any, breaking: str) -> None:
    server = answering(2)
    result = run("--", sys.executable, script(f"{breaking}\n{ASK}"), server.url)
    assert (result.returncode, result.stdout) == (0, "111122223333\n")
    assert len(server.requests) == 3  # by the SDK's own retry
    assert re.fullmatch(r"cloudretry: .*\n", result.stderr)
    result = run("--fail-on-loss", "--", sys.executable, script(f"{breaking}\n{ASK}"), server.url)
    assert result.returncode == 3  # nobody knows what it lost


def test_a_run_that_is_over_hooks_nothing(script: Any, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = run("--", sys.executable, "-c", "import os, json; print(json.dumps(dict(os.environ)))")
    left = json.loads(environment.stdout)
    result = subprocess.run([sys.executable, "-c", "print(1)"], env=left, capture_output=True, text=True, check=True)
    assert result.stdout == "1\n"
    assert result.stderr == "cloudretry: this program runs without it: RuntimeError: the run that it belongs to has ended\n"


@pytest.mark.wire
def test_nested_runs_are_one(run: Any, command: list[str], script: Any, throttling: Any) -> None:
    inner = [*command, "--fail-on-loss", "--", sys.executable, script(ASK), throttling.url]
    result = run("--fail-on-loss", "--", *inner)
    assert len(throttling.requests) == TRIES
    assert (result.returncode, result.stdout) == (3, "ClientError\n")
    assert [line.partition(",")[0] for line in result.stderr.splitlines()] == [
        "cloudretry: this runs inside another `cloudretry run`",
        next(line for line in result.stderr.splitlines() if line.startswith("lost call sts")),
        "cloudretry: 1 call in 1 process",
        next(line for line in result.stderr.splitlines() if "lost sts" in line),
    ]


@pytest.mark.wire
def test_a_nested_run_hooks_what_the_outer_one_can_no_longer_reach(
    run: Any, command: list[str], script: Any, throttling: Any
) -> None:
    result = run("--", "env", "PYTHONPATH=", *command, "--", sys.executable, script(ASK), throttling.url)
    assert len(throttling.requests) == TRIES
    assert "1 lost" in result.stderr


@pytest.mark.wire
def test_switched_off_is_off(run: Any, script: Any, throttling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDRETRY_DISABLED", "1")
    result = run("--", sys.executable, script(ASK), throttling.url)
    assert (result.returncode, len(throttling.requests)) == (0, 3)
    assert result.stderr == "cloudretry: CLOUDRETRY_DISABLED is set: the program runs without it\n"


@pytest.mark.wire
def test_what_was_lost_is_said_and_fails_the_run(run: Any, script: Any, throttling: Any, tmp_path: Path) -> None:
    result = run("--report", str(tmp_path / "out"), "--fail-on-loss", "--", sys.executable, script(ASK), throttling.url)
    assert (result.returncode, result.stdout) == (3, "ClientError\n")
    logged, summary, lost = result.stderr.splitlines()
    assert re.fullmatch(
        r"cloudretry: 1 call in 1 process, 7 attempts, 7 throttled, \d\.\d s waited, 0\.0 s queued, 1 lost \(max_retries 1\)",
        summary,
    )
    assert logged.startswith("lost call sts:GetCallerIdentity@key:581039954779/eu-west-1 attempts=7 ")
    assert lost == "cloudretry: lost sts:GetCallerIdentity@key:581039954779/eu-west-1: 1 call (max_retries 1)"
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [record["line"] for record in report["lost"]] == [logged.removeprefix("lost call ")]
    (operation,) = report["operations"]
    assert (operation["operation"], operation["calls"], operation["lost"]) == ("GetCallerIdentity", 1, 1)
    believed = json.loads((tmp_path / "out" / "completeness.json").read_text())
    assert believed == {"key:581039954779": {"eu-west-1": {"sts:GetCallerIdentity": "partial"}}}
    (process,) = (tmp_path / "out").glob("processes-*/*.jsonl")
    assert {json.loads(line)["program"] for line in process.read_text().splitlines() if line} == {"program.py"}
    told = list(read_journal(tmp_path / "out" / "journal.jsonl"))
    assert [entry.get("attempt", entry.get("ended")) for entry in told] == [1, 2, 3, 4, 5, 6, 7, "max_retries"]


@pytest.mark.wire
def test_what_was_lost_is_said_in_any_case(run: Any, script: Any, throttling: Any) -> None:
    result = run("--", sys.executable, script(ASK), throttling.url)
    assert result.returncode == 0
    assert "1 lost" in result.stderr


@pytest.mark.wire
def test_the_programs_own_failure_goes_before_a_loss(run: Any, script: Any, throttling: Any) -> None:
    result = run("--fail-on-loss", "--", sys.executable, script(f"{ASK}\nsys.exit(5)"), throttling.url)
    assert result.returncode == 5


@pytest.mark.wire
def test_without_a_loss_it_succeeds(run: Any, script: Any, answering: Any) -> None:
    result = run("--fail-on-loss", "--", sys.executable, script(ASK), answering(1).url)
    assert result.returncode == 0
    assert "2 attempts, 1 throttled" in result.stderr
    assert "0 lost" in result.stderr


@pytest.mark.wire
@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_loss_is_known_however_the_process_ends(run: Any, script: Any, throttling: Any, tmp_path: Path, end: str) -> None:
    run("--report", str(tmp_path / "out"), "--", sys.executable, script(f"{ASK}\nimport os\n{end}"), throttling.url)
    assert json.loads((tmp_path / "out" / "report.json").read_text())["total"]["lost"] == 1
    assert len(list(read_journal(tmp_path / "out" / "journal.jsonl"))) == 8


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_signals_are_as_a_program_expects_them_also_where_it_is_off(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDRETRY_DISABLED", "1")
    result = run("--", "bash", "-c", "yes | head -n 1; echo ${PIPESTATUS[@]}")
    assert result.stdout == "y\n141 0\n"


@pytest.mark.wire
def test_a_program_that_fails_has_found_nothing_for_sure(run: Any, script: Any, answering: Any, tmp_path: Path) -> None:
    run("--report", str(tmp_path / "out"), "--", sys.executable, script(f"{ASK}\nsys.exit(1)"), answering(0).url)
    believed = json.loads((tmp_path / "out" / "completeness.json").read_text())
    assert believed == {"key:581039954779": {"eu-west-1": {"sts:GetCallerIdentity": "partial"}}}


@pytest.mark.wire
def test_a_program_that_removes_the_report_is_told_of(run: Any, script: Any, answering: Any, tmp_path: Path) -> None:
    wipes = f"{ASK}\nimport shutil\nshutil.rmtree({str(tmp_path / 'out')!r})"
    result = run("--report", str(tmp_path / "out"), "--fail-on-loss", "--", sys.executable, script(wipes), answering(0).url)
    assert result.returncode == 3
    assert "can't be read to its end, so counts are missing here" in result.stderr


@pytest.mark.wire
def test_what_could_not_be_counted_is_no_success(run: Any, script: Any, throttling: Any) -> None:
    full = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\nimport signal\n{ASK}"
    full = full.replace("import signal", "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)")
    result = run("--fail-on-loss", "--", sys.executable, script(full), throttling.url)
    assert result.returncode == 3


@pytest.mark.wire
def test_a_forked_child_counts_its_own_calls_alone(run: Any, script: Any, answering: Any, tmp_path: Path) -> None:
    forking = f"{ASK}\nimport os\nchild = os.fork()\nexec(ask)\nif not child: os._exit(0)\nos.waitpid(child, 0)"
    text = f"ask = {ASK!r}\n{forking}"
    server = answering(0)
    run("--report", str(tmp_path / "out"), "--", sys.executable, script(text), server.url)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["total"]["calls"], report["processes"]) == (len(server.requests), 2) == (3, 2)


def test_a_command_in_which_nothing_was_hooked_is_told(run: Any) -> None:
    result = run("--", "sh", "-c", "exit 4")
    assert result.returncode == 4
    assert result.stderr == "cloudretry: nothing was hooked: the command started no Python that reads PYTHONPATH\n"


def test_a_report_that_can_not_be_is_an_error_before_anything_starts(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("--report", str(tmp_path / "file"), "--", sys.executable, "-c", "print(1)")
    assert (result.returncode, result.stdout) == (1, "")
    assert "can't be the folder of a report" in result.stderr


CALLS_ON = """
import sys, time
import boto3
client = boto3.client("sts", endpoint_url=sys.argv[1])
until = time.monotonic() + 60
attempts = number = 0
while attempts != 3 and time.monotonic() < until:
    number += 1
    try:
        client.get_access_key_info(AccessKeyId=f"AKIA{number:016}")  # another call each time
    except Exception as error:
        attempts = error.response["ResponseMetadata"]["RetryAttempts"] + 1
        print(attempts, flush=True)
    time.sleep(0.05)
"""


@pytest.mark.long
@pytest.mark.wire
def test_a_changed_configuration_reaches_the_running_program(
    start: Any, script: Any, throttling: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLOUDRETRY__AWS__MAX_RETRIES")
    configuration = tmp_path / "c.toml"
    configuration.write_text("[aws]\nmax_retries = 1\n")
    process = start("--config", str(configuration), "--", sys.executable, script(CALLS_ON), throttling.url)
    assert process.stdout.readline() == "2\n"
    configuration.write_text("[aws]\nmax_retries = 2\n")
    output, _ = process.communicate(timeout=120)
    assert output.splitlines()[-1] == "3"
