"""Puts the policies of a client or pipeline that exists under cloudretry, in place. Attaching twice is once.

A policy gets another class: one assignment, so that other threads may go on using the client, and whatever refers to the policy
(the next pipeline, a configuration object, a child client) meets the same one. What changes later is its engine.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from azure.core.pipeline import AsyncPipeline, Pipeline
from azure.core.pipeline.policies import (
    AsyncBearerTokenCredentialPolicy,
    AsyncHTTPPolicy,
    AsyncRetryPolicy,
    BearerTokenCredentialPolicy,
    HTTPPolicy,
    RetryPolicy,
)

from cloudretry.azure.credentials import shared
from cloudretry.azure.policy import AsyncCloudRetryPolicy, AsyncSends, CloudRetryPolicy, Ours, Sends, report_explicit
from cloudretry.azure.storage import AsyncStorageSends, StorageSends, is_storages
from cloudretry.azure.token_engine import TokenEngine
from cloudretry.core.settings import for_credentials
from cloudretry.runtime.callers import is_called_by

if TYPE_CHECKING:
    from cloudretry.runtime.engine import Bounds, Engine

__all__ = ["adopt", "attach_any", "attach_credentials", "attach_made", "engine_of", "is_attachable"]

logger = logging.getLogger("cloudretry")

_DEEPEST: Final = 6
_LEADS_TO_A_PIPELINE: Final = ("client", "pipeline", "_impl")
_RETRYING: Final = (
    "send",
    "is_retry",
    "is_exhausted",
    "increment",
    "sleep",
    "get_backoff_time",
    "get_retry_after",
    "parse_retry_after",
)
"""The methods in which a subclass can say how or when to retry."""
_OUR_NAMES: Final = ("engine", "bounds", "account", "decides", "run", "_attempt", "_watched", "_only_watches")
_SDKS_OWN: Final = ("azure.core.", "azure.storage.")
_DEFAULT_TOTALS: Final = frozenset({3, 10})  # storage's and azure-core's


def is_attachable(thing: object) -> bool:
    """Whether a thing is an azure-core pipeline or policy, or a client with one."""
    return isinstance(thing, (RetryPolicy, AsyncRetryPolicy)) or any(_pipelines(thing, 0))


def engine_of(thing: object) -> Engine | None:
    """The engine of a thing that is attached; None if it has none."""
    return next((policy.engine for policy in _retry_policies(thing) if isinstance(policy, Ours)), None)


def attach_any(thing: object, engine: Engine, *, account: str | None = None) -> None:
    """Let the retry policies of a client, pipeline or policy be ours, or have this engine where they are already.

    Its tokens are shared with all that is attached and has the same credential.
    """
    if not _attach(thing, engine, account):
        logger.warning("%s has no retry policy: its calls are neither retried nor counted", type(thing).__name__)


def attach_made(pipeline: Any, engine: Engine) -> None:
    """The same for a pipeline that is made now, perhaps by a credential."""
    if _is_for_credentials():
        attach_credentials(pipeline, engine)
    else:
        _attach(pipeline, engine, None)


def attach_credentials(pipeline: Any, engine: Engine) -> None:
    """The same for a credential's pipeline. They stay bounded, as on AWS.

    A policy with rules of its own (the metadata service's) goes on alone.
    """
    for policy in _retry_policies(pipeline):
        if type(policy) in {RetryPolicy, AsyncRetryPolicy}:
            adopt(policy, TokenEngine(engine), bounds=for_credentials)


def _attach(thing: object, engine: Engine, account: str | None) -> bool:
    policies = list(_retry_policies(thing))
    for pipeline in _pipelines(thing, 0):
        _share_tokens(pipeline, engine)
    for policy in policies:
        adopt(policy, engine, account=account)
    return bool(policies)


_DEEPEST_FRAME: Final = 20


def _is_for_credentials() -> bool:
    """Whether azure-identity makes the pipeline now."""
    return is_called_by(lambda name: name.startswith("azure.identity."), deepest=_DEEPEST_FRAME)


def adopt(policy: Any, engine: Engine, *, bounds: Bounds | None = None, account: str | None = None) -> None:
    """Let one retry policy be ours. A user's own goes on deciding, and its attempts are recorded; that is reported once."""
    if isinstance(policy, Ours):
        policy.engine, policy.account = engine, account or policy.account
        return
    kind: Any = type(policy)
    if any(hasattr(policy, name) for name in _OUR_NAMES):
        logger.warning("%s is left alone: it has attributes of the same names as ours", kind.__name__)
        return
    vars(policy).update(engine=engine, bounds=bounds, account=account)  # before the class, for other threads
    policy.__class__ = _adopted(kind)
    if policy.decides and policy.total_retries not in _DEFAULT_TOTALS:
        report_explicit(policy.total_retries)


def _share_tokens(pipeline: Any, engine: Engine) -> None:
    for policy in pipeline._impl_policies:  # noqa: SLF001 - azure-core offers no public way
        if isinstance(policy, (BearerTokenCredentialPolicy, AsyncBearerTokenCredentialPolicy)):
            policy._credential = shared(policy._credential, engine)  # noqa: SLF001 - as above


@lru_cache(maxsize=256)
def _adopted(kind: Any) -> type:
    """The class for policies of this class."""
    if kind is RetryPolicy or kind is AsyncRetryPolicy:
        return CloudRetryPolicy if kind is RetryPolicy else AsyncCloudRetryPolicy
    is_async = issubclass(kind, AsyncHTTPPolicy) or inspect.iscoroutinefunction(kind.send)
    storages, decides = is_storages(kind), _is_plain(kind)
    if not decides:
        logger.warning("%s decides by itself what is sent again: cloudretry only records it", kind.__name__)
    mixin = ((StorageSends, AsyncStorageSends) if storages else (Sends, AsyncSends))[is_async]
    first = type(kind.__name__, (kind,), {})  # so that Python sees an instance as laid out like those of `kind`
    bases = (first, *mixin.__mro__[:-1], kind)  # in full, or some of the mixin's would come after `kind`
    return type(f"Cloud{kind.__name__}", bases, {"decides": decides, "__module__": kind.__module__})


def _is_plain(kind: type) -> bool:
    """Whether a class retries by the SDK's own methods, in the way that we stand in for; others have a mind of their own."""
    homes = (_home(kind, name) for name in _RETRYING)
    known = is_storages(kind) or issubclass(kind, (RetryPolicy, AsyncRetryPolicy))
    return known and all(home is None or home.startswith(_SDKS_OWN) for home in homes)


def _home(kind: type, name: str) -> str | None:
    return next((base.__module__ for base in kind.__mro__ if name in vars(base)), None)


def _retry_policies(thing: object) -> Iterator[Any]:
    """Each once: a client and its children may share them."""
    if isinstance(thing, (RetryPolicy, AsyncRetryPolicy)):
        yield thing
    seen: set[int] = set()
    for pipeline in _pipelines(thing, 0):
        for policy in pipeline._impl_policies:  # noqa: SLF001 - azure-core offers no public way
            if id(policy) not in seen and _is_retrying(policy):
                seen.add(id(policy))
                yield policy


def _is_retrying(policy: object) -> bool:
    """Those that are no RetryPolicy are known by their names alone."""
    if isinstance(policy, (RetryPolicy, AsyncRetryPolicy)):
        return True
    named = any("retry" in base.__name__.lower() for base in type(policy).__mro__)
    return named and isinstance(policy, (HTTPPolicy, AsyncHTTPPolicy))


def _pipelines(thing: object, depth: int) -> Iterator[Any]:
    """The pipelines of a client, which may lie beneath generated clients; a credential's, in its configuration, don't count."""
    if isinstance(thing, (Pipeline, AsyncPipeline)):
        yield thing
    elif depth < _DEEPEST:
        for name, value in list(getattr(thing, "__dict__", {}).items()):
            if name.lower().endswith(_LEADS_TO_A_PIPELINE):
                yield from _pipelines(value, depth + 1)
