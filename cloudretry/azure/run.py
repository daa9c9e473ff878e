"""One request on its way through a retry policy: what the sync and the async policy do in the same way."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from cloudretry.azure.calls import call_of
from cloudretry.azure.carry import carried, put_on
from cloudretry.azure.classify import body_of, is_error, outcome_of_error, outcome_of_response
from cloudretry.azure.errors import TurnTimeout
from cloudretry.azure.pages import note_next, page_of
from cloudretry.azure.reach import note_missed, refuse_unreachable, shorten_connect_timeout
from cloudretry.azure.remaining import remaining_of
from cloudretry.azure.sender import put_before_transport
from cloudretry.core.decision import StopReason
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.outer_loops import OUTER_LOOPS, asked_by, fingerprint
from cloudretry.runtime.reach import REACH, host_of

if TYPE_CHECKING:
    from azure.core.pipeline import PipelineRequest, PipelineResponse

    from cloudretry import errors
    from cloudretry.azure.remaining import Remaining
    from cloudretry.core.machine import RetryMachine
    from cloudretry.core.outcome import Outcome
    from cloudretry.runtime.engine import Bounds, Engine

__all__ = ["Run", "begin", "end_call", "own_sleep", "read_streamed", "read_streamed_async"]

logger = logging.getLogger("cloudretry")

_CAPS: Final = "cloudretry"  # in the context: a redirected request passes a second time, and its options are gone by then
_UNREACHED: Final = dict.fromkeys(("total", "connect", "read", "status"), 1_000_000_000)
"""The counters of the superclass, so that they never end a call."""
_FOR_EVER: Final = 604_800  # azure-core's default `timeout`, a week


def begin(engine: Engine, request: PipelineRequest[Any], bounds: Bounds | None, account: str | None) -> RetryMachine:
    """Start a call. `account`: the one to name where the URL does not."""
    call = call_of(request.http_request.method, request.http_request.url, account)
    machine = engine.begin(call, bounds)
    machine.page = page_of(request.http_request, call)
    return machine


_PLAIN_SLEEPS: Final = frozenset(
    f"azure.core.pipeline.transport.{name}" for name in ("_base", "_base_async", "_requests_asyncio")
)


def own_sleep(transport: Any) -> Any:
    """A transport's way to wait, where it is no plain sleep: trio's, or a test's stub. None: the clock's will do."""
    sleep = getattr(transport, "sleep", None)
    return None if getattr(sleep, "__module__", None) in _PLAIN_SLEEPS else sleep


def _is_unread(http: Any, options: dict[str, Any]) -> bool:
    """An error that was asked for as a stream."""
    return bool(options.get("stream")) and is_error(http)


def read_streamed(http: Any, options: dict[str, Any]) -> None:
    """Read an error that was asked for as a stream: its body tells why, and its connection is free again."""
    if _is_unread(http, options):
        with suppress(Exception):  # cut short: then the status alone tells
            (http.read if hasattr(http, "read") else http.body)()


async def read_streamed_async(http: Any, options: dict[str, Any]) -> None:
    """The async twin."""
    if not _is_unread(http, options):
        return
    with suppress(Exception):  # as above
        if not hasattr(http, "read"):
            await http.load_body()
        elif not await http.read():
            http.read = _nothing  # with aiohttp, an empty body can't be read a second time, as the caller will


async def _nothing() -> bytes:
    return b""


class Run:
    """A call that we decide about. The superclass notes each failure in the SDK's own history and rewinds the body."""

    def __init__(self, policy: Any, engine: Engine, machine: RetryMachine, request: PipelineRequest[Any]) -> None:
        """Take the SDK's retry options out of the request's, where the transport would choke on them."""
        self.policy, self.engine, self.machine, self.request = policy, engine, machine, request
        context = request.context
        total = context.options.get("retry_total", None if policy.total_retries else 0)
        self.books = self.open_books()
        total, timeout = context.setdefault(_CAPS, (total, self.books.get("timeout")))
        self.books.update(_UNREACHED)
        self._timeout: Any = None if timeout == _FOR_EVER else timeout
        has_body = _has_body(request.http_request)
        self.read_once = has_body and _is_read_once(request.http_request.body)
        if has_body and not self.read_once:
            self.remember_positions()
        if isinstance(total, int):
            machine.settings = replace(machine.settings, max_retries=min(machine.settings.max_retries, max(0, total)))
        shorten_connect_timeout(context)
        put_before_transport(policy)
        if machine.place is not None and own_sleep(context.transport) is not None:  # not asyncio's loop, or a test's
            machine.place = None
            _report_unpaced(type(context.transport).__name__)
        if machine.place is not None and self._timeout is not None:
            machine.place.until = machine.started + self._timeout
        if not policy.bounds:
            OUTER_LOOPS.begin(machine, partial(_fingerprint, policy, request.http_request))
        self._host = ""

    def open_books(self) -> dict[str, Any]:
        """The superclass's counters and options for this call."""
        books: dict[str, Any] = self.policy.configure_retries(self.request.context.options)
        return books

    def remember_positions(self) -> None:
        """Where the body begins; `count` goes back there."""
        self.policy._configure_positions(self.request, self.books)  # noqa: SLF001 - the superclass's, undone in its increment()

    def prepared(self) -> PipelineRequest[Any]:
        """The request, ready for an attempt. Raises the SDK's own errors where no time is left, or nobody would answer."""
        context = self.request.context
        if self._timeout is not None:
            self.policy._configure_timeout(self.request, self._left(), is_response_error=True)  # noqa: SLF001 - as above
            self._cap_waiting(self.machine.waited + self._left())  # for a member of the pool, too
        context["retry_count"] = self.machine.retry_number - 1
        url = self.request.http_request.url
        self._host = host_of(url).lower()
        if self.machine.settings.pool is None:  # its members are other ways, whose states it keeps
            refuse_unreachable(self._host, url, context)
        return self.request

    def failure_by(self, error: Exception) -> Outcome:
        """What an attempt without a response came to."""
        if self.machine.settings.pool is None:
            note_missed(error, self._host, self.request.http_request.url, self.request.context)
        self._note(self.request, error)
        outcome = outcome_of_error(error)
        if carried(error) is not None:  # a call beneath, for a token, was retried already
            outcome = replace(outcome, stop=StopReason.NOT_RETRYABLE)
        if self.machine.journey is not None:
            outcome = self.machine.journey.seen(outcome)
        self.engine.landed(self.machine, outcome)
        return outcome

    def failure_in(self, response: PipelineResponse[Any, Any]) -> Outcome | None:
        """What an attempt with a response came to; None: the provider answered."""
        REACH.reached(self._host)
        outcome = self.judged(response)
        if self.machine.journey is not None:
            outcome = self.machine.journey.seen(outcome)
        self.engine.landed(self.machine, outcome, self._left_by(response))
        if outcome is None:
            self.machine.answered()
        else:
            self._note(response, None)
        return outcome

    def _left_by(self, response: PipelineResponse[Any, Any]) -> Remaining | None:
        if self.machine.place is None:
            return None
        return remaining_of(self.request.http_request.method, response.http_response.headers)

    def judged(self, response: PipelineResponse[Any, Any]) -> Outcome | None:
        """The outcome of a response."""
        return outcome_of_response(response.http_response, streamed=bool(response.context.options.get("stream")))

    def ended_by(self, response: PipelineResponse[Any, Any], failure: Outcome | None) -> PipelineResponse[Any, Any]:
        """Give the caller this; or raise what the SDK has for an answer that would pass as data and is none."""
        if failure is not None and isinstance(failure.exception, Exception):
            self.end(failure.exception)
            raise failure.exception
        self.end(response)
        return response

    def overdue(self, late: errors.TurnTimeout) -> Exception:
        """The SDK's error for a call whose turn would come too late."""
        error = TurnTimeout(str(late))
        self.end(error)
        return error

    def end(self, answer: PipelineResponse[Any, Any] | Exception) -> None:
        """The caller gets this, and with it, if it is no answer, what happened."""
        if not isinstance(answer, Exception):
            self.close_books(answer)
        end_call(self.engine, self.machine, answer)

    def close_books(self, response: PipelineResponse[Any, Any]) -> None:
        """Leave in the response what the SDK leaves there."""
        self.policy.update_context(response.context, self.books)

    def cancel(self) -> None:
        """Somebody ended the call in the middle of an attempt."""
        self.machine.interrupt()
        self.engine.end(self.machine)

    def count(self, pipeline: Any, error: Exception | None) -> bool:
        """Let the superclass count a failure. Whether it could prepare the request for being sent again."""
        sendable: bool = self.policy.increment(self.books, response=pipeline, error=error)
        return sendable and not (self.request.http_request.files and self.books.get("file_positions") is None)

    def _note(self, pipeline: Any, error: Exception | None) -> None:
        self.machine.rewindable = self.count(pipeline, error) and not self.read_once
        if self._timeout is not None:
            self._cap_waiting(self.machine.waited + self._left())

    def _cap_waiting(self, budget: float) -> None:
        """A wait that would end past the caller's `timeout` is not begun: the provider's answer is worth more than ours."""
        if budget < self.machine.settings.time_budget:
            self.machine.settings = replace(self.machine.settings, time_budget=budget)

    def _left(self) -> float:
        elapsed = current_clock().monotonic() - self.machine.started
        return float(self._timeout - elapsed)


def end_call(engine: Engine, machine: RetryMachine, answer: PipelineResponse[Any, Any] | Exception) -> None:
    """The caller gets this, and with it, if it is no answer, what happened."""
    given = answer if isinstance(answer, Exception) else answer.http_response
    told = isinstance(given, Exception) and carried(given) is not None  # by a call beneath, which knows better
    if machine.ended is not None and machine.ended.reason is not StopReason.ANSWERED:
        if not told:
            put_on(given, machine.history())
    elif (
        (machine.page is not None or machine.call.operation == "GET" or _reads_by_post(machine))
        and not isinstance(answer, Exception)
        and not answer.context.options.get("stream")
    ):
        machine.page = note_next(machine.page, answer.http_request.url, body_of(given))
    engine.end(machine)


def _reads_by_post(machine: RetryMachine) -> bool:
    """Resource Manager's paths say which GET is a listing; of a POST nothing does."""
    return machine.call.replayable and machine.call.operation.startswith("POST ")


@cache
def _report_unpaced(transport: str) -> None:
    """Once for each kind."""
    logger.warning("calls by %s are not paced, because it waits in a way of its own; they are retried as configured", transport)


def _fingerprint(policy: Any, http: Any) -> bytes | None:
    body = getattr(http, "content", None) if _has_body(http) else None
    return fingerprint(_who_signs(policy), http.method, http.url, body, asked_by(http.headers.items()))


def _who_signs(policy: Any) -> str:
    """Which credential, by its identity in this process."""
    while (policy := getattr(policy, "next", None)) is not None:
        credential = getattr(policy, "_credential", None)
        if credential is not None:
            return str(id(getattr(credential, "_inner", credential)))
    return ""


def _has_body(http: Any) -> bool:
    """False where there is surely none; `body` of today's requests is slow to ask for."""
    return bool(getattr(http, "content", True))


def _is_read_once(body: Any) -> bool:
    """Whether a body is spent when it was sent: an iterator, or a stream that can't go back."""
    if not hasattr(body, "read"):
        return hasattr(body, "__next__") or hasattr(body, "__anext__")
    seekable = getattr(body, "seekable", None)
    return not (seekable() if seekable is not None else hasattr(body, "seek"))
