"""Which page of a listing a call asks for, by botocore's own list of what leads from page to page."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import jmespath  # type: ignore[import-untyped]  # botocore brings it
from botocore.exceptions import DataNotFoundError, UnknownServiceError

from cloudretry.runtime.pages import PAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from botocore.loaders import Loader
    from botocore.model import OperationModel, ServiceModel

    from cloudretry.core.lost import Page

    _Names: TypeAlias = "list[str] | str"

__all__ = ["Paging", "paging_of"]

_PLAIN: Final = re.compile(r"\w+", re.ASCII)


class Paging:
    """How the answers of one operation lead to the next page. Thread-safe; survives pickle, as a call's context must."""

    __slots__ = ("_besides", "_inputs", "_more", "_outputs", "_where")

    def __init__(
        self, inputs: _Names, outputs: _Names, *, more: str | None, besides: Iterable[str], where: tuple[str | int, ...]
    ) -> None:
        """What botocore's list says, with `more`, a member of the answer that says whether there is a next page.

        `besides`: parameters that may differ from page to page; `where`: names the operation and whom it asks.
        """
        self._inputs = (inputs,) if isinstance(inputs, str) else tuple(inputs)
        self._outputs = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        self._more = more
        self._besides = frozenset((*self._inputs, *besides))
        self._where = where

    def page(self, params: Mapping[str, Any]) -> tuple[Page, tuple[str | int, ...]]:
        """The page for which these parameters ask, and of what: a token may be data, such as a key, which others have too."""
        besides = self._besides
        named = [f"{name}={value}" for name, value in params.items() if type(value) is not int and name not in besides]
        of = (*self._where, *sorted(named)) if named else self._where
        return PAGES.page(of, self._token([params.get(name) for name in self._inputs])), of

    def listed(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What is listed: the parameters that all pages have."""
        return {name: value for name, value in params.items() if name not in self._besides}

    def answered(self, page: Page, of: tuple[str | int, ...], parsed: Mapping[str, Any]) -> Page:
        """Remember to which page an answer leads. The page, with whether it leads on."""
        if self._more is not None and not _value(parsed, self._more):
            return page
        return PAGES.answered(of, page, self._token([_value(parsed, name) for name in self._outputs]))

    def _token(self, values: list[Any]) -> str | None:
        """What a program passes to ask for a page: text, or JSON where it is a structure or several."""
        if len(values) == 1 and isinstance(values[0], str):
            return values[0] or None
        given = {name: value for name, value in zip(self._inputs, values, strict=True) if value}
        if not given:
            return None
        try:
            return json.dumps(given, default=str, sort_keys=True)
        except (TypeError, ValueError):  # what botocore will refuse
            return repr(given)


def _value(parsed: Mapping[str, Any], name: str) -> Any:
    """A member of an answer, or what an expression such as `NextMarker || Contents[-1].Key` finds in it."""
    return parsed.get(name) if _PLAIN.fullmatch(name) else jmespath.search(name, parsed)


_Listings: TypeAlias = "dict[str, dict[str, Any]]"
_known: Final[dict[tuple[str, str], _Listings]] = {}


def paging_of(loader: Loader, service: ServiceModel, operation: str, *where: str | int | None) -> Paging | None:
    """How an operation pages; None if it does not. botocore's list is read once for each service.

    `where`: the region and the host that a client asks, and who asks.
    """
    key = service.service_name, service.api_version
    listings = _known.get(key)
    if listings is None:
        listings = _known[key] = _read(loader, *key)
    model = service.operation_model(operation)
    found = listings.get(operation) or _by_names(model)
    if found is None:
        return None
    return Paging(
        found["input_token"],
        found["output_token"],
        more=found.get("more_results"),
        besides=[name for name in (found.get("limit_key"), *model.idempotent_members) if name],
        where=(service.service_name, operation, *(name or "" for name in where)),
    )


_TOKENS: Final = (
    *("NextToken", "nextToken", "NextMarker", "nextMarker", "Marker", "marker"),
    *("NextPageToken", "nextPageToken", "PaginationToken", "paginationToken"),
)


def _by_names(model: OperationModel) -> dict[str, Any] | None:
    """How an operation pages that botocore's list lacks, as that of a fifth of those that page: by a token both ways."""
    asked, answered = (getattr(shape, "members", {}) for shape in (model.input_shape, model.output_shape))
    both = [name for name in _TOKENS if name in asked and name in answered]
    return {"input_token": both[0], "output_token": both[0]} if both else None


def _read(loader: Loader, service: str, version: str) -> _Listings:
    try:
        listings: _Listings = loader.load_service_model(service, "paginators-1", version)["pagination"]
    except (DataNotFoundError, UnknownServiceError):
        return {}
    names = ("input_token", "output_token", "more_results", "limit_key")
    return {operation: {name: each.get(name) for name in names} for operation, each in listings.items()}
