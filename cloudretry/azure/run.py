"""One request on its way through a retry policy: what the sync and the async policy do in the same way."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cloudretry.azure.calls import call_of
from cloudretry.azure.carry import put_on
from cloudretry.azure.classify import is_error, outcome_of_error, outcome_of_response
from cloudretry.core.decision import StopReason
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from azure.core.pipeline import PipelineRequest, PipelineResponse
    from azure.core.pipeline.policies import AsyncRetryPolicy, RetryPolicy

    from cloudretry.core.machine import RetryMachine
    from cloudretry.core.outcome import Outcome
    from cloudretry.runtime.engine import Engine

    Policy: TypeAlias = RetryPolicy[Any, Any] | AsyncRetryPolicy[Any, Any]

__all__ = ["Run", "Watched", "begin", "own_sleep", "read_streamed", "read_streamed_async"]

_CAPS: Final = "cloudretry"  # in the context: a redirected request passes a second time, and its options are gone by then
_UNREACHED: Final = dict.fromkeys(("total", "connect", "read", "status"), 1_000_000_000)
"""The counters of the superclass, so that they never end a call."""
_FOR_EVER: Final = 604_800  # azure-core's default `timeout`, a week


def begin(engine: Engine, request: PipelineRequest[Any]) -> RetryMachine:
    """Start a call."""
    return engine.begin(call_of(request.http_request.method, request.http_request.url))


_PLAIN_SLEEPS: Final = frozenset(
    f"azure.core.pipeline.transport.{name}" for name in ("_base", "_base_async", "_requests_asyncio")
)


def own_sleep(transport: Any) -> Any:
    """A transport's way to wait, where it is no plain sleep: trio's, or a test's stub. None: the clock's will do."""
    sleep = getattr(transport, "sleep", None)
    return None if getattr(sleep, "__module__", None) in _PLAIN_SLEEPS else sleep


def _is_unread(http: Any, options: dict[str, Any]) -> bool:
    """An empty body is left alone: with aiohttp, it could not be read a second time by the caller."""
    return bool(options.get("stream")) and is_error(http) and http.headers.get("Content-Length") != "0"


def read_streamed(http: Any, options: dict[str, Any]) -> None:
    """Read an error that was asked for as a stream: its body tells why, and its connection is free again."""
    if _is_unread(http, options):
        with suppress(Exception):  # cut short: then the status alone tells
            (http.read if hasattr(http, "read") else http.body)()


async def read_streamed_async(http: Any, options: dict[str, Any]) -> None:
    """The async twin."""
    if _is_unread(http, options):
        with suppress(Exception):  # cut short: then the status alone tells
            await (http.read if hasattr(http, "read") else http.load_body)()


class Run:
    """A call that we decide about. The superclass notes each failure in the SDK's own history and rewinds the body."""

    __slots__ = ("_engine", "_policy", "_read_once", "_request", "_retry", "_timeout", "machine")

    def __init__(self, policy: Policy, engine: Engine, machine: RetryMachine, request: PipelineRequest[Any]) -> None:
        """Take the SDK's retry options out of the request's, where the transport would choke on them."""
        context = request.context
        total = context.options.get("retry_total", None if policy.total_retries else 0)
        self._retry = policy.configure_retries(context.options)
        total, timeout = context.setdefault(_CAPS, (total, self._retry["timeout"]))
        self._retry.update(_UNREACHED)
        self._timeout: Any = None if timeout == _FOR_EVER else timeout
        has_body = _has_body(request.http_request)
        self._read_once = has_body and _is_read_once(request.http_request.body)
        if has_body and not self._read_once:
            policy._configure_positions(request, self._retry)  # noqa: SLF001 - the superclass's, which undoes it in increment()
        if isinstance(total, int):
            machine.settings = replace(machine.settings, max_retries=min(machine.settings.max_retries, max(0, total)))
        self._policy, self._engine, self._request = policy, engine, request
        self.machine = machine

    def prepared(self) -> PipelineRequest[Any]:
        """The request, ready for an attempt. Raises the SDK's own timeout error where `timeout` has no second left."""
        if self._timeout is not None:
            self._policy._configure_timeout(self._request, self._left(), is_response_error=True)  # noqa: SLF001 - as above
        self._request.context["retry_count"] = self.machine.retry_number - 1
        return self._request

    def failure_by(self, error: Exception) -> Outcome:
        """What an attempt without a response came to."""
        self._note(self._request, error)
        return outcome_of_error(error)

    def failure_in(self, response: PipelineResponse[Any, Any]) -> Outcome | None:
        """What an attempt with a response came to; None: the provider answered."""
        outcome = outcome_of_response(response.http_response)
        if outcome is None:
            self.machine.answered()
        else:
            self._note(response, None)
        return outcome

    def end(self, answer: PipelineResponse[Any, Any] | Exception) -> None:
        """The caller gets this, and with it, if it is no answer, what happened."""
        if not isinstance(answer, Exception):
            self._policy.update_context(answer.context, self._retry)
        _end(self._engine, self.machine, answer)

    def cancel(self) -> None:
        """Somebody ended the call in the middle of an attempt."""
        _cancel(self._engine, self.machine)

    def _note(self, pipeline: Any, error: Exception | None) -> None:
        sendable = self._policy.increment(self._retry, response=pipeline, error=error)
        unknown = self._request.http_request.files and self._retry.get("file_positions") is None
        self.machine.rewindable = sendable and not self._read_once and not unknown
        if self._timeout is not None:
            self._cap_waiting(self.machine.waited + self._left())

    def _cap_waiting(self, budget: float) -> None:
        """A wait that would end past the caller's `timeout` is not begun: the provider's answer is worth more than ours."""
        if budget < self.machine.settings.time_budget:
            self.machine.settings = replace(self.machine.settings, time_budget=budget)

    def _left(self) -> float:
        elapsed = current_clock().monotonic() - self.machine.started
        return float(self._timeout - elapsed)


class Watched:
    """A call that the SDK decides about, in observe mode or by the strategy `sdk`: its attempts are recorded."""

    __slots__ = ("_engine", "_machine")

    def __init__(self, engine: Engine, machine: RetryMachine) -> None:
        self._engine = engine
        self._machine = machine

    def attempt(self, answer: PipelineResponse[Any, Any] | Exception) -> None:
        """Note what an attempt came to."""
        outcome = outcome_of_error(answer) if isinstance(answer, Exception) else outcome_of_response(answer.http_response)
        if outcome is None:
            self._machine.answered()
        else:
            self._engine.observed(self._machine, outcome)

    def end(self, answer: PipelineResponse[Any, Any] | Exception) -> None:
        """The caller gets this."""
        if isinstance(answer, Exception) and self._machine.ended is None:  # nothing was sent
            self.attempt(answer)
        _end(self._engine, self._machine, answer)

    def cancel(self) -> None:
        """Somebody ended the call in the middle."""
        _cancel(self._engine, self._machine)


def _end(engine: Engine, machine: RetryMachine, answer: PipelineResponse[Any, Any] | Exception) -> None:
    if machine.ended is not None and machine.ended.reason is not StopReason.ANSWERED:
        put_on(answer if isinstance(answer, Exception) else answer.http_response, machine.history())
    engine.end(machine)


def _cancel(engine: Engine, machine: RetryMachine) -> None:
    machine.cancel()
    engine.end(machine)


def _has_body(http: Any) -> bool:
    """False where there is surely none; `body` of today's requests is slow to ask for."""
    return bool(getattr(http, "content", True))


def _is_read_once(body: Any) -> bool:
    """Whether a body is spent when it was sent: an iterator, or a stream that can't go back."""
    if not hasattr(body, "read"):
        return hasattr(body, "__next__") or hasattr(body, "__anext__")
    seekable = getattr(body, "seekable", None)
    return not (seekable() if seekable is not None else hasattr(body, "seek"))
