"""Makes real Azure clients, sync or aio by their class, with our policy in their pipelines."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cloudretry.azure.policy import AsyncCloudRetryPolicy, CloudRetryPolicy

if TYPE_CHECKING:
    from cloudretry.runtime.engine import Engine

__all__ = ["is_async", "make"]

logger = logging.getLogger("cloudretry")

C = TypeVar("C")

_OWN_RETRY: Final = "azure.storage."
"""Storage's data clients put options into a request that only their own retry policy takes out again."""


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
    """A client, made as its class is called, with what it needs and was not given: credential, subscription, policy.

    `engine` None leaves the SDK's own retry in place.
    """
    given = inspect.signature(client_class).bind_partial(*args, **kwargs).arguments
    known = {"credential": credential, "subscription_id": subscription_id}
    takes = inspect.signature(client_class).parameters
    filled = {name: value for name, value in known.items() if name in takes and name not in given and value is not None}
    if engine is not None and _is_ours(client_class, kwargs):
        policy = AsyncCloudRetryPolicy if is_async(client_class) else CloudRetryPolicy
        kwargs["retry_policy"] = policy(engine=engine, **_retry_options(kwargs))
    return client_class(*args, **filled, **kwargs)


def _is_ours(client_class: type, kwargs: dict[str, Any]) -> bool:
    reason = "it brings its own retry policy" if kwargs.get("retry_policy") or kwargs.get("policies") is not None else None
    if client_class.__module__.startswith(_OWN_RETRY):
        reason = "storage's data clients need their own"
    if reason is not None:
        logger.warning("%s keeps the SDK's retry: %s", client_class.__name__, reason)
    return reason is None


def _retry_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    """What the client's own policy would have been made with."""
    return {
        name: value
        for name, value in kwargs.items()
        if name == "timeout" or (name.startswith("retry_") and name != "retry_policy")
    }
