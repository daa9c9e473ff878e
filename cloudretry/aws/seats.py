"""Places in a client's event emitter: taking one that botocore's handler has or will have, and clearing another."""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from botocore.client import BaseClient

__all__ = ["Seats"]

Where: TypeAlias = Literal["_first", "", "_last"]

logger = logging.getLogger("cloudretry")

_LIMITED_EVENTS: Final = ("before-send", "needs-retry")


class Seats:
    """Registers handlers of one client under ids, in whose place another may already be.

    A later registration under the same id does nothing: that is how a seat is kept that botocore has yet to take. All of it
    takes effect in one step, by `done`: other threads may be using the client, and botocore's emitter caches the lists of
    handlers that it has looked up, so that half of what is registered one after the other could hold for ever.
    """

    def __init__(self, client: BaseClient) -> None:
        self._client = client
        self._events = copy(client.meta.events)
        self._service = client.meta.service_model.service_id.hyphenize()

    def take(self, event: str, handler: Callable[..., Any], name: str, *, where: Where = "") -> None:
        """Put a handler in the seat `name`, which is botocore's own name for it where it has one.

        `where`: before the client's other handlers of the event, signing among them, or after them.
        """
        full, seat = f"{event}.{self._service}", f"{name}-{self._service}"
        self._events.unregister(full, unique_id=seat)
        getattr(self._events, f"register{where}")(full, handler, unique_id=seat)

    def remove_limiter(self) -> None:
        """Take out the rate limiter of the SDK's adaptive mode: it would slow calls by rules of its own.

        It has no id, so it is found where botocore keeps its handlers; and it is kept from being put there later.
        """
        config: Any = self._client.meta.config
        if (config.retries or {}).get("mode") != "adaptive":
            return
        config.retries = {**config.retries, "mode": "standard"}  # what botocore registers next; the caller's mapping stays
        handlers = getattr(_inner(self._events), "_handlers", None)
        if handlers is None:
            logger.warning(
                "the rate limiter of the SDK's adaptive mode can't be removed from this botocore, and slows calls too"
            )
            return
        for event in _LIMITED_EVENTS:
            for handler in list(handlers.prefix_search(event)):
                if type(getattr(handler, "__self__", None)).__name__.endswith(
                    "ClientRateLimiter"
                ):  # aiobotocore's have a prefix
                    self._events.unregister(event, handler)

    def done(self) -> None:
        """Let it take effect."""
        events: Any = self._client.meta.events
        if hasattr(events, "_emitter"):
            events._emitter = _inner(self._events)  # noqa: SLF001 - whoever holds the client's events asks through them
        else:
            self._client.meta.events = self._events


def _inner(events: Any) -> Any:
    return getattr(events, "_emitter", events)
