"""JSON Schema of a configuration, for editors. Made from the model; the meanings come from the vocabulary."""

from __future__ import annotations

from typing import Any

from cloudretry.config.vocabulary import SETTINGS, setting_of

__all__ = ["json_schema"]


def json_schema() -> dict[str, Any]:
    """The schema of a whole file; `$schema` is allowed in it, as editors write it."""
    from cloudretry.config.model import schema_of_model

    schema = schema_of_model()
    for definition in schema.get("$defs", {}).values():
        for name, setting in definition.get("properties", {}).items():
            setting.pop("title", None)
            known = SETTINGS.get(setting_of(name))
            if known is not None:
                setting["description"] = f"{known.meaning} Accepted: {known.accepted}." if name in SETTINGS else known.meaning
    schema["properties"]["$schema"] = {"type": "string"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
