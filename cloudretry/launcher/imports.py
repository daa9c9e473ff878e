"""Calls back when a module has been imported: at once where it has been already, else in the moment when it is.

The module's own loader loads it, and is what the module refers to afterwards: nobody sees that somebody was in between.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

__all__ = ["when_imported"]

Then: TypeAlias = Callable[[ModuleType], None]


def when_imported(name: str, then: Then) -> None:
    """Call `then(module)` once. It must not raise: what it raises is the importing program's."""
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        then(module)
        return
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            finder.waiting[name] = then
            return
    sys.meta_path.insert(0, _Finder({name: then}))


class _Finder:
    """Stands first among the finders, and leaves the finding to the others."""

    def __init__(self, waiting: dict[str, Then]) -> None:
        self.waiting = waiting

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self.waiting:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self.waiting)  # type: ignore[assignment]  # quacks like one
                return spec
        return None


class _Loader:
    def __init__(self, inner: Any, waiting: dict[str, Then]) -> None:
        self._inner = inner
        self._waiting = waiting  # whoever asks for a spec may not load it

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        then = self._waiting.pop(module.__name__, None)
        if then is not None:
            then(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
