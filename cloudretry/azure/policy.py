"""Retry policies for azure-core pipelines, sync and async, in the place of azure-core's own.

They are its subclasses, because mgmt clients look for one, and send by a loop of their own. What lies above and below in the
pipeline stays as it is: redirects, provider registration, authentication with its challenges. An instance serves one client.
The loops are mixins, so that a policy that exists can be given one (attach.py).
"""

from __future__ import annotations

import logging
import zlib
from typing import TYPE_CHECKING, Any, ClassVar, Final

from azure.core.exceptions import DecodeError
from azure.core.pipeline.policies import AsyncRetryPolicy, RetryPolicy

from cloudretry import errors
from cloudretry.azure.pickling import make_errors_picklable
from cloudretry.azure.readable import CAN_T_DECODE
from cloudretry.azure.run import Run, begin, own_sleep, read_streamed, read_streamed_async
from cloudretry.azure.watch import AsyncWatch, Watch, Watched
from cloudretry.core.builtin import BUILTIN
from cloudretry.runtime.current import CURRENT, Current
from cloudretry.runtime.engine import Engine

if TYPE_CHECKING:
    from azure.core.pipeline import PipelineRequest, PipelineResponse

    from cloudretry.core.machine import RetryMachine
    from cloudretry.runtime.engine import Bounds

__all__ = ["AsyncCloudRetryPolicy", "AsyncSends", "CloudRetryPolicy", "Ours", "Sends", "report_explicit"]

logger = logging.getLogger("cloudretry")


class Ours:
    """What a policy of ours has beside the SDK's.

    Attributes:
        engine: settings and listeners; another may be put in its place at any time, for calls that begin later.
        bounds: narrows the settings, for clients that fetch credentials.
        account: for overrides and reports, where the URL does not tell it.
        decides: False where the superclass goes on deciding, and its attempts are only recorded.
        run: what keeps the SDK's books of a call.
    """

    engine: Engine
    bounds: Bounds | None = None
    account: str | None = None
    decides: ClassVar[bool] = True
    run: ClassVar[type[Run]] = Run
    next: Any

    def _only_watches(self, engine: Engine, machine: RetryMachine) -> bool:
        return not self.decides or engine.settings.providers["azure"].mode == "observe" or machine.settings.strategy == "sdk"


class Sends(Ours):
    """Mixin: the loop of a sync policy."""

    def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Send, and send again as long as it is worth it. Raises and returns what the last attempt came to."""
        engine = self.engine
        machine = begin(engine, request, self.bounds, self.account)
        if self._only_watches(engine, machine):
            return self._watched(request, Watched(engine, machine, request.context))
        run = self.run(self, engine, machine, request)
        try:
            engine.take_turn(machine)
        except errors.TurnTimeout as late:
            raise run.overdue(late) from None
        while True:
            token = CURRENT.set(Current(engine, machine))
            try:
                response = self._attempt(run, request)
            except Exception as error:
                if engine.retried(machine, run.failure_by(error), sleep=own_sleep(request.context.transport)):
                    continue
                run.end(error)
                raise
            except BaseException:
                run.cancel()
                raise
            finally:
                CURRENT.reset(token)
            failure = run.failure_in(response)
            if failure is None or not engine.retried(machine, failure, sleep=own_sleep(request.context.transport)):
                return run.ended_by(response, failure)

    def _attempt(self, run: Run, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        try:
            response: PipelineResponse[Any, Any] = self.next.send(run.prepared())
        except zlib.error as error:
            raise DecodeError(CAN_T_DECODE, error=error) from error
        read_streamed(response.http_response, request.context.options)
        return response

    def _watched(self, request: PipelineRequest[Any], watched: Watched) -> PipelineResponse[Any, Any]:
        """Let the superclass send."""
        following = self.next
        if not isinstance(following, Watch):
            self.next = Watch(following)
        try:
            response: PipelineResponse[Any, Any] = super().send(request)  # type: ignore[misc]  # of the class that this is mixed into
        except Exception as error:
            watched.end(error)
            raise
        except BaseException:
            watched.cancel()
            raise
        watched.end(response)
        return response


class AsyncSends(Ours):
    """Mixin: the same for async policies. Cancelling a task ends its wait at once."""

    async def send(self, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        """Send, and send again as long as it is worth it. Raises and returns what the last attempt came to."""
        engine = self.engine
        machine = begin(engine, request, self.bounds, self.account)
        if self._only_watches(engine, machine):
            return await self._watched(request, Watched(engine, machine, request.context))
        run = self.run(self, engine, machine, request)
        try:
            await engine.take_turn_async(machine)
        except errors.TurnTimeout as late:
            raise run.overdue(late) from None
        while True:
            token = CURRENT.set(Current(engine, machine))
            try:
                response = await self._attempt(run, request)
            except Exception as error:
                if await engine.retried_async(machine, run.failure_by(error), sleep=own_sleep(request.context.transport)):
                    continue
                run.end(error)
                raise
            except BaseException:
                run.cancel()
                raise
            finally:
                CURRENT.reset(token)
            failure = run.failure_in(response)
            if failure is None or not await engine.retried_async(machine, failure, sleep=own_sleep(request.context.transport)):
                return run.ended_by(response, failure)

    async def _attempt(self, run: Run, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        try:
            response: PipelineResponse[Any, Any] = await self.next.send(run.prepared())
        except zlib.error as error:  # aiohttp lets it pass
            raise DecodeError(CAN_T_DECODE, error=error) from error
        await read_streamed_async(response.http_response, request.context.options)
        return response

    async def _watched(self, request: PipelineRequest[Any], watched: Watched) -> PipelineResponse[Any, Any]:
        following = self.next
        if not isinstance(following, AsyncWatch):
            self.next = AsyncWatch(following)
        try:
            response: PipelineResponse[Any, Any] = await super().send(request)  # type: ignore[misc]  # as above
        except Exception as error:
            watched.end(error)
            raise
        except BaseException:
            watched.cancel()
            raise
        watched.end(response)
        return response


class CloudRetryPolicy(Sends, RetryPolicy[Any, Any]):
    """Retries as configured.

    Args:
        engine: settings and listeners; None for the built-in entry.
        bounds: narrows the settings, for clients that fetch credentials.
        kwargs: the options of azure-core's RetryPolicy. `retry_total=0` means a single attempt and `timeout` bounds a call;
            the others hold where the SDK decides: in observe mode and under the preset azure-core.
    """

    def __init__(self, *, engine: Engine | None = None, bounds: Bounds | None = None, **kwargs: Any) -> None:
        report_explicit(kwargs.get("retry_total", 0))
        super().__init__(**kwargs)
        self.engine = engine or Engine(BUILTIN)
        self.bounds = bounds


class AsyncCloudRetryPolicy(AsyncSends, AsyncRetryPolicy[Any, Any]):
    """The same for async pipelines."""

    def __init__(self, *, engine: Engine | None = None, bounds: Bounds | None = None, **kwargs: Any) -> None:
        report_explicit(kwargs.get("retry_total", 0))
        super().__init__(**kwargs)
        self.engine = engine or Engine(BUILTIN)
        self.bounds = bounds


_reported: Final[set[object]] = set()


def report_explicit(total: Any) -> None:
    """Say, once for each, that a number of retries that somebody set for the SDK does not hold. 0 does."""
    if total and total not in _reported:
        _reported.add(total)
        logger.warning("the SDK's setting of %s retries is not used: cloudretry's own max_retries holds", total)


make_errors_picklable()
