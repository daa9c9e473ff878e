"""Who asks for what: a request to Azure as a Call. Pure.

An operation is the method with the type path, in which `{name}` stands for each name: `GET virtualMachines` (all of them),
`GET virtualMachines/{name}` (one). What Resource Manager answers itself belongs to `Microsoft.Resources`; the token
endpoint is `login`, the machine's own one `imds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cloudretry.simcloud.patterns import fits

__all__ = ["PLACE", "Call", "Target", "parse_target"]

PLACE = ("subscription", "principal", "provider", "operation")
"""By what requests are counted."""
TENANT: Final = "tenant"
"""In the place of a subscription, where a request names none."""

_MANAGER: Final = "Microsoft.Resources"
_SPELLINGS: Final = {"resourcegroups": "resourceGroups"}
_OF_THE_MANAGER: Final = frozenset({"register", "unregister"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a path leads to; `types` are types alternating with names, in the provider's namespace."""

    subscription: str
    group: str
    """Lower case; "" outside of any."""
    provider: str
    types: tuple[str, ...]
    operation: str
    path: str

    @property
    def is_action(self) -> bool:
        """Whether the path ends in a type, or in what is done to the resource before it."""
        return len(self.types) % 2 == 1

    @property
    def location(self) -> str:
        """That the path names; otherwise ""."""
        return self.types[1].lower() if self.types[:1] == ("locations",) and len(self.types) > 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request whose caller is known."""

    principal: str
    target: Target

    @property
    def place(self) -> tuple[str, str, str, str]:
        """The values of PLACE."""
        return self.target.subscription or TENANT, self.principal, self.target.provider, self.target.operation

    def fits(self, pattern: str) -> bool:
        """Whether `provider:operation@subscription/principal` matches; patterns of fnmatch, and what is missing is any.

        `Microsoft.Compute`, `Microsoft.Compute:GET virtualMachines*`, `*:GET *@11111111-*`, `login`.
        """
        return fits(self.place, pattern)


@lru_cache(maxsize=16_384)
def parse_target(method: str, path: str) -> Target:
    """The target of a request to Resource Manager; `path` without escapes and query."""
    segments = [segment for segment in path.split("/") if segment]
    provider, types, scope = _resource(segments)
    names = _names(scope)
    return Target(
        subscription=names.get("subscriptions", "").lower(),
        group=names.get("resourcegroups", "").lower(),
        provider=provider,
        types=types,
        operation=f"{method} {_type_path(types)}",
        path="/" + "/".join(_spelled(segments)),
    )


def _resource(segments: list[str]) -> tuple[str, tuple[str, ...], list[str]]:
    """Namespace, types and names, and what stands before; the last provider in a path is the one that answers."""
    for at in range(len(segments) - 3, -1, -1):
        namespace, kind = segments[at + 1], segments[at + 2]
        if segments[at].lower() == "providers" and "." in namespace and kind.lower() not in _OF_THE_MANAGER:
            return _capitalised(namespace), _spelled(segments[at + 2 :]), segments[:at]
    within = len(segments) > 2 and segments[0].lower() == "subscriptions"  # noqa: PLR2004 - type, name, more
    return _MANAGER, _spelled(segments[2:] if within else segments), segments


def _names(scope: list[str]) -> dict[str, str]:
    return {kind.lower(): name for kind, name in zip(scope[::2], scope[1::2], strict=False)}


def _capitalised(namespace: str) -> str:
    return ".".join(part[:1].upper() + part[1:] for part in namespace.split("."))


def _spelled(types: list[str]) -> tuple[str, ...]:
    return tuple(_SPELLINGS.get(part.lower(), part) if at % 2 == 0 else part for at, part in enumerate(types))


def _type_path(types: tuple[str, ...]) -> str:
    return "/".join(part if at % 2 == 0 else "{name}" for at, part in enumerate(types))
