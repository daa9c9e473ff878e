"""JSON Schema of a configuration, for editors. Made from the model; the meanings come from the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cloudretry.config.pool_vocabulary import GROUP, MEMBER, POOL, POOLS, RATE, WAYS
from cloudretry.config.vocabulary import ENTRY, Vocabulary

__all__ = ["json_schema"]

_VOCABULARIES: Final[Mapping[str, Vocabulary]] = {
    "Entry": ENTRY,
    "Override": Vocabulary({**ENTRY.settings, "match": RATE.settings["match"]}),
    "Pacing": ENTRY.inside("pacing"),
    "Rate": RATE,
    "Group": GROUP,
    "Pool": POOL,
    "Cooldown": POOL.inside("cooldown"),
    "Probe": POOL.inside("probe"),
    "Slow": POOL.inside("slow"),
    "Member": MEMBER,
}
"""By the name of the model's table."""

_NOTHING: Final = Vocabulary({})


def json_schema() -> dict[str, Any]:
    """The schema of a whole file; `$schema` is allowed in it, as editors write it."""
    from cloudretry.config.model import schema_of_model

    schema = schema_of_model()
    for title, definition in schema.get("$defs", {}).items():
        _describe(definition.get("properties", {}), _VOCABULARIES.get(title, _NOTHING))
    _open_members(schema["$defs"])
    schema["properties"][POOLS].update(additionalProperties=False, description=f"The egress pools, [{POOLS}.NAME].")
    schema["properties"]["$schema"] = {"type": "string"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _describe(properties: Mapping[str, dict[str, Any]], vocabulary: Vocabulary) -> None:
    for name, setting in properties.items():
        setting.pop("title", None)
        if name in vocabulary.tables:
            setting["description"] = f"A table of {', '.join(vocabulary.inside(name).settings)}."
        known = vocabulary.settings.get(vocabulary.setting_of(name))
        if known is not None:
            is_setting = name in vocabulary.settings
            setting["description"] = f"{known.meaning} Accepted: {known.accepted}." if is_setting else known.meaning


def _open_members(definitions: dict[str, Any]) -> None:
    """What the model does before and after it looks at a member: text is a URL, and exactly one kind is there."""
    members = definitions["Pool"]["properties"]["members"]
    members["items"] = {"anyOf": [{"type": "string"}, members["items"]]}
    definitions["Member"]["oneOf"] = [{"required": [way]} for way in WAYS]
