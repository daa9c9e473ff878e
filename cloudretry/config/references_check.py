"""Says which references to secrets and files lead nowhere on this machine. Never tells, keeps or returns a secret."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cloudretry.config.place import Place, Problem, dotted
from cloudretry.config.pool_vocabulary import POOLS
from cloudretry.errors import ConfigurationError
from cloudretry.references import find_references, resolve

if TYPE_CHECKING:
    from cloudretry.config.configuration import Configuration

__all__ = ["unresolved_references"]


def unresolved_references(configuration: Configuration, environ: Mapping[str, str]) -> Iterator[str]:
    """One line for each one with nothing behind it; the machine that runs may be another than the one that asks."""
    for provider, entry in configuration.settings.providers.items():
        yield from _missing((provider,), entry.retry.plugin_options, configuration, environ)
        for index, override in enumerate(entry.overrides):
            options = override.changes.get("plugin_options", {})
            yield from _missing((provider, "overrides", index), options, configuration, environ)
    for name, pool in configuration.settings.pools.items():
        for index, member in enumerate(pool.members):
            yield from _missing_in((POOLS, name, "members", index), member.url, configuration, environ)
        if pool.ca_bundle is not None:
            yield from _unusable_bundle((POOLS, name, "ca_bundle"), pool.ca_bundle, configuration)


def _missing(
    prefix: tuple[str | int, ...], options: Mapping[str, object], configuration: Configuration, environ: Mapping[str, str]
) -> Iterator[str]:
    yield from _missing_in((*prefix, "plugin_options"), options, configuration, environ)


def _missing_in(
    path: tuple[str | int, ...], value: object, configuration: Configuration, environ: Mapping[str, str]
) -> Iterator[str]:
    name = dotted(path)
    place = configuration.origins.get(name, Place("configuration"))
    for kind, target in sorted(set(find_references(value))):
        fault = _fault(f"${{{kind}:{target}}}", environ)
        if fault:
            yield str(Problem(place, name, fault))


def _unusable_bundle(path: tuple[str | int, ...], bundle: str, configuration: Configuration) -> Iterator[str]:
    name = dotted(path)
    try:
        if not os.path.isdir(bundle):  # noqa: PTH112 - paths stay text
            ssl.create_default_context().load_verify_locations(cafile=bundle)
    except OSError as error:  # ssl.SSLError too
        text = f"{bundle}: {'no certificates in it' if isinstance(error, ssl.SSLError) else error.strerror}"
        yield str(Problem(configuration.origins.get(name, Place("configuration")), name, text))


def _fault(reference: str, environ: Mapping[str, str]) -> str:
    try:
        resolve(reference, environ)
    except ConfigurationError as error:
        return str(error)
    return ""
