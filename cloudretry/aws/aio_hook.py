"""The handlers of one aiobotocore client: what they decide is ClientHook's, and they wait without blocking the event loop.

aiobotocore has botocore's events, seats and errors, and awaits whatever a handler returns. Its classes are not imported here.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cloudretry import errors
from cloudretry.aws.aio_transport import put_before
from cloudretry.aws.hook import ClientHook, overdue, refuse_damaged, weakly

if TYPE_CHECKING:
    from collections.abc import Mapping

    from botocore.awsrequest import AWSRequest
    from botocore.client import BaseClient
    from botocore.model import OperationModel

__all__ = ["AioClientHook"]

logger = logging.getLogger("cloudretry")

_ERROR_STATUS: Final = 300


class AioClientHook(ClientHook):
    """The same for a client whose calls are awaited. A call is one task's, and so is what it keeps in the context."""

    def _stand_before(self, client: BaseClient) -> None:
        put_before(client)

    def _stand_around(self, endpoint: Any) -> None:
        make = weakly(endpoint.make_request)

        async def make_request(operation_model: OperationModel, request_dict: dict[str, Any]) -> Any:
            context = self.begun(request_dict)
            try:
                http, parsed = await make()(operation_model, request_dict)
            except BaseException as error:
                self.failed(error, context)
                raise
            self.answered(parsed, context)
            return http, parsed

        endpoint.make_request = make_request

    async def request_created(self, request: AWSRequest, operation_name: str, **_: object) -> None:
        """Begin a call's attempt with its turn."""
        machine = self._begin(request, operation_name)
        if machine.place is not None and not _in_asyncio():
            machine.place = None
            _report_unpaced()
        try:
            await self.engine.take_turn_async(machine)
        except errors.TurnTimeout as late:
            raise overdue(request, late) from None

    async def needs_retry(
        self,
        response: tuple[Any, dict[str, Any]] | None,
        operation: OperationModel,
        caught_exception: Exception | None,
        request_dict: dict[str, Any],
        *,
        endpoint: Any = None,
        **_: object,
    ) -> float | None:
        """0.0 after having waited: send again now. None: no."""
        response = await _read(response, operation)
        machine, outcome = self._came_to(response, operation, caught_exception, request_dict)
        if outcome is None:
            return None
        own_sleep = None if _in_asyncio() else endpoint._sleep  # noqa: SLF001 - trio's, and aiobotocore has no public way
        if await self.engine.retried_async(machine, outcome, sleep=own_sleep):
            return 0.0
        refuse_damaged(outcome, caught_exception)
        return None

    async def observed_needs_retry(
        self,
        response: tuple[Any, dict[str, Any]] | None,
        operation: OperationModel,
        caught_exception: Exception | None,
        request_dict: dict[str, Any],
        **_: object,
    ) -> None:
        """Record the attempt; aiobotocore's own handler decides."""
        response = await _read(response, operation)
        super().observed_needs_retry(response, operation, caught_exception, request_dict)


class _Read(NamedTuple):
    """A response of aiobotocore's whose body is there: what is read of botocore's."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes


async def _read(response: tuple[Any, dict[str, Any]] | None, operation: OperationModel) -> tuple[Any, dict[str, Any]] | None:
    """With the body of an answer that is no stream at hand; aiobotocore has read it, and gives it to whoever awaits it."""
    if response is None or response[0].status_code >= _ERROR_STATUS:
        return response
    if operation.has_streaming_output or operation.has_event_stream_output:
        return response
    http, parsed = response
    return _Read(http.status_code, http.headers, await http.content), parsed


def _in_asyncio() -> bool:
    """False under trio, on which aiobotocore runs with httpx."""
    return asyncio._get_running_loop() is not None  # noqa: SLF001 - the public one raises where there is none


@cache
def _report_unpaced() -> None:
    logger.warning("calls by aiobotocore under trio are not paced; they are retried as configured")
