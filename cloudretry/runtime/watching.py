"""Takes up a changed configuration while the program runs. No thread: whoever makes a call looks, and the first one pays.

What reads the configuration is passed in, because this room knows no format: `cloudretry.config.load_configuration` where
pydantic is installed, `read_compiled` where it is not.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from cloudretry.core.settings import Settings
from cloudretry.errors import CloudRetryError, ConfigurationError
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from typing import TypeAlias

__all__ = ["Compiled", "Loaded", "Watch", "read_compiled"]

logger = logging.getLogger("cloudretry")

_EVERY: Final = 1.0
_SETTLING: Final = 0.1
_LARGEST_FILE: Final = 64 * 1_048_576  # settings that we have compiled ourselves; a pool of 20 000 members has 5 MB

_Stamp: TypeAlias = "tuple[int, ...] | None"


class Loaded(Protocol):
    """Settings with the files that they were read from; a Configuration is one."""

    @property
    def settings(self) -> Settings:
        """What holds."""

    @property
    def files(self) -> Sequence[str]:
        """What to watch."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Settings from compiled JSON."""

    settings: Settings
    files: tuple[str, ...]


def read_compiled(path: str) -> Compiled:
    """Load what `cloudretry config compile` wrote. Raises ConfigurationError."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    if len(raw) > _LARGEST_FILE:
        raise ConfigurationError(f"{path}: larger than {_LARGEST_FILE} bytes")
    try:
        return Compiled(Settings.from_json(raw.decode("utf-8")), (path,))
    except (UnicodeDecodeError, ConfigurationError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


class Watch:
    """The configuration that holds now. Thread-safe; in a forked child it goes on by itself.

    A changed file is read when it looks the same twice, a tenth of a second apart, so that half a file is not taken for a whole
    one; symbolic links are followed. A file that is gone or is refused changes nothing: that is logged once, and the last
    good configuration stays.

    Args:
        load: reads it all again; may raise anything.
        every: seconds between two looks while nothing changes.
    """

    def __init__(self, current: Loaded, load: Callable[[], Loaded], *, every: float = _EVERY) -> None:
        self._current = current
        self._load = load
        self._every = every
        self._listeners: list[Callable[[Settings], object]] = []
        self._seen = {path: _stamp(path) for path in current.files}
        self._unsettled: dict[str, _Stamp] | None = None
        self._next = current_clock().monotonic() + every
        self._looking = threading.Lock()
        self._process = os.getpid()

    @property
    def settings(self) -> Settings:
        """The last good ones. Never blocks."""
        return self._current.settings

    def subscribe(self, listener: Callable[[Settings], object]) -> None:
        """Tell `listener` of new settings, in the thread of the call that found them. One that raises is logged."""
        self._listeners.append(listener)

    def look(self) -> None:
        """See whether something has changed, at most once a second; costs next to nothing otherwise. Never raises."""
        now = current_clock().monotonic()
        if now < self._next or not self._seen:
            return
        if self._process != os.getpid():  # the parent's lock may have been held when it forked
            self._process, self._looking = os.getpid(), threading.Lock()
        if self._looking.acquire(blocking=False):
            try:
                if now >= self._next:  # nobody was faster
                    self._next = now + self._every
                    self._compare()
            finally:
                self._looking.release()

    def _compare(self) -> None:
        found = {path: _stamp(path) for path in self._seen}
        if found == self._seen:
            self._unsettled = None
            return
        missing = [path for path, stamp in found.items() if stamp is None]
        if missing:
            self._refuse(found, f"{', '.join(missing)}: gone")
        elif found == self._unsettled:
            self._take(found)
        else:
            self._unsettled = found
            self._next = current_clock().monotonic() + _SETTLING

    def _take(self, found: dict[str, _Stamp]) -> None:
        try:
            loaded = self._load()
        except CloudRetryError as error:
            self._refuse(found, str(error))
            return
        except Exception as error:  # noqa: BLE001 - whatever a loader does, the call goes on with what it has
            self._refuse(found, repr(error))
            return
        if {path: _stamp(path) for path in found} != found:  # changed while it was read
            self._unsettled = None
            return
        is_new = loaded.settings != self._current.settings
        self._current, self._unsettled = loaded, None
        self._seen = {path: found.get(path) or _stamp(path) for path in loaded.files}
        if is_new:
            self._tell(loaded.settings)

    def _refuse(self, found: dict[str, _Stamp], why: str) -> None:
        """Say it once: the same files are not looked at again until they change."""
        self._seen, self._unsettled = found, None
        logger.warning("the changed configuration is not taken, the last good one stays: %s", why)

    def _tell(self, settings: Settings) -> None:
        logger.info("the configuration has changed: %s", ", ".join(self._seen))
        for listener in self._listeners:
            try:
                listener(settings)
            except Exception:  # noqa: PERF203 - each listener is guarded from the others
                logger.exception("new settings were not taken by %r", listener)


def _stamp(path: str) -> _Stamp:
    """(device, inode, size, times) of what the path leads to now; None where nothing is."""
    try:
        status = os.stat(path)  # noqa: PTH116 - paths stay text
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
