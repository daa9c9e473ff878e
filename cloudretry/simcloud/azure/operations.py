"""Long-running operations: said where to ask and when, in progress for so many polls, then done. Pure.

Providers tell how one stands by Azure-AsyncOperation; Resource Manager's own, deletions of resource groups, have a Location
alone. An operation that nobody asks about never ends, and a network resource is locked until then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from cloudretry.simcloud.answers import Answer
from cloudretry.simcloud.azure.answers import error, reply
from cloudretry.simcloud.azure.estate import make_id
from cloudretry.simcloud.numbers import Numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudretry.simcloud.azure.calls import Target

__all__ = ["Operations"]

_VERSION: Final = "api-version=2020-01-01"
_MANAGER: Final = "Microsoft.Resources"
_LOCKING: Final = "Microsoft.Network"


@dataclass(slots=True)
class _Operation:
    path: str
    polls: int
    then: Callable[[], None]


class Operations:
    """Holds the operations. Not thread-safe."""

    def __init__(self, polls: int, wait: int, seed: int) -> None:
        self._polls = polls
        self._wait = {"Retry-After": str(wait)}
        self._numbers = Numbers(f"{seed}/operations")
        self._running: dict[str, _Operation] = {}
        self._ended: set[str] = set()

    def locked(self, target: Target) -> Answer | None:
        """The refusal of a change while another one of the same network resource is going on: a 429 that is no rate limit."""
        key = target.path.lower()
        if target.provider != _LOCKING or not any(running.path == key for running in self._running.values()):
            return None
        message = f"Operation on {target.path} was preempted by another operation in progress."
        details = [{"code": "RetryableErrorDueToAnotherOperation", "message": message}]
        return reply({"error": {"code": "RetryableError", "message": "A retryable error occurred.", "details": details}}, 429)

    def begin(self, target: Target, place: str, base: str, then: Callable[[], None], said: Answer | None = None) -> Answer:
        """Begin one that does `then` when it ends; `place` is a location, `said` the answer if it is not an empty 202."""
        name = make_id(self._numbers)
        self._running[name] = _Operation(target.path.lower(), self._polls, then)
        links = _links(target, place, name, base)
        begun = said or Answer(status=202, body=b"")
        return replace(begun, headers={**begun.headers, **self._wait, **links})

    def poll(self, target: Target, base: str) -> Answer:
        """How an operation stands."""
        *_, kind, name = target.types
        running = self._running.get(name)
        if running is None and name not in self._ended:
            return error(404, "OperationNotFound", f"The operation '{name}' could not be found.")
        goes_on = running is not None and running.polls > 0
        if running is not None:
            running.polls -= 1
            if not goes_on:
                self._end(name)
        if kind == "operations":
            status = "InProgress" if goes_on else "Succeeded"
            return reply({"id": target.path, "name": name, "status": status}, 200, self._wait if goes_on else {})
        again = {**self._wait, "Location": f"{base}{target.path}?{_VERSION}"}
        return Answer(status=202, body=b"", headers=again) if goes_on else Answer(status=200, body=b"")

    def _end(self, name: str) -> None:
        self._ended.add(name)
        self._running.pop(name).then()


def _links(target: Target, place: str, name: str, base: str) -> dict[str, str]:
    start = f"{base}/subscriptions/{target.subscription}"
    if target.provider == _MANAGER:
        return {"Location": f"{start}/operationresults/{name}?{_VERSION}"}
    start += f"/providers/{target.provider}/locations/{place}"
    return {
        "Azure-AsyncOperation": f"{start}/operations/{name}?{_VERSION}",
        "Location": f"{start}/operationresults/{name}?{_VERSION}",
    }
