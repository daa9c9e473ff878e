"""The outer loops of this process: the programs around us make clients anew for each round, so no client could know of them."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from hashlib import blake2b
from threading import RLock, current_thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from cloudretry.core.decision import EXHAUSTED
from cloudretry.core.events import is_lost
from cloudretry.core.machine import ANSWERED
from cloudretry.core.outer_loops import OuterLoops
from cloudretry.core.settings import single_attempt
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from cloudretry.core.call import Call
    from cloudretry.core.machine import RetryMachine

    _Parameters: TypeAlias = Callable[[], bytes | None]

__all__ = ["OUTER_LOOPS", "fingerprint"]

logger = logging.getLogger("cloudretry")

_PLAIN: Final = (str, bytes, bytearray, dict, type(None))
_NAMES: Final[WeakKeyDictionary[Any, object]] = WeakKeyDictionary()
"""Threads and tasks in which a call was lost, each with a name that is not used again when it has ended."""


class _Loops:
    """Thread-safe. A loop runs in one thread or task: what others do at the same time is none of its rounds."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know of none."""
        self._lock = RLock()  # a signal handler may make a call while its thread is in here
        self._known = OuterLoops()
        self._reported: set[Call] = set()

    def begin(self, machine: RetryMachine, parameters: _Parameters) -> None:
        """A call begins. `parameters`: gives a hash of what it asks for; None where that can't be told."""
        machine.parameters = parameters
        if self._known:
            self._recognise(machine, parameters)

    def end(self, machine: RetryMachine) -> Hashable | None:
        """A call has ended. What tells which it was, where it is lost, or was answered after it had been lost just before."""
        parameters, machine.parameters = machine.parameters, None  # which refer to the request, and that to the machine
        stop = machine.ended or ANSWERED
        lost = is_lost(stop, machine.outcome)
        if not lost and not (machine.again and stop is ANSWERED):
            return None
        if lost:
            _NAMES.setdefault(_here(), object())
        key = _key(machine, parameters)
        if key is None:
            return None
        with self._lock:
            if lost:
                tried = stop.reason in EXHAUSTED and bool(machine.rounds or machine.settings.max_retries)
                self._known.gave_up(key, current_clock().monotonic(), tried=tried)
            else:
                self._known.answered(key)
        return key

    def _recognise(self, machine: RetryMachine, parameters: _Parameters) -> None:
        key = _key(machine, parameters)
        if key is None:
            return
        with self._lock:
            machine.rounds = self._known.rounds(key, current_clock().monotonic())
            machine.again = key in self._known
            is_news = machine.rounds > 0 and machine.call not in self._reported
            if is_news:
                self._reported.add(machine.call)
        if machine.rounds:
            machine.settings = single_attempt(machine.settings)
        if is_news:
            logger.warning("%s was given up and comes again: a retry loop around it gets one attempt a round", machine.call)


def _key(machine: RetryMachine, parameters: _Parameters | None) -> Hashable:
    who = _NAMES.get(_here())
    digest = None if parameters is None or who is None else parameters()
    return None if digest is None else (machine.call, digest, who)


def _here() -> Any:
    """The task that runs now, or else the thread."""
    if "asyncio" in sys.modules:
        with suppress(RuntimeError):  # there is no loop
            return sys.modules["asyncio"].current_task() or current_thread()
    return current_thread()


def fingerprint(*parts: Any) -> bytes | None:
    """A hash of a request's parts; None where one of them, such as a stream, has no value yet."""
    if not all(isinstance(part, _PLAIN) for part in parts):
        return None
    ordered = [sorted(part.items()) if isinstance(part, dict) else part for part in parts]
    return blake2b(repr(ordered).encode("utf-8", "surrogatepass"), digest_size=16).digest()


OUTER_LOOPS: Final = _Loops()
"""This process's."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OUTER_LOOPS.forget)
