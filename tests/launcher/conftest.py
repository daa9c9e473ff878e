"""Programs under `cloudretry run`: real processes, whose requests a server on loopback counts. Waits are milliseconds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cloudretry

HOME = str(Path(cloudretry.__file__).parents[1])
COMMAND = f"import sys; sys.path.insert(0, {HOME!r}); from cloudretry.cli.main import main; main()"
SHORT = {"MAX_RETRIES": "6", "BASE_DELAY": "1ms", "MAX_DELAY": "1ms", "ADDITIONAL_DELAY_WINDOW": "1ms", "PACING__MODE": "off"}
THROTTLE = (
    b"<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error>"
    b"<RequestId>00000000-0000-0000-0000-000000000001</RequestId></ErrorResponse>"
)
IDENTITY = (
    b"<GetCallerIdentityResponse><GetCallerIdentityResult><Account>111122223333</Account></GetCallerIdentityResult>"
    b"</GetCallerIdentityResponse>"
)

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in ("AWS", "AZURE"):
        for name, value in SHORT.items():
            monkeypatch.setenv(f"CLOUDRETRY__{provider}__{name}", value)


@pytest.fixture
def command() -> list[str]:
    """How the command is started."""
    return [sys.executable, "-c", COMMAND, "run"]


@pytest.fixture
def start(command: list[str]) -> Iterator[Start]:
    """`start(*arguments)` starts `cloudretry run` with them; `first` is what that Python does before."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, first: str = "", **options: Any) -> subprocess.Popen[str]:
        python, option, code, *others = command
        pipe = subprocess.PIPE
        given = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True, **options}
        started.append(subprocess.Popen([python, option, f"{first}\n{code}", *others, *arguments], **given))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def run(command: list[str]) -> Run:
    """`run(*arguments)` is how `cloudretry run` with them ended."""

    def to_end(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, check=False, **options)

    return to_end


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """`script(text)` is the path of a program."""

    def write(text: str, name: str = "program.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def throttle(Answer: Any) -> Any:
    """How STS and IAM say that it is too much."""
    return Answer(400, THROTTLE)


@pytest.fixture
def identity(Answer: Any) -> Any:
    """What STS says to GetCallerIdentity."""
    return Answer(200, IDENTITY)


@pytest.fixture
def throttling(serve: Any, throttle: Any) -> Any:
    """An STS that throttles for ever."""
    return serve(throttle)


@pytest.fixture
def answering(serve: Any, Answer: Any) -> Callable[[int], Any]:
    """`answering(3)` is an STS that throttles three times."""
    return lambda throttles: serve(*[Answer(400, THROTTLE)] * throttles, Answer(200, IDENTITY))
