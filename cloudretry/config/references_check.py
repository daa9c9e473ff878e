"""Says which secret references can't be resolved here. Never tells, keeps or returns a secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cloudretry.config.place import Place, Problem, dotted
from cloudretry.errors import ConfigurationError
from cloudretry.references import find_references, resolve

if TYPE_CHECKING:
    from cloudretry.config.configuration import Configuration

__all__ = ["unresolved_references"]


def unresolved_references(configuration: Configuration, environ: Mapping[str, str]) -> Iterator[str]:
    """One line for each reference that has nothing behind it; the machine that runs may be another than the one that asks."""
    for provider, entry in configuration.settings.providers.items():
        yield from _missing((provider,), entry.retry.plugin_options, configuration, environ)
        for index, override in enumerate(entry.overrides):
            options = override.changes.get("plugin_options", {})
            yield from _missing((provider, "overrides", index), options, configuration, environ)


def _missing(
    prefix: tuple[str | int, ...], options: Mapping[str, object], configuration: Configuration, environ: Mapping[str, str]
) -> Iterator[str]:
    name = dotted((*prefix, "plugin_options"))
    place = configuration.origins.get(name, Place("configuration"))
    for kind, target in sorted(set(find_references(options))):
        fault = _fault(f"${{{kind}:{target}}}", environ)
        if fault:
            yield str(Problem(place, name, fault))


def _fault(reference: str, environ: Mapping[str, str]) -> str:
    try:
        resolve(reference, environ)
    except ConfigurationError as error:
        return str(error)
    return ""
