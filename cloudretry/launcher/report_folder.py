"""The folder of `--report`: what a run leaves there is its owner's alone, and takes the place of what the last one left."""

from __future__ import annotations

import json
import os
import re
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cloudretry.launcher.summary import Summary

__all__ = ["ReportFolder"]

_REPORT: Final = "report.json"
_COMPLETENESS: Final = "completeness.json"
_JOURNAL: Final = "journal.jsonl"
_PREFIX: Final = "processes-"
_FOLDER: Final = re.compile(rf"{_PREFIX}\w+")
_COUNTS: Final = re.compile(r"\d+-[0-9a-f]{8}(\.json)?")


class ReportFolder:
    """Made where it is not there. Raises OSError where it can't be.

    Attributes:
        processes: the absolute path of a new folder, for what the processes of this run count.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.mkdir(parents=True, exist_ok=True)
        self.processes = str(Path(tempfile.mkdtemp(prefix=_PREFIX, dir=path)).absolute())

    def take_journal(self, journal: str) -> None:
        """Move what the processes have written; where that fails, it stays with what they have counted."""
        with suppress(OSError):
            Path(journal).replace(self._path / _JOURNAL)

    def write(self, summary: Summary, *, finished: bool) -> list[str]:
        """Replace the files of the last run, and remove what its processes had counted. What could not be, and why."""
        last = self._last()
        believed = summary.completeness(finished=finished)
        texts = {_REPORT: summary.as_json(folder=Path(self.processes).name), _COMPLETENESS: believed}
        failed = [f"{name}: not written: {why}" for name, text in texts.items() if (why := self._replace(name, text))]
        if last is not None and not failed:
            _remove(last)
        return failed

    def _replace(self, name: str, text: str) -> str | None:
        temporary = self._path / f".{name}.{secrets.token_hex(8)}"
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                file.write(f"{text}\n")
            temporary.replace(self._path / name)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            return error.strerror
        return None

    def _last(self) -> Path | None:
        """Where the processes of the run counted whose report is there."""
        try:
            name: Any = json.loads((self._path / _REPORT).read_bytes())["folder"]
            found = self._path / name if _FOLDER.fullmatch(name) else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return found if found and found.name != Path(self.processes).name and not found.is_symlink() else None


def _remove(folder: Path) -> None:
    """With nothing in it that is not ours."""
    with suppress(OSError):
        for file in folder.iterdir():
            if _COUNTS.fullmatch(file.name):
                file.unlink()
        folder.rmdir()
