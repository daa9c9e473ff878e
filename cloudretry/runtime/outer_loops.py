"""The outer loops of this process: the programs around us make clients anew for each round, so no client could know of them."""

from __future__ import annotations

import logging
import os
import re
import sys
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from threading import RLock, current_thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from cloudretry.core.decision import EXHAUSTED
from cloudretry.core.events import is_lost
from cloudretry.core.lost import FIRST, Page
from cloudretry.core.machine import ANSWERED
from cloudretry.core.outer_loops import OuterLoops
from cloudretry.core.settings import single_attempt
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from cloudretry.core.call import Call
    from cloudretry.core.machine import RetryMachine

    _Parameters: TypeAlias = Callable[[], bytes | None]

__all__ = ["OUTER_LOOPS", "asked_by", "fingerprint"]

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
        self._listings = OuterLoops()
        self._reported: set[Call] = set()

    def begin(self, machine: RetryMachine, parameters: _Parameters, listing: _Parameters | None = None) -> None:
        """A call begins.

        `parameters`: gives a hash of what it asks for; None where that can't be told. `listing`: the same for what it lists, if
        it does, whichever the page.
        """
        machine.parameters, machine.listing = parameters, listing
        if self._known:
            self._recognise(machine, parameters)
        if self._listings and machine.page is FIRST:
            self._recognise_listing(machine)

    def end(self, machine: RetryMachine) -> Hashable | None:
        """A call has ended. What tells which it was, where it is lost, or was answered after it had been lost just before.

        None for a change: the answer to one says nothing of another that looks the same, as two messages of one text do.
        """
        parameters, machine.parameters = machine.parameters, None  # which refer to the request, and that to the machine
        stop = machine.ended or ANSWERED
        lost = is_lost(stop, machine.outcome)
        listing, machine.listing = machine.listing, None
        _disown(machine)
        if lost:
            _NAMES.setdefault(_here(), object())
            self._note_page(machine, listing)
        elif not (machine.again and stop is ANSWERED):
            return None
        key = _key(machine, parameters)
        if key is None:
            return None
        with self._lock:
            if lost:
                tried = stop.reason in EXHAUSTED and bool(machine.rounds or machine.settings.max_retries)
                self._known.gave_up(key, current_clock().monotonic(), tried=tried)
            else:
                self._known.answered(key)
        return key if machine.call.replayable else None

    def _note_page(self, machine: RetryMachine, listing: _Parameters | None) -> None:
        """A page behind the first was lost. It is lost no more when the listing is begun anew, and read to its end."""
        page = machine.page
        if page is None or (page.number or 0) <= 1 or not machine.call.replayable:
            return
        key = page.listing or _key(machine, listing)
        if key is not None:
            machine.page = replace(page, listing=key)
            with self._lock:
                self._listings.gave_up(key, current_clock().monotonic())

    def _recognise_listing(self, machine: RetryMachine) -> None:
        """A listing begins of which a page was lost just before; its pages know."""
        key = _key(machine, machine.listing)
        with self._lock:
            if key is not None and self._listings.rounds(key, current_clock().monotonic()):
                machine.page = Page(1, listing=key)

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


def _disown(machine: RetryMachine) -> None:
    """A token that is data may have come from somebody else's listing of the same: that is none of ours."""
    page = machine.page
    if page is not None and isinstance(page.listing, tuple) and page.listing[-1] is not _NAMES.get(_here()):
        machine.page = replace(page, listing=None)


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


_OF_AN_ATTEMPT: Final = re.compile(
    r"authorization|baggage|connection|content-length|correlation-context|date|expect|host|request-id|sync-token|traceparent"
    r"|tracestate|transfer-encoding|user-agent|amz-sdk-.+|x-amzn-(authorization|trace-id)|x-b3-.+"
    r"|x-amz-(content-sha256|date|outpost-id|region-set|s3session-token|security-token|user-agent)"
    r"|x-ms-((return-)?client-request-id|authorization-auxiliary|content-sha256|correlation-request-id|date)"
)
"""Headers that tell an attempt or a signature from another, or are the SDK's own; the others say what the program asks for."""


def asked_by(headers: Iterable[tuple[str, Any]]) -> str:
    """What a request's headers ask for, such as a range or a condition; the same before and after it is signed."""
    named = ((name.lower(), value.decode("latin-1") if isinstance(value, bytes) else str(value)) for name, value in headers)
    return repr(sorted({(name, value) for name, value in named if not _OF_AN_ATTEMPT.fullmatch(name)}))  # botocore doubles some


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
