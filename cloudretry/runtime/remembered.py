"""Limits that were measured, kept for later processes of the same user: one small file in the state folder.

What stands there is where learning starts, and it is verified as a published limit is: a throttle ends it. So a file that is
wrong costs a few calls, or seconds, and one that can't be used costs nothing. It is read when the first quota is opened, and
written at most once a minute and at the end; what other processes have written meanwhile stays.

Only limits of the clouds' own hosts are kept, so that no simulator, mock or emulator leaves a trace in it; and none at all in
a process that has imported `cloudretry.testing`, as pytest does by our plugin, nor in one that a test under pytest has started.
"""

from __future__ import annotations

import logging
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cloudretry.core.quota import Quota
from cloudretry.core.rate import Limit
from cloudretry.errors import CloudRetryError
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from cloudretry.runtime.state_folder import StateFolder

__all__ = ["RememberedLimits", "users_folder"]

logger = logging.getLogger("cloudretry")

_FORMAT: Final = 1
_FILE: Final = "limits.json"
_LOCK: Final = "limits.lock"
_EVERY: Final = 60.0  # s
_SHARE: Final = 50.0  # writing takes at most a fiftieth of the time, however slow the disk is
_OLDEST: Final = 14 * 86_400.0  # s; limits are adjusted, and what was measured beside a busy neighbour is not the limit
_AHEAD: Final = 300.0  # s by which the clock of another machine may differ
_MOST: Final = 2000  # limits in the file, the latest ones
_LARGEST: Final = 2 * 1_048_576  # bytes of the file: as many limits with the longest keys
_LONGEST_KEY: Final = 512  # characters
_PARTS: Final = 6  # of a key
_RATES: Final = (1.0, 100_000.0)  # calls/s; to start too low costs minutes, to learn a lower limit anew costs a few calls
_BURSTS: Final = (1.0, 1_000_000.0)
_TRIES: Final = (50, 0.01)  # how often the last write tries to be alone, s between

_CLOUDS: Final = re.compile(
    r"(?:.+\.)?(?:amazonaws\.com|amazonaws\.com\.cn|amazonaws\.eu|api\.aws|c2s\.ic\.gov|sc2s\.sgov\.gov|cloud\.adc-e\.uk"
    r"|azure\.com|azure\.cn|azure\.us|windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)(?::443)?"
)


class _Entry(NamedTuple):
    limit: Limit
    measured: float  # epoch seconds


_Entries = dict[Quota, _Entry]


def users_folder() -> StateFolder | None:
    """Where the limits of this user are kept; None for a process that keeps none."""
    if "cloudretry.testing" in sys.modules or "PYTEST_CURRENT_TEST" in os.environ:
        return None
    from cloudretry.runtime.state_folder import StateFolder, state_path

    try:
        path = state_path()
    except OSError:  # a relative one, in a working directory that was removed
        return None
    return None if path is None else StateFolder(path, "pacing", largest=_LARGEST)


class RememberedLimits:
    """The file, as this process knows it. Thread-safe; never raises.

    Args:
        find: the folder, asked anew before each access.

    Attributes:
        due: when to call `keep` next (monotonic seconds); infinite while nothing was recalled, and where nothing can be kept.
    """

    def __init__(self, find: Callable[[], StateFolder | None] = users_folder) -> None:
        self.due = math.inf
        self._find = find
        self._known: _Entries | None = None  # as the file was when it was looked at last
        self._own: _Entries = {}
        self._changed = False
        self._writing = Lock()

    def recall(self, quota: Quota) -> Limit | None:
        """What was measured of a quota before, not too long ago."""
        known = self._known
        if known is None:
            folder = self._find()
            known = self._known = {} if folder is None else _read(folder, current_clock().wall())
            if folder is not None:
                self.due = current_clock().monotonic() + _EVERY
        entry = known.get(quota)
        return None if entry is None or current_clock().wall() - entry.measured > _OLDEST else entry.limit

    def note(self, quota: Quota, limit: Limit) -> None:
        """A limit was measured. What is the same as before keeps its age."""
        before = self._own.get(quota)
        if (before is None or before.limit != limit) and _is_kept(quota, limit):
            self._own[quota] = _Entry(limit, current_clock().wall())
            self._changed = True

    def keep(self, measured: Callable[[], Iterable[tuple[Quota, Limit]]], *, last: bool = False) -> None:
        """Note what was measured, and write it if anything is new. `last`: the process ends, so that there is no other time."""
        if self.due == math.inf or not self._writing.acquire(blocking=False):
            return
        try:
            began = current_clock().monotonic()
            self.due = began + _EVERY
            for quota, limit in measured():
                self.note(quota, limit)
            if self._changed:
                self._write(last=last)
            ended = current_clock().monotonic()
            self.due = max(self.due, ended + (ended - began) * _SHARE)
        except (OSError, ValueError, CloudRetryError) as error:
            self.due = math.inf
            logger.info("learned limits are not kept for later runs: %s", error)
        finally:
            self._writing.release()

    def after_fork(self) -> None:
        """In a child process: nobody is left who could release the lock."""
        self._writing = Lock()

    def _write(self, *, last: bool) -> None:
        folder = self._find()
        if folder is None:
            self.due = math.inf
            return
        for _ in range(_TRIES[0] if last else 1):
            with folder.alone(_LOCK) as alone:
                if alone:
                    self._merge(folder)
                    return
            if last:
                time.sleep(_TRIES[1])
        if last:
            self._merge(folder)  # somebody hangs; what he wrote meanwhile may be lost, and is learned again

    def _merge(self, folder: StateFolder) -> None:
        now = current_clock().wall()
        merged = _read(folder, now)
        for quota, entry in self._own.copy().items():
            if quota not in merged or merged[quota].measured < entry.measured:
                merged[quota] = entry
        latest = sorted(merged.items(), key=lambda item: item[1].measured, reverse=True)[:_MOST]
        limits = [[_key(quota), entry.limit.rate, entry.limit.burst, entry.measured] for quota, entry in latest]
        self._changed = False
        folder.write(_FILE, {"format": _FORMAT, "limits": limits})
        self._known = dict(latest)


def _read(folder: StateFolder, now: float) -> _Entries:
    raw = folder.read(_FILE)
    if not isinstance(raw, dict) or raw.get("format") != _FORMAT or not isinstance(raw.get("limits"), list):
        return {}
    return dict(filter(None, (_parsed(item, now) for item in raw["limits"][:_MOST])))


def _parsed(item: Any, now: float) -> tuple[Quota, _Entry] | None:
    """One limit of the file; None for what we would not have written, or not lately."""
    if not isinstance(item, list) or len(item) != 4:  # noqa: PLR2004 - as `_merge` writes them
        return None
    key, *numbers = item
    if not (isinstance(key, list) and len(key) == _PARTS and all(isinstance(part, str) for part in key)):
        return None
    if not all(type(number) in {int, float} for number in numbers):
        return None
    rate, burst, measured = numbers
    quota, limit = Quota(*key), Limit(rate, burst)
    if not _is_kept(quota, limit) or not now - _OLDEST <= measured <= now + _AHEAD:
        return None
    return quota, _Entry(Limit(float(rate), float(burst)), float(measured))


def _is_kept(quota: Quota, limit: Limit) -> bool:
    """Whether a limit is worth keeping: a cloud's own, of somebody who is known, and within reason. NaN is within none."""
    key = "".join(_key(quota))
    return (
        bool(quota.owner)
        and _CLOUDS.fullmatch(quota.host) is not None
        and len(key) <= _LONGEST_KEY
        and key.isascii()
        and key.isprintable()
        and _RATES[0] <= limit.rate <= _RATES[1]
        and _BURSTS[0] <= limit.burst <= _BURSTS[1]
    )


def _key(quota: Quota) -> list[str]:
    return [quota.provider, quota.owner, quota.host, quota.region, quota.service, quota.group]
