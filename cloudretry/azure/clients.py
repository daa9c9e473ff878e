"""Makes real Azure clients, sync or aio by their class, under cloudretry."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from cloudretry.azure.attach import attach_any

if TYPE_CHECKING:
    from cloudretry.runtime.engine import Engine

__all__ = ["is_async", "make"]

C = TypeVar("C")


def is_async(client_class: type) -> bool:
    """Whether a client class is one for `async with`."""
    return hasattr(client_class, "__aenter__")


def make(
    client_class: type[C],
    engine: Engine | None,
    *args: Any,
    credential: Any = None,
    subscription_id: str | None = None,
    **kwargs: Any,
) -> C:
    """A client, made as its class is called, with what it needs and was not given: credential and subscription.

    `engine` None leaves the SDK's own retry in place.
    """
    given = inspect.signature(client_class).bind_partial(*args, **kwargs).arguments
    known = {"credential": credential, "subscription_id": subscription_id}
    takes = inspect.signature(client_class).parameters
    filled = {name: value for name, value in known.items() if name in takes and name not in given and value is not None}
    client = client_class(*args, **filled, **kwargs)
    if engine is not None:
        attach_any(client, engine)
    return client
