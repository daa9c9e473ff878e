"""What the pools of running programs look like: one file for each process in the state folder, for `cloudretry pool status`.

Times are what is left and what the wall clock said, never monotonic stamps.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cloudretry.core.pool_snapshot import PoolSnapshot
from cloudretry.errors import CloudRetryError
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.state_folder import StateFolder, state_path

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PoolStates", "ProcessPools", "running_pools"]

logger = logging.getLogger("cloudretry")

_FORMAT: Final = 1
_FOLDER: Final = "pools"
_EVERY: Final = 1.0
_REFRESH: Final = 30.0  # counters go on without a transition
_SHARE: Final = 50.0  # writing takes at most a fiftieth of the time, however large the pools are
_ELSEWHERE_FOR: Final = 86_400.0  # a process on another machine, which can't be asked, is held to be dead after a day


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPools:
    """The pools of one process. `taken` is epoch seconds."""

    process: int
    host: str
    command: str
    taken: float
    pools: tuple[PoolSnapshot, ...]


class PoolStates:
    """Keeps this process's file. Thread-safe; a forked child writes one of its own. Never raises.

    Args:
        snapshots: takes them.
        folder: None: nothing is kept.
    """

    def __init__(self, snapshots: Callable[[], Iterable[PoolSnapshot]], folder: StateFolder | None) -> None:
        self._snapshots = snapshots
        self._folder = folder
        self._changed = True
        self._next = 0.0
        self._refresh = 0.0
        self._writing = threading.Lock()
        self._process: int | None = None

    @classmethod
    def of_user(cls, snapshots: Callable[[], Iterable[PoolSnapshot]], environ: Mapping[str, str] = os.environ) -> PoolStates:
        """In the user's state folder."""
        path = state_path(environ)
        return cls(snapshots, None if path is None else StateFolder(path, _FOLDER))

    def changed(self, _event: object = None) -> None:
        """A member has changed its state; a listener of the pool's events."""
        self._changed = True
        self.look()

    def look(self) -> None:
        """Write if something has changed, at most once a second. To be called with every call; costs next to nothing."""
        now = current_clock().monotonic()
        if self._folder is None or now < self._next or not (self._changed or now >= self._refresh):
            return
        if self._process != os.getpid():  # the parent's lock may have been held when it forked
            self._begin(self._folder)
        if self._writing.acquire(blocking=False):
            try:
                if now >= self._next:  # nobody was faster
                    self._write(self._folder, now)
            finally:
                self._writing.release()

    def _begin(self, folder: StateFolder) -> None:
        self._process, self._writing, self._changed = os.getpid(), threading.Lock(), True
        for _ in _living(folder, current_clock().wall()):  # drops those of the dead
            pass

    def _write(self, folder: StateFolder, now: float) -> None:
        self._changed = False
        try:
            folder.write(_file_name(), self._document())
        except (OSError, ValueError, CloudRetryError) as error:
            self._folder = None
            logger.info("`cloudretry pool status` won't see this process: %s", error)
            return
        ended = current_clock().monotonic()
        self._next = now + max(_EVERY, (ended - now) * _SHARE)
        self._refresh = self._next + _REFRESH

    def _document(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "process": os.getpid(),
            "born": _born(os.getpid()),
            "host": socket.gethostname(),
            "command": _command(),
            "taken": current_clock().wall(),
            "pools": [snapshot.to_dict() for snapshot in self._snapshots()],
        }


def _command() -> str:
    """What the program is called, without its arguments, which may hold secrets."""
    path = Path(sys.argv[0] if sys.argv else "")
    return path.parent.name if path.name == "__main__.py" else path.name


def _file_name() -> str:
    """Homes are shared between machines."""
    return f"{os.getpid()}-{re.sub('[^A-Za-z0-9.-]', '_', socket.gethostname())[:64]}.json"


def running_pools(environ: Mapping[str, str] = os.environ) -> list[ProcessPools]:
    """Of every program of this user that is running; the files of those that are not are dropped."""
    path = state_path(environ)
    return [] if path is None else list(_living(StateFolder(path, _FOLDER), current_clock().wall()))


def _living(folder: StateFolder, wall: float) -> Iterator[ProcessPools]:
    for name in folder.names():
        raw = folder.read(name)
        if isinstance(raw, dict) and raw.get("format") not in {_FORMAT, None}:
            continue  # of another version of cloudretry
        known = _parsed(raw)
        if known is not None and _is_alive(known, raw.get("born"), wall):
            yield known
        else:
            folder.drop(name)


def _parsed(raw: Any) -> ProcessPools | None:
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        return ProcessPools(
            process=int(raw["process"]),
            host=str(raw["host"]),
            command=str(raw["command"]),
            taken=float(raw["taken"]),
            pools=tuple(PoolSnapshot.from_dict(item) for item in raw["pools"]),
        )
    return None


def _is_alive(known: ProcessPools, born: object, wall: float) -> bool:
    if known.host != socket.gethostname() or os.name != "posix":  # elsewhere os.kill(…, 0) is no question but a signal
        return wall - known.taken < _ELSEWHERE_FOR
    try:
        os.kill(known.process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return born == _born(known.process)


def _born(process: int) -> str | None:
    """When a process began, in the system's own unit, because its number may be somebody else's by now; None: unknown."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]
