"""What a request is, in the words of a Call. Pure: reads the method and the URL, and nothing of azure-core.

At Azure Resource Manager the service is the resource provider's namespace, and the operation is the method with the type
path, in which `{name}` stands for each name, as in Azure's own reference: `Microsoft.Compute` and `GET virtualMachines`
(all of them), `GET virtualMachines/{name}` (one), `POST virtualMachines/{name}/start`. What Resource Manager answers
itself belongs to `Microsoft.Resources`: `GET resourceGroups`. Anywhere else the service is the host and the operation the
method alone, because paths there are data. A URL may be a link that a server wrote: what becomes of it is printable words.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from cloudretry.core.call import Call
from cloudretry.core.history import printable
from cloudretry.core.replayable import azure_replayable

__all__ = ["call_of"]

_ROOTS: Final = frozenset({"batch", "providers", "subscriptions", "tenants"})
_OF_THE_MANAGER: Final = frozenset({"register", "unregister"})
"""Actions on a provider as a whole, in whose path the place of a type is taken by a verb."""
_SPELLINGS: Final = {"resourcegroups": "resourceGroups"}
"""Types that the SDK itself spells in two ways; Azure takes both."""


def call_of(method: str, url: str, account: str | None = None) -> Call:
    """The Call of one request. Its account is the path's subscription, else `account`; region: where it has `locations/…`."""
    return _call_of(method, url.partition("?")[0], account)


@lru_cache(maxsize=4096)  # pages and polls differ in their queries alone
def _call_of(method: str, address: str, account: str | None) -> Call:
    host, path = _parted(address)
    segments = [segment for segment in path.split("/") if segment]
    if segments and segments[0].lower() in _ROOTS:
        service, types = _resource(segments)
        operation = f"{method} {_type_path(types)}"
    else:
        service, types, operation = _word(host), [], method
    return Call(
        provider="azure",
        service=service,
        operation=operation,
        region=_after("locations", types),
        account=_after("subscriptions", segments[:2]) or account,
        host=host,
        replayable=azure_replayable(service, operation, method=method),
    )


def _parted(address: str) -> tuple[str, str]:
    """Host with its port, and path. Never raises: a URL that is none is for the SDK to refuse."""
    authority, _, path = address.partition("://")[2].partition("/")
    return authority.rpartition("@")[2].lower(), path


def _resource(segments: list[str]) -> tuple[str, list[str]]:
    """Namespace, and types alternating with names; the last provider in a path is the one that answers."""
    for at in range(len(segments) - 3, -1, -1):
        namespace, kind = segments[at + 1], segments[at + 2]
        if segments[at].lower() == "providers" and "." in namespace and kind.lower() not in _OF_THE_MANAGER:
            return _capitalised(namespace), segments[at + 2 :]
    within_a_subscription = segments[0].lower() == "subscriptions" and len(segments) > 2  # noqa: PLR2004 - type, name, more
    return "Microsoft.Resources", segments[2:] if within_a_subscription else segments


def _capitalised(namespace: str) -> str:
    """One spelling for `microsoft.compute` and `Microsoft.Compute`, as the SDKs have both."""
    return _word(".".join(part[:1].upper() + part[1:] for part in namespace.split(".")))


def _type_path(types: list[str]) -> str:
    named = (_SPELLINGS.get(segment.lower(), segment) if at % 2 == 0 else "{name}" for at, segment in enumerate(types))
    return _word("/".join(named))


def _after(kind: str, segments: list[str]) -> str | None:
    """The name that follows a type, in lower case."""
    for name, value in zip(segments[::2], segments[1::2], strict=False):
        if name.lower() == kind:
            return _word(value.lower())
    return None


def _word(text: str) -> str:
    """Printable, and with nothing that looks like a query."""
    return printable(text).replace("?", "_")
