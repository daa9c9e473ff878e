"""YAML to plain data with places, from PyYAML's nodes (extra `yaml`). Safe tags alone; an alias counts in full."""

from __future__ import annotations

from typing import Any, Final

from cloudretry.config.documents import Document
from cloudretry.config.place import KeyPath, Place, Problem, dotted, printable
from cloudretry.errors import ConfigurationError, MissingExtra

__all__ = ["read_yaml"]

_MOST_NODES: Final = 20_000
_DEEPEST: Final = 64
_COLLECTIONS: Final = {"mapping": "tag:yaml.org,2002:map", "sequence": "tag:yaml.org,2002:seq"}


def read_yaml(text: str, source: str) -> Document:
    """A YAML document. Raises ConfigurationError, or MissingExtra where PyYAML is not installed."""
    try:
        import yaml
    except ImportError:
        raise MissingExtra("yaml") from None
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        reader = _Nodes(loader, source)
        data = reader.value(node, ()) if node is not None else {}
    except yaml.YAMLError as error:
        raise ConfigurationError(str(_yaml_problem(error, source))) from None
    except RecursionError:
        raise ConfigurationError(str(Problem(Place(source), "", "nested too deeply"))) from None
    finally:
        if loader is not None:
            loader.dispose()
    if reader.repeats:
        raise ConfigurationError(*map(str, reader.repeats))
    return Document(source, data, reader.places)


class _Nodes:
    """Walks the nodes of one document, as far as they are plain data."""

    def __init__(self, loader: Any, source: str) -> None:
        self.places: dict[KeyPath, Place] = {}
        self.repeats: list[Problem] = []
        self._loader = loader
        self._source = source
        self._seen = 0

    def value(self, node: Any, path: KeyPath) -> Any:
        self._seen += 1
        if self._seen > _MOST_NODES or len(path) > _DEEPEST:
            raise self._refused(node, path, "more values, or nested deeper, than any configuration is (aliases count in full)")
        if node.id in _COLLECTIONS and node.tag != _COLLECTIONS[node.id]:
            raise self._refused(node, path, f"the tag {printable(node.tag)} is not read")
        if node.id == "mapping":
            return self._mapping(node, path)
        if node.id == "sequence":
            return self._sequence(node, path)
        try:
            return self._loader.construct_object(node)
        except (ValueError, OverflowError, LookupError, TypeError, AttributeError):  # 2001-99-99 looks like a date
            raise self._refused(node, path, "not a value that YAML can read; put text in quotes") from None

    def _mapping(self, node: Any, path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        firsts: dict[str, Place] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            here, place = (*path, key), self._place(key_node)
            if key in firsts:
                self.repeats.append(Problem(place, dotted(here), f"is there twice; first at {firsts[key]}"))
            firsts.setdefault(key, place)
            self.places.setdefault(here, place)
            data[key] = self.value(value_node, here)
        return data

    def _key(self, node: Any, path: KeyPath) -> str:
        if node.id != "scalar" or node.tag != "tag:yaml.org,2002:str":
            raise self._refused(node, path, "a key that is not text (merge keys are not read); put it in quotes")
        return str(node.value)

    def _sequence(self, node: Any, path: KeyPath) -> list[Any]:
        for index, item in enumerate(node.value):
            self.places.setdefault((*path, index), self._place(item))
        return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]

    def _place(self, node: Any) -> Place:
        return Place(self._source, node.start_mark.line + 1, node.start_mark.column + 1)

    def _refused(self, node: Any, path: KeyPath, text: str) -> ConfigurationError:
        return ConfigurationError(str(Problem(self._place(node), dotted(path), text)))


def _yaml_problem(error: Any, source: str) -> Problem:
    """Only PyYAML's sentence: its full text quotes the line, which may hold a secret."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = Place(source) if mark is None else Place(source, mark.line + 1, mark.column + 1)
    sentence = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
    return Problem(place, "", f"not YAML: {printable(str(sentence))}")
