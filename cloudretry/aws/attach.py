"""Puts hooks on what exists: a client, a resource, a session. Attaching twice is once.

A client is hooked when it is made and never again later: botocore's emitter caches its handler lists, and registering
while other threads use the client can leave a stale list behind. What changes later is the engine behind the hook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from botocore.client import BaseClient
from botocore.session import Session as CoreSession

from cloudretry.aws.hook import ClientHook

if TYPE_CHECKING:
    from cloudretry.runtime.engine import Engine

__all__ = ["attach_client", "attach_session", "core_session", "is_client"]

_HOOK: Final = "_cloudretry"


def is_client(thing: object) -> bool:
    """Whether it is a botocore client."""
    return isinstance(thing, BaseClient)


def core_session(thing: object) -> CoreSession | None:
    """The botocore session of a boto3 or botocore session; None for anything else."""
    inner = getattr(thing, "_session", thing)
    return inner if isinstance(inner, CoreSession) else None


def attach_client(client: BaseClient, engine: Engine, *, account: str | None = None) -> None:
    """Hook a client that no other thread uses yet; one that has a hook gets the new engine."""
    hook = vars(client).get(_HOOK)
    if hook is not None:
        hook.engine = engine
        return
    hook = ClientHook(client, engine, account=account)
    hook.register(client)
    setattr(client, _HOOK, hook)


def attach_session(session: CoreSession, engine: Engine) -> None:
    """Hook every client that the session makes from now on; a session that has a hook gets the new engine."""
    holder = vars(session).get(_HOOK)
    if holder is not None:
        holder.engine = engine
        return
    holder = _SessionHook(engine)
    session.get_component("event_emitter").register("creating-client-class", holder.creating_client_class, unique_id="cloudretry")
    setattr(session, _HOOK, holder)


class _SessionHook:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def creating_client_class(self, base_classes: list[type], **_: Any) -> None:
        """Let the client hook itself when it is made: botocore registers its handler later, and finds the seat taken."""
        holder = self

        class Hooked:
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                attach_client(self, holder.engine)  # type: ignore[arg-type]  # a base of every client class

        base_classes.insert(0, Hooked)
