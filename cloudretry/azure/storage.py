"""Storage's data clients (blob, queue, file share, data lake): their own retry policies with our loop in front.

Theirs is no RetryPolicy: it keeps other books, switches between the primary and the secondary location, tells a user's
`retry_hook`, and takes options out of a request that no other policy knows. All of that goes on. It never repeats a 429 and
repeats every write; with our loop the configuration decides.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cloudretry.azure.policy import AsyncSends, Sends
from cloudretry.azure.run import Run
from cloudretry.core.outcome import Kind, Outcome, Phase
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from azure.core.pipeline import PipelineRequest, PipelineResponse

    from cloudretry.core.call import Call
    from cloudretry.core.machine import RetryMachine
    from cloudretry.runtime.engine import Engine

__all__ = ["AsyncStorageSends", "StorageSends", "is_storages"]

_BASES: Final = frozenset({"StorageRetryPolicy", "AsyncStorageRetryPolicy"})
_ADDS: Final = frozenset({"appendblock", "lease"})


def is_storages(kind: type) -> bool:
    """Whether a policy is one of storage's, as we know them."""
    known = any(base.__name__ in _BASES and base.__module__.startswith("azure.storage.") for base in kind.__mro__)
    return known and hasattr(kind, "configure_retries") and hasattr(kind, "increment")


class StorageRun(Run):
    """A call of a storage client."""

    def __init__(self, policy: Any, engine: Engine, machine: RetryMachine, request: PipelineRequest[Any]) -> None:
        super().__init__(policy, engine, machine, request)
        http = request.http_request
        if http.method == "PUT" and not _adds(http.url):
            machine.call = _replayable(machine.call)
        self.damaged = False
        self._switched_from: tuple[str, Any] | None = None
        self._last: dict[str, Any] | None = None

    def open_books(self) -> dict[str, Any]:
        """Storage's counters, locations and hook."""
        books: dict[str, Any] = self.policy.configure_retries(self.request)
        return books

    def remember_positions(self) -> None:
        """They are in the books."""

    def prepared(self) -> PipelineRequest[Any]:
        """Tell the user's hook of a retry, as storage does."""
        self._switched_from = None
        hook, last = self.books.get("hook"), self._last
        if last is not None and hook:
            hook(
                retry_count=self.books["count"] - 1, location_mode=self.books["mode"], request=self.request.http_request, **last
            )
        self._last = None
        return super().prepared()

    def judged(self, response: PipelineResponse[Any, Any]) -> Outcome | None:
        """What storage itself repeats, such as a 404 of the secondary location, is worth a repetition to us as well."""
        outcome = super().judged(response)
        if outcome is None and self.damaged:
            return Outcome(kind=Kind.TRANSIENT, phase=Phase.BODY, code="ChecksumMismatch", wall=current_clock().wall())
        if outcome is None or outcome.kind is not Kind.FATAL:
            return outcome
        worth = storages_own(self.policy, "is_retry")(response, self.books["mode"])
        return replace(outcome, kind=Kind.TRANSIENT) if worth else outcome

    def count(self, pipeline: Any, error: Exception | None) -> bool:
        """Let storage rewind the body, and go to its other location where the user wants that."""
        http, answer = self.request.http_request, None if error is not None else pipeline.http_response
        self._switched_from = (http.url, self.books["mode"])
        self._last = {"response": answer, "error": error}
        return bool(self.policy.increment(self.books, request=http, response=answer, error=error))

    def end(self, answer: PipelineResponse[Any, Any] | Exception) -> None:
        """The location that gave the last answer is the one to name."""
        if self._switched_from is not None:
            self.request.http_request.url, self.books["mode"] = self._switched_from
        super().end(answer)

    def close_books(self, response: PipelineResponse[Any, Any]) -> None:
        """Their clients ask the response which location it came from."""
        if self.books["history"]:
            response.context["history"] = self.books["history"]
        response.http_response.location_mode = self.books["mode"]


class StorageSends(Sends):
    """Mixin: the loop of a sync policy of storage's."""

    run: ClassVar[type[Run]] = StorageRun

    def _attempt(self, run: Any, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        response = super()._attempt(run, request)
        run.damaged = bool(storages_own(self, "is_checksum_retry")(response))
        return response


class AsyncStorageSends(AsyncSends):
    """Mixin: the same for async ones."""

    run: ClassVar[type[Run]] = StorageRun

    async def _attempt(self, run: Any, request: PipelineRequest[Any]) -> PipelineResponse[Any, Any]:
        response = await super()._attempt(run, request)
        damaged = storages_own(self, "is_checksum_retry")(response)
        run.damaged = bool(await damaged if inspect.isawaitable(damaged) else damaged)
        return response


def storages_own(policy: object, name: str) -> Any:
    """A function of the module that the policy comes from: each storage package has its own copy, older ones not of all."""
    base = next(base for base in type(policy).__mro__ if base.__name__ in _BASES)
    return getattr(sys.modules[base.__module__], name, lambda *_: False)


@lru_cache(maxsize=1024)
def _replayable(call: Call) -> Call:
    return replace(call, replayable=True)


def _adds(url: str) -> bool:
    """Whether a PUT does more when it is done twice."""
    return any(f"comp={what}" in url for what in _ADDS)
