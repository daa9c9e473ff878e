"""Finds getDelay() plugins by entry point and builds each once. A plugin that no configuration names is never imported."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from cloudretry.errors import ConfigurationError, PluginNotFound
from cloudretry.references import resolve
from cloudretry.strategies.plugin import Plugin

__all__ = ["GROUP", "build_plugin", "installed_plugins"]

GROUP: Final = "cloudretry.backoff"


def installed_plugins() -> dict[str, EntryPoint]:
    """Every installed plugin by name, without importing any."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def build_plugin(name: str, options: Mapping[str, Any]) -> Plugin:
    """Import a plugin and build it with its options, secrets resolved.

    Raises:
        PluginNotFound: it is not installed.
        ConfigurationError: it can't be imported or built, or it has no getDelay().
    """
    installed = installed_plugins()
    if name not in installed:
        known = ", ".join(installed) or "none"
        raise PluginNotFound(f"plugin {name!r} is not installed; installed: {known}")
    point = installed[name]
    distribution = point.dist.name if point.dist else "unknown distribution"
    where = f"plugin {name!r} ({point.value}, from {distribution})"
    loaded = _load(point, where)
    strategy = _construct(loaded, options, where)
    get_delay = getattr(strategy, "getDelay", None) or getattr(strategy, "get_delay", None)
    if not callable(get_delay):
        raise ConfigurationError(f"{where} has no getDelay(context)")
    return Plugin(name, distribution, get_delay)


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
    except Exception as error:  # whatever a plugin's constructor raises; its text may quote an option, so only the class is told
        given = ", ".join(sorted(options)) or "none"
        raise ConfigurationError(f"{where} refused its plugin_options ({given}): {type(error).__name__}") from error
