"""Finds the layers of a configuration, highest first: argument, variables, the user's file, the working directory's file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Union

from cloudretry.config.documents import LARGEST_FILE, Document, read_file
from cloudretry.config.environment import misspelt_variables, read_environment
from cloudretry.config.place import Place, Problem, dotted, printable
from cloudretry.errors import ConfigurationError

__all__ = ["FOUND_NAMES", "Found", "Layer", "Source", "find_layers"]

Source = Union[Mapping[str, Any], str, "os.PathLike[str]"]

_VARIABLE: Final = "CLOUDRETRY_CONFIG"
_USER_FILES: Final = ("config.toml", "config.json", "config.yaml")
_DIRECTORY_FILE: Final = "cloudretry.toml"
_PROJECT_FILE: Final = "pyproject.toml"
FOUND_NAMES: Final = (_DIRECTORY_FILE, _PROJECT_FILE)
"""What is looked for in the working directory."""

_PROJECT_TABLE: Final = ("tool", "cloudretry")
_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class Layer:
    """One source of settings."""

    kind: Literal["argument", "environment", "user", "directory"]
    document: Document


@dataclass(slots=True)
class Found:
    """What there is: `files` as they were read, `users_file` where the user's own settings are or would be."""

    layers: list[Layer] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    users_file: str = "~/.config/cloudretry/config.toml"

    def add(self, kind: Literal["argument", "user", "directory"], path: str) -> None:
        """Read a file as a layer; what is wrong with it is kept, so that the other layers are judged too."""
        self.files.append(path)
        try:
            document = _named_file(path)
        except ConfigurationError as error:
            self.unreadable.extend(error.problems)
        else:
            self.layers.append(Layer(kind, document))


def find_layers(source: Source | None, environ: Mapping[str, str], cwd: str | os.PathLike[str] | None) -> Found:
    """All layers above the built-in one, highest first."""
    found = Found(warnings=misspelt_variables(environ))
    directory = _directory(cwd)
    if isinstance(source, Mapping):
        _add_mapping(found, source)
    elif source is not None:
        found.add("argument", _absolute(os.fspath(source), directory))
    variables = read_environment(environ, found.problems)
    if variables is not None:
        found.layers.append(Layer("environment", variables))
    _add_users_file(found, environ, directory)
    if directory is not None:
        _add_directory_file(found, directory)
    return found


def _named_file(path: str) -> Document:
    """A file that somebody named; of a pyproject.toml its table [tool.cloudretry]. Raises ConfigurationError."""
    document = read_file(path)
    if os.path.basename(path) != _PROJECT_FILE:  # noqa: PTH119 - paths stay text: they are shown as they were given
        return document
    table = document.inside(*_PROJECT_TABLE)
    if table is None:
        raise ConfigurationError(str(Problem(Place(document.source), "", "has no table [tool.cloudretry]")))
    return table


def _directory(cwd: str | os.PathLike[str] | None) -> str | None:
    try:
        return os.getcwd() if cwd is None else os.fspath(cwd)  # noqa: PTH109 - as above
    except OSError:  # the working directory was removed
        return None


def _absolute(path: str, directory: str | None) -> str:
    path = os.path.expanduser(path)  # noqa: PTH111 - Path.expanduser raises where there is no home
    return path if directory is None else os.path.join(directory, path)  # noqa: PTH118 - as above


def _add_mapping(found: Found, source: Mapping[Any, Any]) -> None:
    place = Place("argument")
    try:
        found.layers.append(Layer("argument", Document(place.source, _plain(source, ()))))
    except ConfigurationError as error:
        found.unreadable.extend(f"{place}: {problem}" for problem in error.problems)


def _plain(value: Any, path: tuple[str | int, ...]) -> Any:
    """A copy with the types that a file would have."""
    if len(path) > _DEEPEST:
        raise ConfigurationError(f"{dotted(path[:3])}: nested too deeply")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ConfigurationError(f"{dotted(path) or 'the mapping'}: a key that is not text")
        return {str(key): _plain(item, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return [_plain(item, (*path, index)) for index, item in enumerate(value)]
    return value


def _add_users_file(found: Found, environ: Mapping[str, str], directory: str | None) -> None:
    named = environ.get(_VARIABLE, "")
    if named:
        path = _absolute(named, directory)
        found.users_file = f"{printable(path)} ({_VARIABLE})"
        found.add("user", path)
        return
    candidates = list(_user_candidates(environ))
    existing = [path for path in candidates if os.path.isfile(path)]  # noqa: PTH113 - Path.is_file raises on some faults
    _warn_of_misnamed_file(found, candidates)
    if candidates:
        found.users_file = printable((existing or candidates)[0])
    if existing:
        found.add("user", existing[0])
    found.warnings.extend(f"{printable(path)}: not read, because {existing[0]} is there" for path in existing[1:])


def _warn_of_misnamed_file(found: Found, candidates: list[str]) -> None:
    """The working directory's name for the file, in the user's folder, is an easy mistake."""
    for path in candidates[:1]:
        misnamed = os.path.join(os.path.dirname(path), _DIRECTORY_FILE)  # noqa: PTH118, PTH120 - as above
        if os.path.isfile(misnamed):  # noqa: PTH113 - as above
            found.warnings.append(f"{printable(misnamed)}: not read; in this folder the file is called {_USER_FILES[0]}")


def _user_candidates(environ: Mapping[str, str]) -> Iterator[str]:
    """None at all for a process without a home."""
    folder = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(folder):  # noqa: PTH117 - the XDG rule: a relative one is ignored
        home = environ.get("HOME", "")
        if not os.path.isabs(home):  # noqa: PTH117 - a relative one would make somebody's checkout the user's folder
            return
        folder = os.path.join(home, ".config")  # noqa: PTH118 - as above
    for name in _USER_FILES:
        yield os.path.join(folder, "cloudretry", name)  # noqa: PTH118 - as above


def _add_directory_file(found: Found, directory: str) -> None:
    own = os.path.join(directory, _DIRECTORY_FILE)  # noqa: PTH118 - as above
    project = os.path.join(directory, _PROJECT_FILE)  # noqa: PTH118 - as above
    if os.path.isfile(own) and not _is_named(own, found):  # noqa: PTH113 - as above
        found.add("directory", own)
        _warn_of_project_file(found, project)
    elif os.path.isfile(project) and not _is_named(project, found):  # noqa: PTH113 - as above
        _add_project_file(found, project)


def _warn_of_project_file(found: Found, path: str) -> None:
    """Two places for one thing: one of them is silent, so say it."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            is_silent = b"[tool.cloudretry" in file.read(LARGEST_FILE)
    except OSError:
        return
    if is_silent:
        found.warnings.append(f"{printable(path)}: [tool.cloudretry] is not read, because {_DIRECTORY_FILE} is beside it")


def _is_named(path: str, found: Found) -> bool:
    """Whether the user named this very file: then it is the user's, with all rights, and no layer of its own."""
    return any(_same_file(path, other) for other in found.files)


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)  # noqa: PTH121 - as above
    except (OSError, ValueError):
        return False


def _add_project_file(found: Found, path: str) -> None:
    """Most projects have nothing to say to us: a file that doesn't mention the name isn't even parsed."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            mentioned = b"cloudretry" in file.read(LARGEST_FILE)
        table = read_file(path).inside(*_PROJECT_TABLE) if mentioned else None
    except OSError as error:
        found.warnings.append(f"{printable(path)}: not read: {error.strerror}")
    except ConfigurationError as error:
        found.files.append(path)
        found.unreadable.extend(error.problems)
    else:
        if table is not None:
            found.files.append(path)
            found.layers.append(Layer("directory", table))
