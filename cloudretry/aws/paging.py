"""Which page of a listing a call asks for, by botocore's own list of what leads from page to page."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import jmespath  # type: ignore[import-untyped]  # botocore brings it
from botocore.exceptions import DataNotFoundError, UnknownServiceError

from cloudretry.runtime.pages import PAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    from cloudretry.core.lost import Page

    _Names: TypeAlias = "list[str] | str"

__all__ = ["Paging", "paging_of"]

_PLAIN: Final = re.compile(r"\w+", re.ASCII)


class Paging:
    """How the answers of one operation lead to the next page. Thread-safe; survives pickle, as a call's context must."""

    __slots__ = ("_inputs", "_outputs", "_region")

    def __init__(self, inputs: _Names, outputs: _Names, region: str) -> None:
        self._inputs = (inputs,) if isinstance(inputs, str) else tuple(inputs)
        self._outputs = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        self._region = region

    def page(self, params: Mapping[str, Any]) -> Page:
        """The page for which these parameters ask."""
        return PAGES.page(self._of, self._token([params.get(name) for name in self._inputs]))

    def answered(self, page: Page, parsed: Mapping[str, Any]) -> None:
        """Remember to which page an answer leads."""
        if page.number is not None:
            PAGES.answered(self._of, page, self._token([_value(parsed, name) for name in self._outputs]))

    @property
    def _of(self) -> tuple[str, ...]:
        """Tokens of all operations that go by the same name are told apart by themselves."""
        return (self._region, *self._inputs)

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


def paging_of(loader: Loader, service: ServiceModel, operation: str, region: str | None) -> Paging | None:
    """How an operation pages; None if it does not. botocore's list is read once for each service."""
    key = service.service_name, service.api_version
    listings = _known.get(key)
    if listings is None:
        listings = _known[key] = _read(loader, *key)
    found = listings.get(operation)
    return None if found is None else Paging(found["input_token"], found["output_token"], region or "")


def _read(loader: Loader, service: str, version: str) -> _Listings:
    try:
        listings: _Listings = loader.load_service_model(service, "paginators-1", version)["pagination"]
    except (DataNotFoundError, UnknownServiceError):
        return {}
    names = ("input_token", "output_token")
    return {operation: {name: each[name] for name in names} for operation, each in listings.items()}
