"""Finds the action of a REST request by its method, path, query and headers in botocore's service models."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["match_route"]

# signing names under which other models, or several, answer
_MODELS = {
    "apigateway": ("apigateway", "apigatewayv2"),
    "aps": ("amp",),
    "bedrock": ("bedrock", "bedrock-agent", "bedrock-agent-runtime", "bedrock-runtime"),
    "elasticfilesystem": ("efs",),
    "execute-api": ("apigatewaymanagementapi",),
    "s3": ("s3", "s3control"),
    "ses": ("sesv2",),
}
_LABEL = re.compile(r"\{[^}]+\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    action: str
    path: re.Pattern[str]
    query: Mapping[str, str]
    needed_query: frozenset[str]
    needed_headers: frozenset[str]
    weight: tuple[int, int]
    protocol: str

    def fits(self, path: str, parameters: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        return (
            self.path.fullmatch(path) is not None
            and all(name in parameters and value in ("", parameters[name]) for name, value in self.query.items())
            and all(name in parameters for name in self.needed_query)
            and all(name in headers for name in self.needed_headers)
        )


def match_route(
    service: str, method: str, path: str, parameters: Mapping[str, str], headers: Mapping[str, str]
) -> tuple[str, str]:
    """The action and the protocol of a REST request; (the method, "rest-json") where no model knows it.

    `path` is still escaped; `service` is the signing name. Of several operations the most specific wins.
    """
    fitting = (route for route in _routes(service).get(method, ()) if route.fits(path, parameters, headers))
    best = max(fitting, key=lambda route: route.weight, default=None)
    return (best.action, best.protocol) if best else (method, "rest-json")


@cache
def _routes(service: str) -> dict[str, list[_Route]]:
    routes: dict[str, list[_Route]] = {}
    for model in _models(service):
        for method, route in _routes_of(model):
            routes.setdefault(method, []).append(route)
    return routes


def _models(service: str) -> Iterator[dict[str, Any]]:
    from botocore.exceptions import UnknownServiceError
    from botocore.loaders import create_loader

    loader = create_loader()
    for name in _MODELS.get(service, (service,)):
        try:
            model = loader.load_service_model(name, "service-2")
        except UnknownServiceError:
            continue
        if model["metadata"]["protocol"].startswith("rest-"):
            yield model


def _routes_of(model: dict[str, Any]) -> Iterator[tuple[str, _Route]]:
    for action, operation in model["operations"].items():
        if operation.get("deprecated"):
            continue
        path, _, query = operation["http"]["requestUri"].partition("?")
        path = path.rstrip("/")
        pairs = {k: v for k, v in parse_qsl(query, keep_blank_values=True) if k != "x-id"}
        needed = _needed(model, operation)
        yield (
            operation["http"]["method"],
            _Route(
                action=action,
                path=_compile(path),
                query=pairs,
                needed_query=needed["querystring"],
                needed_headers=needed["header"],
                weight=(
                    len(pairs) + len(needed["querystring"]) + len(needed["header"]),
                    len([part for part in path.split("/") if part and not part.startswith("{")]),
                ),
                protocol=model["metadata"]["protocol"],
            ),
        )


def _compile(path: str) -> re.Pattern[str]:
    parts, at = [], 0
    for label in _LABEL.finditer(path):
        parts += [re.escape(path[at : label.start()]), ".+" if label[0].endswith("+}") else "[^/]+"]
        at = label.end()
    return re.compile("".join([*parts, re.escape(path[at:]), "/?"]))


def _needed(model: dict[str, Any], operation: dict[str, Any]) -> dict[str, frozenset[str]]:
    shape = model["shapes"].get(operation.get("input", {}).get("shape"), {})
    members = [shape["members"][name] for name in shape.get("required", ())]
    return {
        place: frozenset(member["locationName"] for member in members if member.get("location") == place)
        for place in ("querystring", "header")
    }
