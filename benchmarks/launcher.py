"""What `cloudretry run` adds to a program's start: in the program itself, and by the parent.

    python benchmarks/launcher.py [ROUNDS]

Prints a Markdown table. Plain and hooked runs alternate. The figures are processor time (user and system, of the process and
its children), because the clock on the wall also tells what else the machine is doing; the last column is that clock. Of all
rounds the least counts: whatever disturbs a round makes it longer. Our modules are compiled, as an installer leaves them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from cloudretry.config.compiled import write_compiled
from cloudretry.config.loading import load_configuration
from cloudretry.launcher.run_folder import RunFolder, child_environment

ROUNDS = 15
BOTO3 = "import boto3; boto3.client('sts', region_name='eu-west-1', aws_access_key_id='a', aws_secret_access_key='b')"
AZURE = (
    "from azure.identity import DefaultAzureCredential\n"
    "from azure.mgmt.resource.resources import ResourceManagementClient\n"
    "ResourceManagementClient(DefaultAzureCredential(), 'subscription')"
)
PROGRAMS = {"`python -c pass`": "pass", "a boto3 client": BOTO3, "an Azure client": AZURE}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print(
        "| program | plain, ms | in a run | added in the program | with the parent | wall: plain, in a run, with the parent |"
    )
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(path)
        os.mkdir(folder.processes)  # noqa: PTH102 - paths stay text
        write_compiled(load_configuration().settings, folder.settings)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        hooked = child_environment(folder, os.environ)
        for name, text in PROGRAMS.items():
            print(row(name, [sys.executable, "-c", text], hooked, rounds))


def row(name: str, command: list[str], hooked: dict[str, str], rounds: int) -> str:
    whole = [sys.executable, "-m", "cloudretry", "run", "--", *command]
    kinds: list[tuple[Sequence[str], dict[str, str]]] = [
        (command, dict(os.environ)),
        (command, hooked),
        (whole, dict(os.environ)),
    ]
    times: list[list[tuple[float, float]]] = [[], [], []]
    for _ in range(rounds + 1):
        for kind, (arguments, environment) in enumerate(kinds):
            times[kind].append(timed(arguments, environment))
    plain, inside, parent = ([min(column) for column in zip(*taken[1:], strict=True)] for taken in times)
    wall = ", ".join(f"{each[1]:.0f}" for each in (plain, inside, parent))
    added, whole_added = inside[0] - plain[0], parent[0] - plain[0]
    return f"| {name} | {plain[0]:.0f} | {inside[0]:.0f} | {added:+.0f} | {whole_added:+.0f} | {wall} |"


def timed(arguments: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Milliseconds of processor and of wall."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(arguments, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1e3, (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    main()
