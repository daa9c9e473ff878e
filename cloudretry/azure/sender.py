"""Stands where a pipeline hands a request to its transport: there a call's turn is used, and its way through a pool begins.

It is put there when a request first passes a retry policy of ours, from which the rest of the pipeline hangs.
"""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from functools import cached_property
from operator import getitem
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cloudretry.azure.errors import PoolUnavailable
from cloudretry.azure.exhausted import exhausted
from cloudretry.azure.probe import get, get_async
from cloudretry.core.pool_snapshot import Unavailable
from cloudretry.egress.passage import NoMember, Passage
from cloudretry.egress.passages import Passages
from cloudretry.runtime.current import CURRENT
from cloudretry.runtime.reach import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudretry.core.machine import RetryMachine
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.runtime.current import Current

__all__ = ["Sender", "put_before_transport"]

_UNPACED: Final = nullcontext()


def put_before_transport(policy: Any) -> None:
    """See to it that a Sender is at the end of a retry policy's pipeline."""
    runner = policy.next
    while (following := getattr(runner, "next", None)) is not None:
        runner = following
    inner = getattr(runner, "_sender", None)
    if inner is not None and not isinstance(inner, Sender):
        runner._sender = (AsyncSender if inspect.iscoroutinefunction(inner.send) else Sender)(inner)  # noqa: SLF001 - no public way


class Sender:
    """`send` of a transport, in its place. Thread-safe as the transport is. Pickled, it is the transport.

    Args:
        inner: the client's own transport.
    """

    get: ClassVar[Callable[..., Any]] = staticmethod(get)

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._passages: Passages[Any] = Passages(self._way, self.get)

    def send(self, request: Any, **options: Any) -> Any:
        """Send with the call's turn, through the pool if there is one, or else as the transport would."""
        current = CURRENT.get()
        if current is None:
            return self._inner.send(request, **options)
        machine = current.machine
        with _turn_of(machine):
            passage = self._passage(current, request.url, options)
            if passage is None:
                return self._inner.send(request, **options)
            try:
                return passage.send(
                    machine, host_of(request.url).lower(), lambda way, record: way.send(request, record, **options)
                )
            except NoMember as nothing:
                return _in_place_of_an_answer(nothing, request, is_async=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return getitem, ((self._inner,), 0)

    def _passage(self, current: Current, url: str, options: dict[str, Any]) -> Passage[Any] | None:
        if current.machine.settings.pool is None:
            return None
        why_not = "it was given proxies of its own" if options.get("proxies") else self._why_unfit
        return self._passages.of(current.engine, current.machine, url, why_not)

    @cached_property
    def _why_unfit(self) -> str | None:
        from cloudretry.egress.requests_way import can_serve  # imports requests, which an aio client may not have

        return None if can_serve(self._inner) else f"its transport is a {type(self._inner).__name__}"

    def _way(self, member: Member, settings: PoolSettings) -> Any:
        from cloudretry.egress.requests_way import RequestsWay

        _Close.after(self._inner, _Close, self._passages)
        return RequestsWay(self._inner, member, settings)


class AsyncSender(Sender):
    """The same for async pipelines."""

    get: ClassVar[Callable[..., Any]] = staticmethod(get_async)

    async def send(self, request: Any, **options: Any) -> Any:
        """Send with the call's turn, through the pool if there is one, or else as the transport would."""
        current = CURRENT.get()
        if current is None:
            return await self._inner.send(request, **options)
        machine = current.machine
        with _turn_of(machine):
            passage = self._passage(current, request.url, options)
            if passage is None:
                return await self._inner.send(request, **options)
            try:
                return await passage.send_async(
                    machine, host_of(request.url).lower(), lambda way, record: way.send(request, record, **options)
                )
            except NoMember as nothing:
                return _in_place_of_an_answer(nothing, request, is_async=True)

    @cached_property
    def _why_unfit(self) -> str | None:
        from cloudretry.egress.aiohttp_way import can_serve

        return None if can_serve(self._inner) else f"its transport is a {type(self._inner).__name__}"

    def _way(self, member: Member, settings: PoolSettings) -> Any:
        from cloudretry.egress.aiohttp_way import AiohttpWay

        _Close.after(self._inner, _AsyncClose, self._passages)
        return AiohttpWay(self._inner, member, settings)


class _Close:
    """In the place of a transport's `close`: the members' connections are closed with it. Pickled, it is that `close`."""

    def __init__(self, inner: Any, passages: Passages[Any]) -> None:
        self._inner = inner
        self._passages = passages

    @staticmethod
    def after(inner: Any, kind: type[_Close], passages: Passages[Any]) -> None:
        """Put it there, once."""
        if not isinstance(vars(inner).get("close"), _Close):
            inner.close = kind(inner, passages)

    def __call__(self) -> Any:
        for passage in self._passages.all():
            passage.ways.close()
        return type(self._inner).close(self._inner)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._inner, "close")


class _AsyncClose(_Close):
    async def __call__(self) -> None:
        from cloudretry.egress.aiohttp_way import close_all

        for passage in self._passages.all():
            await close_all(passage.ways)
        await type(self._inner).close(self._inner)


def _turn_of(machine: RetryMachine) -> Any:
    place = machine.place
    return _UNPACED if place is None or place.turn is None else place.turn


def _in_place_of_an_answer(nothing: NoMember, request: Any, *, is_async: bool) -> Any:
    if isinstance(nothing.why, Unavailable):
        raise PoolUnavailable(str(nothing.why)) from None
    return exhausted(request, nothing.why.tried, is_async=is_async)
