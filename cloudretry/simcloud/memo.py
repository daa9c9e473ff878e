"""Makes moto remember what it otherwise works out anew for every request and every XML element.

Only what follows from classes, models and the installation is kept, so the answers stay moto's own, byte for byte. And
an instance is found without a copy of every reservation, which made a start quadratic.
What another release of moto has not got is left alone: it is then only slower.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["make_moto_remember"]

_MISSING = object()


def make_moto_remember() -> None:
    """Patch moto in this process; once is enough."""
    _replace("botocore.loaders", "JSONFileLoader.load_file", _remember_files)  # first: moto's modules read while they load
    _replace("moto.backends", "list_of_moto_modules", _remember_list)
    _replace("moto.core.responses", "method_names_from_class", cache)
    _replace("moto.core.serialize", "XFormedAttributePicker.__call__", _remember_names)
    _replace("moto.ec2.models.instances", "InstanceBackend.get_instance", _find_without_copies)
    _replace("xmltodict", "_validate_name", lru_cache(maxsize=10_000))


def _replace(module: str, name: str, wrap: Callable[[Any], Any]) -> None:
    owner: Any = import_module(module)
    *outer, last = name.split(".")
    for part in outer:
        owner = getattr(owner, part, None)
    if (original := getattr(owner, last, None)) is not None:
        setattr(owner, last, wrap(original))


def _remember_list(original: Callable[[], Iterable[str]]) -> Callable[[], tuple[str, ...]]:
    found = tuple(original())
    return lambda: found


def _remember_files(original: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Read each service model and the list of endpoints once: moto makes a session, which reads them all, in many places."""
    known: dict[str, Any] = {}

    def load_file(loader: Any, path: str) -> Any:
        if path not in known:
            known[path] = original(loader, path)
        return known[path]

    return load_file


def _find_without_copies(original: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def get_instance(backend: Any, instance_id: str) -> Any:
        for reservation in getattr(backend, "reservations", {}).values():
            for instance in getattr(reservation, "instances", ()):
                if instance.id == instance_id:
                    return instance
        return original(backend, instance_id)

    return get_instance


def _remember_names(_original: object) -> Callable[[Any, Any], Any]:
    """Find attributes by names that follow from the object's class and the place in the model."""
    known: dict[tuple[type, str, Any], tuple[Callable[[Any, str, Any], Any], tuple[str, ...]]] = {}
    transforms: dict[tuple[int, int, str], tuple[Any, Callable[[Any], Any] | None]] = {}

    def pick(picker: Any, context: Any) -> Any:
        thing, question = context.obj, (type(context.obj), context.key, context.shape)
        if question not in known:
            possible = tuple(picker.get_possible_keys(context))
            known[question] = _reader(thing, possible), possible
        read, names = known[question]
        found = None
        for name in names:
            value = read(thing, name, _MISSING)
            if value is not _MISSING:
                found = value
                break
        table, path = picker.response_transformers, f"{context.key_path}.{context.key}"
        place = (id(table), len(table), path)
        if place not in transforms:  # the table is kept too, so that its id stays its own
            transforms[place] = table, next((table[end] for end in table if path.endswith(end)), None)
        transform = transforms[place][1]
        return transform(found) if transform else found

    return pick


def _reader(thing: object, names: tuple[str, ...]) -> Callable[[Any, str, Any], Any]:
    from moto.core.utils import get_value

    plain = not hasattr(thing, "__getitem__") and not any("." in name for name in names)
    return getattr if plain else get_value
