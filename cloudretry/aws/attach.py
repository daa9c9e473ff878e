"""Puts hooks on what exists: a client, a resource, a session. Attaching twice is once.

A client is hooked when it is made and never again later: botocore's emitter caches its handler lists, and registering
while other threads use the client can leave a stale list behind. What changes later is the engine behind the hook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from botocore.client import BaseClient
from botocore.session import Session as CoreSession

from cloudretry.aws.hook import ClientHook
from cloudretry.core.settings import for_credentials
from cloudretry.runtime.callers import is_called_by

if TYPE_CHECKING:
    from cloudretry.runtime.engine import Engine

__all__ = ["attach_any", "attach_made", "engine_of", "is_attachable"]

_HOOK: Final = "_cloudretry"


def client_of(thing: object) -> BaseClient | None:
    """The client itself, or the one beneath a boto3 resource; None for anything else."""
    for candidate in (thing, getattr(getattr(thing, "meta", None), "client", None)):
        if isinstance(candidate, BaseClient):
            return candidate
    return None


def core_session(thing: object) -> CoreSession | None:
    """The botocore session of a boto3 or botocore session; None for anything else."""
    inner = getattr(thing, "_session", thing)
    return inner if isinstance(inner, CoreSession) else None


def is_attachable(thing: object) -> bool:
    """Whether a thing is a client, a resource or a session."""
    return client_of(thing) is not None or core_session(thing) is not None


def engine_of(thing: object) -> Engine | None:
    """The engine behind a client's, resource's or session's hook; None if it has none."""
    target = client_of(thing) or core_session(thing)
    hook = None if target is None else vars(target).get(_HOOK)
    return None if hook is None else hook.engine


def attach_any(thing: object, engine: Engine, *, account: str | None = None) -> None:
    """Hook a client that no other thread uses yet, or all clients that a session makes from now on.

    What has a hook gets the new engine. Raises TypeError for anything but a client, resource or session.
    """
    target = client_of(thing) or core_session(thing)
    if target is None:
        raise TypeError(f"attach() takes a client, resource or session of boto3 or aiobotocore, not {type(thing).__name__}")
    hook = vars(target).get(_HOOK)
    if hook is not None:
        hook.renew(engine, account)
    elif isinstance(target, BaseClient):
        setattr(target, _HOOK, _hook_for(target).on(target, engine, account=account))
    else:
        setattr(target, _HOOK, _SessionHook.on(target, engine, account=account))


class _SessionHook:
    def __init__(self, engine: Engine, account: str | None) -> None:
        self.engine = engine
        self.account = account

    @classmethod
    def on(cls, session: CoreSession, engine: Engine, *, account: str | None) -> _SessionHook:
        hook = cls(engine, account)
        events = session.get_component("event_emitter")
        events.register("creating-client-class", hook.creating_client_class, unique_id="cloudretry")
        return hook

    def renew(self, engine: Engine, account: str | None) -> None:
        """Let another engine, and another account if one is named, hold for clients that are made later."""
        self.engine = engine
        self.account = account or self.account

    def creating_client_class(self, base_classes: list[type], **_: Any) -> None:
        """Let the client hook itself when it is made: botocore registers its handler later, and finds the seat taken."""
        holder = self

        class Hooked:
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                holder.attach(self)

        base_classes.insert(0, Hooked)

    def attach(self, client: Any) -> None:
        attach_made(client, self.engine, account=self.account)


def attach_made(client: Any, engine: Engine, *, account: str | None = None) -> None:
    """Hook a client that botocore makes now. One that is made in order to fetch credentials is bounded, and has no account."""
    bounds = for_credentials if _is_for_credentials() else None
    setattr(client, _HOOK, _hook_for(client).on(client, engine, account=None if bounds else account, bounds=bounds))


def _hook_for(client: BaseClient) -> type[ClientHook]:
    """The hook of a client's kind: a program without aiobotocore does not import what that takes."""
    if all(cls.__module__ != "aiobotocore.client" for cls in type(client).__mro__):
        return ClientHook
    from cloudretry.aws.aio_hook import AioClientHook

    return AioClientHook


_CREDENTIAL_MODULES: Final = frozenset(
    {"botocore.credentials", "botocore.tokens", "aiobotocore.credentials", "aiobotocore.tokens"}
)
_DEEPEST_FRAME: Final = 40


def _is_for_credentials() -> bool:
    """Whether botocore makes the client now in order to fetch credentials: nothing in the client itself tells."""
    return is_called_by(_CREDENTIAL_MODULES.__contains__, deepest=_DEEPEST_FRAME)
