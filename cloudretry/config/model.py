"""What an entry may look like, for pydantic: this, model_types and pool_model are the only modules that import it.

An entry of one layer is a dictionary of what that layer sets, so the models are TypedDicts: what is not written is not there.
Values come out as the core wants them (durations in seconds), keys as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, TypeAdapter, ValidationError, WithJsonSchema
from typing_extensions import Required, TypedDict

from cloudretry.config.model_types import STRICT, Duration, Match, Milliseconds, PoolName, Positive
from cloudretry.config.pool_model import Pool  # noqa: TC001 - pydantic reads the annotations
from cloudretry.config.vocabulary import MOST_RETRIES
from cloudretry.core.headers import ERROR_TEXT, Unit
from cloudretry.core.settings import THROTTLING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["read_model", "schema_of_model"]

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,127}", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", re.ASCII)
_LOWEST_STATUS, _HIGHEST_STATUS = 400, 599
_UNITS: Final = tuple(unit.value for unit in Unit)


def _read_code(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and _LOWEST_STATUS <= value <= _HIGHEST_STATUS:
        return value
    if isinstance(value, str) and _CODE.fullmatch(value):
        return value
    raise ValueError("not a code")


def _read_header(value: object) -> tuple[str, Unit | None]:
    """(lower-case name, unit or None where the item does not say)."""
    if isinstance(value, str):
        return _header_name(value), None
    if isinstance(value, dict) and value.keys() == {"name", "unit"} and value["unit"] in _UNITS:
        return _header_name(value["name"]), Unit(value["unit"])
    raise ValueError("not a header")


def _header_name(value: object) -> str:
    if isinstance(value, str) and (_HEADER.fullmatch(value) or value == ERROR_TEXT):
        return value.lower()
    raise ValueError("not a header's name")


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str | dict) else value


def _canonical(strategy: str) -> str:
    return "custom" if strategy == "user_defined" else strategy


_CODE_SCHEMA: Final = {
    "anyOf": [
        {"type": "integer", "minimum": _LOWEST_STATUS, "maximum": _HIGHEST_STATUS},
        {"const": THROTTLING},
        {"type": "string", "pattern": f"^{_CODE.pattern}$"},
    ]
}
_NAME_SCHEMA: Final = {"type": "string", "pattern": f"^({_HEADER.pattern}|{ERROR_TEXT})$"}
_HEADER_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        _NAME_SCHEMA,
        {
            "type": "object",
            "properties": {"name": _NAME_SCHEMA, "unit": {"enum": list(_UNITS)}},
            "required": ["name", "unit"],
            "additionalProperties": False,
        },
    ]
}

Preset = Literal["builtin", "example", "azure-core"]
Mode = Literal["enforce", "observe"]
UnitName = Literal["milliseconds", "seconds", "minutes", "hh:mm:ss"]
Strategy = Annotated[Literal["response_header", "exponential", "custom", "user_defined"], AfterValidator(_canonical)]
Count = Annotated[int, Field(ge=0, le=MOST_RETRIES)]
Code = Annotated[int | str, PlainValidator(_read_code), WithJsonSchema(_CODE_SCHEMA)]
Codes = Annotated[list[Code], Field(min_length=1, max_length=1000)]
Header = Annotated[Any, PlainValidator(_read_header), WithJsonSchema(_HEADER_SCHEMA)]
HeaderList = Annotated[list[Header], Field(min_length=1, max_length=32)]
Headers = Annotated[
    HeaderList,
    BeforeValidator(_as_list),
    WithJsonSchema(
        {"anyOf": [*_HEADER_SCHEMA["anyOf"], {"type": "array", "items": _HEADER_SCHEMA, "minItems": 1, "maxItems": 32}]}
    ),
]
PoolChoice = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,64}$")]
GroupName = Annotated[str, Field(pattern=r"^([A-Za-z0-9._:/-]|\{operation\})([A-Za-z0-9 ._:/-]|\{operation\}){0,127}$")]
PluginName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]


class Changes(TypedDict, total=False):
    """What an entry and an override may set."""

    __pydantic_config__ = STRICT  # type: ignore[misc]  # pydantic's own way to configure a TypedDict
    strategy: Strategy
    max_retries: Count
    response_codes: Codes
    base_delay: Duration
    base_delay_ms: Milliseconds
    max_delay: Duration
    max_delay_ms: Milliseconds
    additional_delay_window: Duration
    additional_delay_window_ms: Milliseconds
    response_header: Headers
    response_header_delay_unit: UnitName
    max_header_delay: Duration
    max_header_delay_ms: Milliseconds
    plugin: PluginName
    plugin_options: dict[str, Any]
    time_budget: Duration
    time_budget_ms: Milliseconds
    transient_errors: bool
    transient_retries: Count
    pool: PoolChoice


class Override(Changes, total=False):
    """Settings for the calls that match."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    match: Required[Annotated[Match, Field(min_length=1)]]


class Rate(TypedDict, total=False):
    """A limit that is known beforehand."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    match: Required[Annotated[Match, Field(min_length=1)]]
    rate: Required[Positive]
    burst: Annotated[float, Field(ge=1, le=1_000_000)]


class Group(TypedDict, total=False):
    """Calls that are metered together."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    match: Required[Annotated[Match, Field(min_length=1)]]
    name: Required[GroupName]
    everywhere: bool


class Pacing(TypedDict, total=False):
    """How calls wait for their turns."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    mode: Literal["adaptive", "off"]
    reserve: Annotated[float, Field(ge=0, le=0.9)]
    max_rate: Positive
    max_in_flight: Annotated[int, Field(ge=1, le=1_000_000)]
    rates: Annotated[list[Rate], Field(max_length=1000)]
    groups: Annotated[list[Group], Field(max_length=1000)]
    queue_timeout: Duration
    queue_timeout_ms: Milliseconds
    remember: bool


class Entry(Changes, total=False):
    """One provider's entry."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    preset: Preset
    mode: Mode
    pacing: Pacing
    overrides: Annotated[list[Override], Field(max_length=1000)]


class Configuration(TypedDict, total=False):
    """A configuration of cloudretry."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    aws: Entry
    azure: Entry
    pools: Annotated[dict[PoolName, Pool], Field(max_length=1000)]


_DOCUMENT: Final = TypeAdapter(Configuration)


def read_model(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[ErrorDetails]]:
    """What a layer sets, and every fault in it; with faults nothing is set."""
    try:
        return _DOCUMENT.validate_python(data), []
    except ValidationError as error:
        return {}, error.errors(include_url=False, include_context=False)


def schema_of_model() -> dict[str, Any]:
    """The JSON Schema of a whole file."""
    return _DOCUMENT.json_schema()
