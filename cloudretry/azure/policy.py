"""Retry policies for azure-core pipelines, sync and async, in the place of azure-core's own.

They are its subclasses, because mgmt clients look for one, and send by a loop of their own. What lies above and below in the
pipeline stays as it is: redirects, provider registration, authentication with its challenges. An instance serves one client.
"""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any, Final

from azure.core.pipeline.policies import AsyncHTTPPolicy, AsyncRetryPolicy, HTTPPolicy, RetryPolicy

from cloudretry.azure.run import Run, Watched, begin, own_sleep, read_streamed, read_streamed_async
from cloudretry.core.builtin import BUILTIN
from cloudretry.runtime.engine import Engine

if TYPE_CHECKING:
    from azure.core.pipeline import PipelineRequest, PipelineResponse

    from cloudretry.core.machine import RetryMachine

__all__ = ["AsyncCloudRetryPolicy", "CloudRetryPolicy"]

logger = logging.getLogger("cloudretry")


class CloudRetryPolicy(RetryPolicy[Any, Any]):
    """Retries as configured.

    Args:
        engine: settings and listeners; None for the built-in entry.
        kwargs: the options of azure-core's RetryPolicy. `retry_total=0` means a single attempt and `timeout` bounds a call;
            the others hold where the SDK decides: in observe mode and under the preset azure-core.
    """

    def __init__(self, *, engine: Engine | None = None, **kwargs: Any) -> None:
        _report_explicit(kwargs)
        super().__init__(**kwargs)
        self.engine = engine or Engine(BUILTIN)

    def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Send, and send again as long as it is worth it. Raises and returns what the last attempt came to."""
        engine = self.engine
        machine = begin(engine, request)
        if _the_sdk_decides(engine, machine):
            return self._watched(request, Watched(engine, machine))
        run = Run(self, engine, machine, request)
        while True:
            try:
                response = self.next.send(run.prepared())
                read_streamed(response.http_response, request.context.options)
            except Exception as error:
                if engine.retried(machine, run.failure_by(error), sleep=own_sleep(request.context.transport)):
                    continue
                run.end(error)
                raise
            except BaseException:
                run.cancel()
                raise
            failure = run.failure_in(response)
            if failure is None or not engine.retried(machine, failure, sleep=own_sleep(request.context.transport)):
                run.end(response)
                return response

    def _watched(self, request: PipelineRequest[Any], watched: Watched) -> PipelineResponse[Any, Any]:
        """Let the superclass send, through a twin whose next policy tells us of each attempt."""
        twin = copy.copy(self)
        twin.next = _Watch(self.next, watched)
        try:
            response = super(CloudRetryPolicy, twin).send(request)
        except Exception as error:
            watched.end(error)
            raise
        except BaseException:
            watched.cancel()
            raise
        watched.end(response)
        return response


class AsyncCloudRetryPolicy(AsyncRetryPolicy[Any, Any]):
    """The same for async pipelines. Cancelling a task ends its wait at once."""

    def __init__(self, *, engine: Engine | None = None, **kwargs: Any) -> None:
        _report_explicit(kwargs)
        super().__init__(**kwargs)
        self.engine = engine or Engine(BUILTIN)

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Send, and send again as long as it is worth it. Raises and returns what the last attempt came to."""
        engine = self.engine
        machine = begin(engine, request)
        if _the_sdk_decides(engine, machine):
            return await self._watched(request, Watched(engine, machine))
        run = Run(self, engine, machine, request)
        while True:
            try:
                response = await self.next.send(run.prepared())
                await read_streamed_async(response.http_response, request.context.options)
            except Exception as error:
                if await engine.retried_async(machine, run.failure_by(error), sleep=own_sleep(request.context.transport)):
                    continue
                run.end(error)
                raise
            except BaseException:
                run.cancel()
                raise
            failure = run.failure_in(response)
            if failure is None or not await engine.retried_async(machine, failure, sleep=own_sleep(request.context.transport)):
                run.end(response)
                return response

    async def _watched(self, request: PipelineRequest[Any], watched: Watched) -> PipelineResponse[Any, Any]:
        twin = copy.copy(self)
        twin.next = _AsyncWatch(self.next, watched)
        try:
            response = await super(AsyncCloudRetryPolicy, twin).send(request)
        except Exception as error:
            watched.end(error)
            raise
        except BaseException:
            watched.cancel()
            raise
        watched.end(response)
        return response


class _Watch(HTTPPolicy[Any, Any]):
    def __init__(self, following: HTTPPolicy[Any, Any], watched: Watched) -> None:
        self.next = following
        self._watched = watched

    def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        try:
            response = self.next.send(request)
        except Exception as error:
            self._watched.attempt(error)
            raise
        self._watched.attempt(response)
        return response


class _AsyncWatch(AsyncHTTPPolicy[Any, Any]):
    def __init__(self, following: AsyncHTTPPolicy[Any, Any], watched: Watched) -> None:
        self.next = following
        self._watched = watched

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        try:
            response = await self.next.send(request)
        except Exception as error:
            self._watched.attempt(error)
            raise
        self._watched.attempt(response)
        return response


def _the_sdk_decides(engine: Engine, machine: RetryMachine) -> bool:
    return engine.settings.providers["azure"].mode == "observe" or machine.settings.strategy == "sdk"


_reported: Final[set[object]] = set()


def _report_explicit(kwargs: dict[str, Any]) -> None:
    total = kwargs.get("retry_total", 0)
    if total and total not in _reported:
        _reported.add(total)
        logger.warning("the SDK's setting of %s retries is not used: cloudretry's own max_retries holds", total)
