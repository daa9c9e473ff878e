"""The private folder of one run, in which the parent and the processes of the program meet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["JOURNAL", "RUN", "RunFolder", "child_environment", "running"]

JOURNAL: Final = "journal.jsonl"
RUN: Final = "CLOUDRETRY_RUN"
"""The variable that names the folder. Neither it nor the command line holds a secret; the folder is its owner's alone."""

_BOOTSTRAP: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")  # noqa: PTH100, PTH118, PTH120 - as text


class RunFolder:
    """Where what lies. Every process of the program writes a file of its own into `processes`.

    All of them write the journal, where the parent has made one, in the folder to which `report` leads.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.settings = os.path.join(path, "settings.json")  # noqa: PTH118 - paths stay text: pathlib is slow to import
        self.processes = os.path.join(path, "processes")  # noqa: PTH118 - as above
        self.report = os.path.join(path, "report")  # noqa: PTH118 - as above
        self._reached = os.path.join(path, "reached")  # noqa: PTH118 - as above
        self._passed_by = os.path.join(path, "passed-by")  # noqa: PTH118 - as above

    def exists(self) -> bool:
        """False when the run has ended."""
        return os.path.isdir(self.path)  # noqa: PTH112 - as above

    def reach(self) -> None:
        """Say that a Python process of the program is under cloudretry."""
        os.close(os.open(self._reached, os.O_WRONLY | os.O_CREAT, 0o600))

    def journal(self) -> str | None:
        """The path of the journal that the parent has made, which stays when the run's own folder is gone; None without one."""
        path = os.path.join(os.path.realpath(self.report), JOURNAL)  # noqa: PTH118 - as above
        return path if os.path.exists(path) else None  # noqa: PTH110 - as above

    def pass_by(self) -> None:
        """Say that calls of the program are made without cloudretry, and not counted."""
        os.close(os.open(self._passed_by, os.O_WRONLY | os.O_CREAT, 0o600))

    def is_passed_by(self) -> bool:
        """Whether any are."""
        return os.path.exists(self._passed_by)  # noqa: PTH110 - as above

    def is_reached(self) -> bool:
        """Whether any was."""
        return os.path.exists(self._reached)  # noqa: PTH110 - as above

    def documents(self) -> Iterator[str]:
        """The paths of what the processes have written.

        Raises OSError where the program has removed the folder.
        """
        for name in sorted(os.listdir(self.processes)):  # noqa: PTH208 - as above
            yield os.path.join(self.processes, name)  # noqa: PTH118 - as above


def child_environment(folder: RunFolder, environ: Mapping[str, str]) -> dict[str, str]:
    """The program's environment: the bootstrap folder stands first on PYTHONPATH, and what was there stays as it was."""
    inherited = environ.get("PYTHONPATH", "")
    others = [entry for entry in inherited.split(os.pathsep) if entry != _BOOTSTRAP] if inherited else []
    return {**environ, "PYTHONPATH": os.pathsep.join([_BOOTSTRAP, *others]), RUN: folder.path}


def running(environ: Mapping[str, str]) -> RunFolder | None:
    """The folder of the run that this process belongs to, while that goes on."""
    folder = RunFolder(environ.get(RUN, ""))
    return folder if folder.path and folder.exists() else None
