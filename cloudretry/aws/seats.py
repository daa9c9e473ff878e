"""Places in a client's event emitter: taking one that botocore's handler has or will have, and clearing another."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from botocore.client import BaseClient

__all__ = ["Seats", "remove_limiter"]

logger = logging.getLogger("cloudretry")

_LIMITED_EVENTS: Final = ("before-send", "needs-retry")


class Seats:
    """Registers handlers of one client under ids, in whose place another may already be.

    A later registration under the same id does nothing: that is how a seat is kept that botocore has yet to take.
    """

    def __init__(self, client: BaseClient) -> None:
        self._events = client.meta.events
        self._service = client.meta.service_model.service_id.hyphenize()

    def take(self, event: str, handler: Callable[..., Any], name: str, *, first: bool = False) -> None:
        """Put a handler in the seat `name`, which is botocore's own name for it where it has one.

        `first`: before the client's other handlers of the event, signing among them.
        """
        full, seat = f"{event}.{self._service}", f"{name}-{self._service}"
        self._events.unregister(full, unique_id=seat)
        register = self._events.register_first if first else self._events.register
        register(full, handler, unique_id=seat)


def remove_limiter(client: BaseClient) -> None:
    """Take out the rate limiter of the SDK's adaptive mode: it would slow calls by rules of its own.

    It has no id, so it is found where botocore keeps its handlers; and it is kept from being put there later.
    """
    config: Any = client.meta.config
    if (config.retries or {}).get("mode") != "adaptive":
        return
    config.retries = {**config.retries, "mode": "standard"}  # what botocore registers next; the caller's mapping stays
    emitter = getattr(client.meta.events, "_emitter", client.meta.events)
    handlers = getattr(emitter, "_handlers", None)
    if handlers is None:
        logger.warning("the rate limiter of the SDK's adaptive mode can't be removed from this botocore, and slows calls too")
        return
    for event in _LIMITED_EVENTS:
        for handler in list(handlers.prefix_search(event)):
            if type(getattr(handler, "__self__", None)).__name__.endswith("ClientRateLimiter"):  # aiobotocore's have a prefix
                client.meta.events.unregister(event, handler)
