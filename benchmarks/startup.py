"""How long starting takes: `import cloudretry` over a bare interpreter, and whole commands.

    python benchmarks/startup.py

Prints a Markdown table of medians; runs of all kinds alternate. All modules are compiled, as an installer leaves them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

ROUNDS = 15

KINDS = {
    "bare `python -c pass`": [sys.executable, "-c", "pass"],
    "`import cloudretry`": [sys.executable, "-c", "import cloudretry"],
    "`from cloudretry import AwsApiCommand`": [sys.executable, "-c", "from cloudretry import AwsApiCommand"],
    "`cloudretry --help`": [sys.executable, "-m", "cloudretry", "--help"],
    "`cloudretry config show`": [sys.executable, "-m", "cloudretry", "config", "show"],
    "`cloudretry config preview`": [sys.executable, "-m", "cloudretry", "config", "preview"],
}


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for command in KINDS.values():
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
    times: dict[str, list[float]] = {name: [] for name in KINDS}
    for _ in range(ROUNDS):
        for name, command in KINDS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
            times[name].append((time.perf_counter() - start) * 1e3)
    bare = statistics.median(times["bare `python -c pass`"])
    print("| start | ms | over bare Python |\n|---|---|---|")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"| {name} | {median:.0f} | {median - bare:+.0f} |")


if __name__ == "__main__":
    main()
