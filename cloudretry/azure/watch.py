"""Recording where somebody else decides: azure-core in observe mode and by the strategy `sdk`, or a user's own retry policy.

A Watch stands between that retry policy and the next one, and tells of each attempt; the call rides in the request's context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from azure.core.pipeline.policies import AsyncHTTPPolicy, HTTPPolicy

from cloudretry.azure.classify import outcome_of_error, outcome_of_response
from cloudretry.azure.run import end_call
from cloudretry.azure.sender import put_before_transport
from cloudretry.runtime.current import CURRENT, Current

if TYPE_CHECKING:
    from azure.core.pipeline import PipelineContext, PipelineRequest, PipelineResponse

    from cloudretry.core.machine import RetryMachine
    from cloudretry.runtime.engine import Engine

    Answer: TypeAlias = PipelineResponse[Any, Any] | Exception

__all__ = ["AsyncWatch", "Watch", "Watched"]

_KEY: Final = "cloudretry_watched"


class Watched:
    """A call that others decide about: its attempts are recorded."""

    __slots__ = ("_context", "_engine", "_machine", "current")

    def __init__(self, engine: Engine, machine: RetryMachine, context: PipelineContext) -> None:
        self._engine = engine
        self._machine = machine
        self._context = context
        self.current = Current(engine, machine)
        context[_KEY] = self

    def attempt(self, answer: Answer) -> None:
        """Note what an attempt came to."""
        outcome = outcome_of_error(answer) if isinstance(answer, Exception) else outcome_of_response(answer.http_response)
        if self._machine.journey is not None:
            outcome = self._machine.journey.seen(outcome)
        if outcome is None:
            self._machine.answered()
        else:
            self._engine.observed(self._machine, outcome)

    def end(self, answer: Answer) -> None:
        """The caller gets this."""
        self._context.pop(_KEY, None)
        if isinstance(answer, Exception) and self._machine.ended is None:  # nothing was sent
            self.attempt(answer)
        end_call(self._engine, self._machine, answer)

    def cancel(self) -> None:
        """Somebody ended the call in the middle."""
        self._context.pop(_KEY, None)
        self._machine.cancel()
        self._engine.end(self._machine)


class Watch(HTTPPolicy[Any, Any]):
    """Tells a Watched, if the request has one, what each attempt came to. Its call takes its pool's ways."""

    def __init__(self, following: HTTPPolicy[Any, Any]) -> None:
        self.next = following

    def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Pass the request on."""
        watched: Watched | None = request.context.get(_KEY)
        if watched is None:
            return self.next.send(request)
        put_before_transport(self)
        token = CURRENT.set(watched.current)
        try:
            response = self.next.send(request)
        except Exception as error:
            watched.attempt(error)
            raise
        finally:
            CURRENT.reset(token)
        watched.attempt(response)
        return response


class AsyncWatch(AsyncHTTPPolicy[Any, Any]):
    """The same in async pipelines."""

    def __init__(self, following: AsyncHTTPPolicy[Any, Any]) -> None:
        self.next = following

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Pass the request on."""
        watched: Watched | None = request.context.get(_KEY)
        if watched is None:
            return await self.next.send(request)
        put_before_transport(self)
        token = CURRENT.set(watched.current)
        try:
            response = await self.next.send(request)
        except Exception as error:
            watched.attempt(error)
            raise
        finally:
            CURRENT.reset(token)
        watched.attempt(response)
        return response
