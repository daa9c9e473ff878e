"""Hooks for a whole process: each client or pipeline that an SDK makes is attached when it is made.

The SDKs are not imported here, but waited for. A fault of ours is one line on stderr, and the program goes on without us.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cloudretry.launcher import existing
from cloudretry.launcher.imports import when_imported

if TYPE_CHECKING:
    from types import ModuleType

    from cloudretry.core.events import Listener
    from cloudretry.runtime.engine import Engine

__all__ = ["Hooks", "say"]

_AWS: Final = "cloudretry.aws.attach"
_AZURE: Final = "cloudretry.azure.attach"
_MARK: Final = "_cloudretry"  # a wrapper around ours copies it


class Hooks:
    """The one engine of the process, made when an SDK makes its first client. Thread-safe.

    Args:
        make: makes the engine; what it raises is said, and nothing is hooked then.
        passed_by: called where something is not hooked.
    """

    _process: ClassVar[Hooks | None] = None

    def __init__(self, make: Callable[[], Engine], passed_by: Callable[[], object]) -> None:
        self._make = make
        self._passed_by = passed_by
        self._engine: Engine | None = None
        self._failed = False
        self._said: set[str] = set()
        self._fresh_lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._fresh_lock)

    def _fresh_lock(self) -> None:
        """A forked child has no thread that could give the old one back."""
        self._lock = RLock()

    @classmethod
    def install(cls, engine: Engine) -> None:
        """Hook this process and what is there already, or let another engine hold for what is made later."""
        if cls.begin(lambda: engine) and cls._process is not None:
            cls._process.take_existing()

    @classmethod
    def begin(cls, make: Callable[[], Engine], passed_by: Callable[[], object] = bool) -> bool:
        """Hook this process; `make` is called when there is something to attach. False where it was hooked already."""
        if cls._process is not None:
            cls._process.renew(make)
            return False
        cls._process = Hooks(make, passed_by)
        cls._process.wait()
        return True

    @classmethod
    def engine_of_process(cls) -> Engine | None:
        """The engine of the hooks that are there."""
        return None if cls._process is None else cls._process.engine()

    @classmethod
    def listeners(cls) -> tuple[Listener, ...]:
        """Whoever is told of all calls of this process: what `cloudretry run` counts with, and the report of `install`."""
        engine = cls.engine_of_process()
        return engine.listeners if engine else ()

    def wait(self) -> None:
        """Hook the SDKs that are imported, and the others when they are."""
        when_imported("botocore.client", self._on_botocore)
        when_imported("azure.core.pipeline", self._on_azure)
        when_imported("aiobotocore.client", self._on_aiobotocore)
        when_imported("awscli.botocore.client", self._on_awscli)

    def take_existing(self) -> None:
        """Attach what the SDKs have made before."""
        for client in existing.clients():
            self._attach(_AWS, client)
        ordinary, credentials = existing.pipelines()
        for pipeline in ordinary:
            self._attach(_AZURE, pipeline)
        for pipeline in credentials:
            self._attach(_AZURE, pipeline, "attach_credentials")

    def renew(self, make: Callable[[], Engine]) -> None:
        """Let another engine hold for what is made later."""
        with self._lock:
            self._make, self._engine, self._failed = make, None, False

    def _on_botocore(self, module: ModuleType) -> None:
        """Every session has its clients made there: default ones, resources' and those inside credential providers too."""

        def around(make: Callable[..., Any]) -> Callable[..., Any]:
            def create_client(creator: Any, *args: Any, **kwargs: Any) -> Any:
                client = make(creator, *args, **kwargs)
                self._attach(_AWS, client)
                return client

            return create_client

        _put_around(getattr(module, "ClientCreator", None), "create_client", around)

    def _on_aiobotocore(self, module: ModuleType) -> None:
        """Its creator overrides botocore's."""

        def around(make: Callable[..., Any]) -> Callable[..., Any]:
            async def create_client(creator: Any, *args: Any, **kwargs: Any) -> Any:
                client = await make(creator, *args, **kwargs)
                self._attach(_AWS, client)
                return client

            return create_client

        _put_around(getattr(module, "AioClientCreator", None), "create_client", around)

    @staticmethod
    def _on_awscli(_: ModuleType) -> None:
        """AWS CLI v1 imports the botocore inside it by its plain name; v2 does not, where it is not frozen."""
        if "botocore.client" not in sys.modules:
            say("AWS CLI v2 is not hooked: its clients retry by themselves; v1 is: pip install awscli")

    def _on_azure(self, module: ModuleType) -> None:
        """Every client, and every credential of azure-identity, has pipelines."""

        def around(begin: Callable[..., None]) -> Callable[..., None]:
            def __init__(pipeline: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - stands for one
                begin(pipeline, *args, **kwargs)
                self._attach(_AZURE, pipeline)

            return __init__

        for name in ("Pipeline", "AsyncPipeline"):
            _put_around(getattr(module, name, None), "__init__", around)

    def _attach(self, room: str, made: Any, how: str = "attach_made") -> None:
        try:
            with nullcontext() if room in sys.modules else _nothing_collected():
                engine = self.engine()
                edge = import_module(room) if engine else None
            if engine is None or edge is None:
                return
            known = edge.engine_of(made)
            if known is None:
                getattr(edge, how)(made, engine)
            elif known is not engine:  # the program's own, which decides; we only count
                known.listeners += tuple(each for each in engine.listeners if each not in known.listeners)
        except Exception as error:  # noqa: BLE001 - whatever it is, the program is not to suffer from it
            self._say(f"a {type(made).__name__} is left as it is", error)

    def engine(self) -> Engine | None:
        """Made when it is first asked for; None where that failed."""
        with self._lock:
            if self._engine is None and not self._failed:
                try:
                    self._engine = self._make()
                except Exception as error:  # noqa: BLE001 - as above
                    self._failed = True
                    self._say("this program runs without it", error)
            return self._engine

    def _say(self, text: str, error: Exception) -> None:
        """Once each."""
        with suppress(Exception):
            self._passed_by()
        line = f"{text}: {type(error).__name__}: {error}"
        if line not in self._said:
            self._said.add(line)
            say(line)


def _put_around(owner: Any, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put a method of ours around one of the SDK's, once; nothing, where this SDK has none of that name."""
    inner = getattr(owner, name, None)
    if owner is None or inner is None or hasattr(inner, _MARK):
        return
    outer = wraps(inner)(around(inner))
    setattr(outer, _MARK, True)
    setattr(owner, name, outer)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """While our modules are imported: a pass over all that an SDK has loaded takes as long as they do."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def say(text: str) -> None:
    """One line on stderr, if that can be written to."""
    with suppress(Exception):
        sys.stderr.write(f"cloudretry: {' '.join(text.split())}\n")
