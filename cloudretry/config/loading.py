"""The way from layers to a Configuration: find, judge, merge, check; all faults are raised together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from cloudretry.config.checks import plugin_problems, pool_problems, warnings_of
from cloudretry.config.configuration import Configuration
from cloudretry.config.judging import judge
from cloudretry.config.layers import FOUND_NAMES, Found, find_layers
from cloudretry.config.merging import merge
from cloudretry.config.pool_merging import merge_pools, pool_warnings
from cloudretry.config.vocabulary import PROVIDERS
from cloudretry.core.rule import DECIDING
from cloudretry.core.settings import Settings
from cloudretry.errors import ConfigurationError, PluginNotFound

if TYPE_CHECKING:
    from cloudretry.config.place import Problem

__all__ = ["check_file", "load_configuration", "switched_off"]


def load_configuration(
    source: Configuration | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    cwd: str | os.PathLike[str] | None = None,
) -> Configuration:
    """The configuration that holds, mixed from all layers; a Configuration is complete and comes back as it is.

    Raises ConfigurationError with every problem at once (PluginNotFound where nothing but plugins is missing), and MissingExtra
    for a YAML file without PyYAML. `cwd`: the directory whose cloudretry.toml or pyproject.toml is looked at.
    """
    if isinstance(source, Configuration):
        return source
    return _assembled(find_layers(source, environ, cwd))


def switched_off(environ: Mapping[str, str]) -> bool:
    """Whether CLOUDRETRY_DISABLED is set to anything but nothing, 0, false, no or off."""
    return environ.get("CLOUDRETRY_DISABLED", "").strip().lower() not in {"", "0", "false", "no", "off"}


def check_file(path: str | os.PathLike[str]) -> Configuration:
    """What one file says over the built-in entries, other layers left aside. Raises as load_configuration does.

    Warns of what the same file could not say if it were found in the working directory.
    """
    found = Found()
    found.add("argument", os.fspath(path))
    configuration = _assembled(found)
    return replace(configuration, warnings=(*configuration.warnings, *_refused_when_found(path, found)))


def _refused_when_found(path: str | os.PathLike[str], found: Found) -> Iterable[str]:
    """What a file of this name may not say where it is found rather than named."""
    if os.path.basename(path) in FOUND_NAMES:  # noqa: PTH119 - as the file was named
        for layer in found.layers:
            yield from map(str, judge(replace(layer, kind="directory"), found.users_file).problems)


def _assembled(found: Found) -> Configuration:
    judged = [judge(layer, found.users_file) for layer in found.layers]
    merged = {provider: merge(provider, judged) for provider in PROVIDERS}
    pools = merge_pools(judged)
    problems = [*found.problems, *chain.from_iterable(layer.problems for layer in judged)]
    for provider, entry in merged.items():
        problems += [*entry.problems, *plugin_problems(provider, entry, _installed_plugins)]
        problems += pool_problems(provider, entry, pools.known)
    problems += pools.problems
    _raise_for(found.unreadable, problems)
    warnings = chain.from_iterable(warnings_of(provider, entry) for provider, entry in merged.items())
    used = {retry.pool for entry in merged.values() for retry in entry.settings.all_retry_settings()}
    origins = dict(chain(pools.origins.items(), *(entry.origins.items() for entry in merged.values())))
    return Configuration(
        settings=Settings(
            providers={provider: entry.settings for provider, entry in merged.items()},
            pools=pools.settings,
            origins={name: str(place) for name, place in origins.items() if name.rpartition(".")[2] in DECIDING},
        ),
        origins=origins,
        warnings=(*found.warnings, *warnings, *pool_warnings(pools, used)),
        files=tuple(found.files),
    )


def _installed_plugins() -> Iterable[str]:
    """Asked only where a plugin is configured: looking through everything installed takes its time."""
    from cloudretry.strategies.registry import installed_plugins

    return installed_plugins()


def _raise_for(unreadable: Iterable[str], problems: list[Problem]) -> None:
    lines = [*unreadable, *map(str, problems)]
    if lines and len(lines) == sum(problem.missing_plugin for problem in problems):
        raise PluginNotFound(*lines)
    if lines:
        raise ConfigurationError(*lines)
