"""Finds getDelay() plugins by entry point and builds each once. A plugin that no configuration names is never imported."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from cloudretry.errors import ConfigurationError, PluginNotFound
from cloudretry.references import find_references, resolve
from cloudretry.strategies.plugin import Plugin, get_delay_of

__all__ = ["GROUP", "build_plugin", "distribution_of", "installed_plugins"]

GROUP: Final = "cloudretry.backoff"


def installed_plugins() -> dict[str, EntryPoint]:
    """Every installed plugin by name, without importing any."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def distribution_of(point: EntryPoint) -> str:
    """The name of the installed package that offers an entry point."""
    return point.dist.name if point.dist else "unknown distribution"


def build_plugin(name: str, options: Mapping[str, Any]) -> Plugin:
    """Import a plugin and build it with its options, secrets resolved.

    Raises:
        PluginNotFound: it is not installed.
        ConfigurationError: it can't be imported or built, it has no getDelay(), or two distributions offer its name.
    """
    point = _find(name)
    distribution = distribution_of(point)
    where = f"plugin {name!r} ({point.value}, from {distribution})"
    loaded = _load(point, where)
    get_delay = get_delay_of(_construct(loaded, options, where))
    if get_delay is None:
        raise ConfigurationError(f"{where} has no getDelay(context)")
    return Plugin(name, distribution, get_delay)


def _find(name: str) -> EntryPoint:
    points = sorted(entry_points(group=GROUP, name=name), key=distribution_of)
    if not points:
        known = ", ".join(installed_plugins()) or "none"
        raise PluginNotFound(f"plugin {name!r} is not installed; installed: {known}")
    if len(points) > 1:
        offered = " and ".join(map(distribution_of, points))
        raise ConfigurationError(f"plugin {name!r} is offered by {offered}; uninstall all but one")
    return points[0]


def _load(point: EntryPoint, where: str) -> object:
    try:
        loaded: object = point.load()
    except Exception as error:  # whatever a plugin's import raises
        raise ConfigurationError(f"{where} can't be imported: {type(error).__name__}: {error}") from error
    return loaded


def _construct(loaded: object, options: Mapping[str, Any], where: str) -> object:
    if not inspect.isclass(loaded):
        if options:
            raise ConfigurationError(f"{where} is an object, not a class, and takes no plugin_options")
        return loaded
    secrets_resolved = resolve(options)
    try:
        return loaded(**secrets_resolved)
    except Exception as error:  # noqa: BLE001 - whatever a plugin's constructor raises
        given = ", ".join(sorted(options)) or "none"
        # Its text may quote an option, so only the class is told; a traceback may not show it either if options hold secrets.
        cause = None if any(find_references(options)) else error
        raise ConfigurationError(f"{where} refused its plugin_options ({given}): {type(error).__name__}") from cause
