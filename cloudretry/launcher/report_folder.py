"""The folder of `--report`: what a run leaves there is its owner's alone.

What the last run left is gone when the next one begins: whoever reads of completeness there while a run goes on, or after it
was killed, must not read of another one's.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloudretry.launcher.files import open_regular
from cloudretry.launcher.run_folder import JOURNAL

if TYPE_CHECKING:
    from cloudretry.launcher.summary import Summary

__all__ = ["ReportFolder"]

_REPORT: Final = "report.json"
_COMPLETENESS: Final = "completeness.json"
_PREFIX: Final = "processes-"
_FOLDER: Final = re.compile(rb"\s*\{[^{}\[\]]*\"folder\": \"(%b\w+)\"" % _PREFIX.encode())  # before all that is nested
_HEAD: Final = 4096  # bytes
_COUNTS: Final = re.compile(r"\d+-[0-9a-f]{8}(\.jsonl?)?")


class ReportFolder:
    """Made where it is not there, and emptied of what the last run left. Raises OSError where it can't be.

    Attributes:
        path: the folder's own, absolute.
        processes: the absolute path of a new folder in it, for what the processes of this run count.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        self._path.mkdir(parents=True, exist_ok=True)
        last = self._last()
        for name in (_COMPLETENESS, _REPORT, JOURNAL):
            (self._path / name).unlink(missing_ok=True)
        if last is not None:
            _remove(last)
        self._started = datetime.now(timezone.utc)
        self.path = str(self._path)
        self.processes = tempfile.mkdtemp(prefix=_PREFIX, dir=self.path)

    def write(self, summary: Summary, *, finished: bool) -> list[str]:
        """Write what it came to. What could not be written, and why."""
        about = {
            "started": self._started.isoformat(timespec="seconds"),
            "ended": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "folder": Path(self.processes).name,
        }
        texts = {_REPORT: summary.as_json(about), _COMPLETENESS: summary.completeness(finished=finished)}
        return [f"{name}: not written: {why}" for name, text in texts.items() if (why := self._replace(name, text))]

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
            with open_regular(str(self._path / _REPORT)) as file:
                named = _FOLDER.match(file.read(_HEAD))
        except OSError:
            return None
        found = self._path / named[1].decode() if named else None
        return found if found and not found.is_symlink() else None


def _remove(folder: Path) -> None:
    """With nothing in it that is not ours."""
    with suppress(OSError):
        for file in folder.iterdir():
            if _COUNTS.fullmatch(file.name):
                file.unlink()
        folder.rmdir()
