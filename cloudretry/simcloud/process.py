"""The parent's side of a server process: starts it, waits until it answers, asks its own pages, ends it."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from cloudretry.errors import CloudRetryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["SimulationFailed", "ask", "server_process"]

_STARTING_S = 60.0


class SimulationFailed(CloudRetryError):  # noqa: N818 - named for what happened; its base carries the suffix
    """A simulated cloud did not start; the message holds what its process wrote."""


@contextmanager
def server_process(
    module: str, settings: str, *, cloud: str, environment: Mapping[str, str]
) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """Run `python -m module`, whose settings are one line, for as long as the context lasts; yields what it said when ready.

    Raises:
        SimulationFailed: it ended before it was ready.
    """
    with tempfile.TemporaryFile("w+") as errors:
        process = _spawn(module, environment, errors)
        try:
            yield _await_ready(process, settings, cloud, errors), process
        finally:
            process.kill()  # it has nothing to save
            process.communicate()


def ask(url: str, method: str, page: str, body: str | None = None) -> Any:
    """What one of the server's own pages says; `url` is of http."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=_STARTING_S)
    try:
        connection.request(method, f"/_cloudretry/{page}", body)
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return answer


def _spawn(module: str, environment: Mapping[str, str], errors: IO[str]) -> subprocess.Popen[str]:
    home = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), home)))
    return subprocess.Popen(  # noqa: S603 - this very interpreter and a module of ours
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**environment, "PYTHONPATH": path, "CLOUDRETRY_DISABLED": "1"},
        start_new_session=True,  # an interrupt is the parent's to handle
    )


def _await_ready(process: subprocess.Popen[str], settings: str, cloud: str, errors: IO[str]) -> dict[str, Any]:
    pipe_in, pipe_out = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)
    with suppress(BrokenPipeError):  # it died early; the missing ready line will say so
        pipe_in.write(settings + "\n")
        pipe_in.flush()
    line = pipe_out.readline()
    if not line:
        errors.seek(0)
        raise SimulationFailed(f"the simulated {cloud} did not start:\n{errors.read()[-2000:].rstrip()}")
    ready: dict[str, Any] = json.loads(line)
    return ready
