"""The folder where processes of one user keep what they know: JSON files that nobody else may read or write.

Everything in it is a hint that may be missing; what is not ours, not private, too large or no JSON is taken for missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloudretry.errors import CloudRetryError

__all__ = ["LARGEST", "StateFolder", "StateRefused", "state_path"]

LARGEST: Final = 16 * 1_048_576
"""Bytes of one file, where nothing less is said."""

_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_OTHERS_MAY_WRITE: Final = 0o022
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_LOCK: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class StateRefused(CloudRetryError):  # noqa: N818 - named for what happened; its base carries the suffix
    """The state folder can't be used; whoever runs the program mends its owner or mode, or sets CLOUDRETRY_STATE_DIR."""


def state_path(environ: Mapping[str, str] = os.environ) -> str | None:
    """`CLOUDRETRY_STATE_DIR`, else `cloudretry` in the user's XDG state folder; None for a process that has neither."""
    named = environ.get("CLOUDRETRY_STATE_DIR", "")
    if named:
        return os.path.abspath(os.path.expanduser(named))  # noqa: PTH100, PTH111 - paths stay text
    folder = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(folder):  # noqa: PTH117 - the XDG rule: a relative one is ignored
        home = environ.get("HOME", "")
        if not os.path.isabs(home):  # noqa: PTH117
            return None
        folder = os.path.join(home, ".local", "state")  # noqa: PTH118
    return os.path.join(folder, "cloudretry")  # noqa: PTH118


class StateFolder:
    """A folder inside the state folder, made when something is first written.

    Args:
        path: the state folder itself, made with 0700; one that exists has to be the user's own and not writable by others.
        name: of the folder in it, which holds nothing but what is written here.
        largest: bytes of one file; more is neither written nor read.
    """

    def __init__(self, path: str, name: str, *, largest: int = LARGEST) -> None:
        self._path = path
        self._largest = largest
        self.path = os.path.join(path, name)  # noqa: PTH118 - as above

    def write(self, name: str, value: object) -> None:
        """Replace a file in one step. Raises OSError, StateRefused, or ValueError for a value that is too large."""
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
        if len(text) > self._largest:
            raise ValueError(f"{name}: larger than {self._largest} bytes")
        self._make()
        path = os.path.join(self.path, name)  # noqa: PTH118
        temporary = f"{path}.{secrets.token_hex(8)}.tmp"
        try:
            with os.fdopen(os.open(temporary, _WRITE, _FILE_MODE), "w", encoding="ascii") as file:
                file.write(text)
            os.replace(temporary, path)  # noqa: PTH105
        except BaseException:
            self._unlink(temporary)
            raise

    def read(self, name: str) -> Any:
        """What a file says; None where it is missing, foreign, not private, too large or no JSON."""
        try:
            _check(os.lstat(self.path))
            with os.fdopen(os.open(os.path.join(self.path, name), _READ), "rb") as file:  # noqa: PTH118
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or not _is_private(status):
                    return None
                raw = file.read(self._largest + 1)
            return json.loads(raw) if len(raw) <= self._largest else None
        except (OSError, ValueError, RecursionError, StateRefused):
            return None

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[bool]:
        """Whether no other process is in here at the moment, for the same name; does not wait.

        It tells processes from each other, not threads; a forked child does not keep it. Where a file system has no locks it
        is True for all: they guard hints against being lost, and nothing else. Raises OSError or StateRefused where nothing
        can be written.
        """
        self._make()
        lock = os.open(os.path.join(self.path, name), _LOCK, _FILE_MODE)  # noqa: PTH118 - as above
        try:
            yield _locked(lock)
        finally:
            os.close(lock)  # gives the lock back

    def names(self) -> Iterator[str]:
        """Of all files that are whole."""
        with contextlib.suppress(OSError), os.scandir(self.path) as found:
            yield from sorted(entry.name for entry in found if entry.name.endswith(".json"))

    def drop(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._unlink(os.path.join(self.path, name))  # noqa: PTH118

    def _make(self) -> None:
        os.makedirs(self._path, mode=_FOLDER_MODE, exist_ok=True)  # noqa: PTH103
        _check(os.stat(self._path))  # noqa: PTH116 - the folder itself may be a link: its owner and mode count
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, _FOLDER_MODE)  # noqa: PTH102
        _check(os.lstat(self.path))

    @staticmethod
    def _unlink(path: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108


def _locked(file: int) -> bool:
    try:
        import fcntl  # not everywhere
    except ImportError:
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # one of flock would last as long as a child that was forked meanwhile
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


def _check(status: os.stat_result) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise StateRefused("the state folder is not a folder")
    if not _is_private(status):
        raise StateRefused("the state folder belongs to somebody else, or others may write in it")


def _is_private(status: os.stat_result) -> bool:
    own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return own and not status.st_mode & _OTHERS_MAY_WRITE
