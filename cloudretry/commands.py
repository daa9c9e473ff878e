"""The public commands. May reach every room, and does so lazily: a user of one cloud never imports the other's SDK."""

from __future__ import annotations

import copy
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from cloudretry.config import Configuration, load_configuration, switched_off
from cloudretry.core.history import History
from cloudretry.errors import CloudRetryError, MissingExtra
from cloudretry.launcher.hooks import Hooks
from cloudretry.report import Report
from cloudretry.runtime.engine import Engine
from cloudretry.runtime.watching import Watch

if TYPE_CHECKING:
    import boto3
    from azure.core.pipeline.policies import AsyncRetryPolicy, RetryPolicy
    from botocore.client import BaseClient
    from botocore.config import Config
    from typing_extensions import Self

    from cloudretry.core.events import Listener

__all__ = ["AwsApiCommand", "AzureApiCommand", "attach", "history", "install"]

Source: TypeAlias = "Configuration | Mapping[str, Any] | str | os.PathLike[str] | None"
logger = logging.getLogger("cloudretry")

T = TypeVar("T")
C = TypeVar("C", bound="AwsApiCommand")


def attach(thing: T, *, configuration: Source = None, account: str | None = None, report: Report | None = None) -> T:
    """Put a client, a resource, a session or a pipeline that exists under cloudretry, and return it.

    A session's hook holds for the clients that it makes from now on. Attach a client before other threads use it. Attaching
    twice is once; a configuration or report that is given then holds for calls that begin later. With CLOUDRETRY_DISABLED=1
    nothing happens.

    Args:
        thing: a client, resource or session of boto3, botocore or aiobotocore; or an Azure client, sync or aio, or an
            azure-core pipeline. A retry policy of your own in it goes on deciding; its attempts are then recorded.
        configuration: a Configuration, a mapping, a path, or None for the layers (file, environment, built-in).
        account: the account id, for overrides and reports, where the credentials (for Azure, the URL) don't tell it.
        report: counts what the calls come to; one may serve many clients.

    Raises:
        TypeError: it is none of these.
        ConfigurationError: the configuration is refused, with all its problems.
    """
    if _disabled():
        return thing
    edge = _edge_of(thing)
    edge.attach_any(thing, _engine(edge.engine_of(thing), configuration, report), account=account and f"{account}")
    return thing


def install(configuration: Source = None, *, report: Report | None = None) -> None:
    """Put what the SDKs make in this process from now on under cloudretry, as `cloudretry run` does, and what they have made.

    Call it before other threads use the clients that exist. Called again, what is given holds for what is made later.
    Arguments and errors are those of `attach`.
    """
    if not _disabled():
        Hooks.install(_engine(Hooks.engine_of_process(), configuration, report))


def _engine(known: Engine | None, configuration: Source, report: Report | None) -> Engine:
    """A new engine, or one like that which is known, with what is given."""
    if known is not None and configuration is None:
        return known.varied(None, _told(report))
    found = load_configuration(configuration)
    watch = _watch(configuration, found)
    if known is not None:
        return known.varied(found.settings, _told(report), watch)
    return Engine(found.settings, listeners=_told(report), watch=watch)


def _told(report: Report | None) -> tuple[Listener, ...]:
    return () if report is None else (report, *report.listeners)


def _edge_of(thing: object) -> Any:
    """The `attach` of the cloud that a thing belongs to. Whoever holds one has imported its SDK."""
    if "azure.core" in sys.modules:
        from cloudretry.azure import attach as azure

        if azure.is_attachable(thing):
            return azure
    if "botocore" in sys.modules:
        from cloudretry.aws import attach as aws

        if aws.is_attachable(thing):
            return aws
    raise TypeError(f"attach() takes a client, session or pipeline of boto3, aiobotocore or Azure, not {type(thing).__name__}")


def history(error: BaseException) -> History | None:
    """What happened to the call that ended in this error: attempts, waits, why it ended, `retry_at`.

    None for an error that was not ours. Works on pickled copies too.
    """
    from cloudretry.aws.carry import carried as on_aws
    from cloudretry.azure.carry import carried as on_azure

    raw = on_aws(error) or on_azure(error)
    try:
        return History.from_dict(raw) if isinstance(raw, dict) else None
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return None  # somebody else's data under our name


class AwsApiCommand:
    """Makes real boto3 clients that are retried as configured. Thread-safe; picklable unless given a live session.

    Args:
        session: a boto3 Session, an importable function that makes one, or None for a session of its own. A given session
            is not changed: its other clients stay as they are.
        account: the account id, for overrides and reports, where the credentials don't tell it.
        configuration: a Configuration, a mapping, a path, or None for the layers (file, environment, built-in).
        report: counts what the calls come to; one may serve many commands. A pickled copy counts anew.

    Raises:
        ConfigurationError: the configuration is refused, with all its problems.
        MissingExtra: boto3 is not installed.
    """

    def __init__(
        self,
        session: boto3.Session | Callable[[], boto3.Session] | None = None,
        *,
        account: str | None = None,
        configuration: Source = None,
        report: Report | None = None,
    ) -> None:
        self.account = account and f"{account}"  # whoever has it as a number or a UUID means its text
        self.configuration = _configuration(configuration)
        self.report = report or Report()
        watch = _watch(configuration, self.configuration)
        self._engine = Engine(self.configuration.settings, listeners=[*_told(self.report), *Hooks.listeners()], watch=watch)
        self._given = session
        self._session = self._own_session(session) if session is None or callable(session) else session
        self._clients: dict[tuple[str, str | None], BaseClient] = {}
        self._lock = Lock()

    def client(self, service_name: str, region_name: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """`boto3.Session.client`, with the same arguments; a client of its own for each request of one."""
        return self._made(self._session.client, service_name, region_name, *args, **kwargs)

    def resource(self, service_name: str, region_name: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """`boto3.Session.resource`, with the same arguments."""
        return self._made(self._session.resource, service_name, region_name, *args, **kwargs)

    def execute(self, service_name: str, operation: str, *, region_name: str | None = None, **params: Any) -> dict[str, Any]:
        """One call: `execute("ec2", "describe_instances")`. Its client is kept for this service and region until `close`."""
        answer: dict[str, Any] = getattr(self._kept(service_name, region_name), operation)(**params)
        return answer

    def paginate(
        self, service_name: str, operation: str, *, region_name: str | None = None, **params: Any
    ) -> Iterator[dict[str, Any]]:
        """Every page of an operation, or its one answer where it has no pages. Each page is a call of its own.

        The client is kept as by `execute`; one takes about a megabyte, so close commands of accounts that are done.
        """
        client = self._kept(service_name, region_name)
        call = getattr(client, operation)
        if not client.can_paginate(operation):
            return iter([call(**params)])
        pages: Iterable[dict[str, Any]] = client.get_paginator(operation).paginate(**params)
        return iter(pages)

    def close(self) -> None:
        """Close the connections of the clients that `execute` and `paginate` keep."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def __enter__(self) -> Self:
        """Close with the block what `execute` and `paginate` keep."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._given is not None and not callable(self._given):
            raise CloudRetryError(
                "a command with a live session can't be pickled; give it an importable function that makes one"
            )
        return _rebuild, (self._given, self.account, self.configuration)

    def _own_session(self, factory: Callable[[], boto3.Session] | None) -> boto3.Session:
        """A session that nobody else uses is hooked whole, so that the clients inside its credential providers are too."""
        with _needs("aws", "boto3"):
            from boto3 import Session
        from cloudretry.aws.attach import attach_any

        session = (factory or Session)()
        if not _disabled():
            attach_any(session, self._engine, account=self.account)
        return session

    def _kept(self, service_name: str, region_name: str | None) -> Any:
        with self._lock:
            key = (service_name, region_name)
            if key not in self._clients:
                self._clients[key] = self.client(service_name, region_name)
            return self._clients[key]

    def _made(self, make: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        from cloudretry.aws.attach import attach_any

        if kwargs.get("config") is not None:
            kwargs["config"] = _copied(kwargs["config"])
        made = make(*args, **kwargs)
        if not _disabled():
            attach_any(made, self._engine, account=self.account)
        return made


class AzureApiCommand:
    """Makes real Azure clients, sync or aio, that are retried as configured. Thread-safe.

    Picklable where the credential is given as an importable function.

    Args:
        credential: a credential of azure-identity or like it, for aio clients an aio one; or an importable function that
            makes one, such as the class DefaultAzureCredential itself; or None where each client is given its own.
        subscription_id: for the clients that have such a parameter.
        configuration: a Configuration, a mapping, a path, or None for the layers (file, environment, built-in).
        report: counts what the calls come to; one may serve many commands. A pickled copy counts anew.

    Raises:
        ConfigurationError: the configuration is refused, with all its problems.
        MissingExtra: azure-core is not installed.
    """

    def __init__(
        self,
        credential: Any = None,
        subscription_id: str | None = None,
        *,
        configuration: Source = None,
        report: Report | None = None,
    ) -> None:
        with _needs("azure", "azure"):
            import azure.core  # noqa: F401 - to say so at once if it is missing
        self.subscription_id = subscription_id
        self.configuration = _configuration(configuration)
        self.report = report or Report()
        watch = _watch(configuration, self.configuration)
        self._engine = Engine(self.configuration.settings, listeners=[*_told(self.report), *Hooks.listeners()], watch=watch)
        self._given = credential
        self._credential = credential() if callable(credential) else credential
        self._clients: dict[type, Any] = {}
        self._lock = Lock()

    def client(self, client_class: type[T], *args: Any, **kwargs: Any) -> T:
        """A client, made with the arguments that its class takes; credential and subscription are filled in."""
        from cloudretry.azure.clients import make
        from cloudretry.azure.credentials import shared

        engine = None if _disabled() else self._engine
        kwargs = {"credential": self._credential, "subscription_id": self.subscription_id, **kwargs}
        if engine is not None:
            args = tuple(shared(argument, engine) for argument in args)
            kwargs["credential"] = shared(kwargs["credential"], engine)
        return make(client_class, engine, *args, **kwargs)

    def policy(self, **options: Any) -> RetryPolicy[Any, Any]:
        """A retry policy for one sync azure-core client: `retry_policy=az.policy()`. Each client needs its own."""
        from azure.core.pipeline.policies import RetryPolicy

        from cloudretry.azure.policy import CloudRetryPolicy

        return RetryPolicy(**options) if _disabled() else CloudRetryPolicy(engine=self._engine, **options)

    def async_policy(self, **options: Any) -> AsyncRetryPolicy[Any, Any]:
        """The same for one aio client."""
        from azure.core.pipeline.policies import AsyncRetryPolicy

        from cloudretry.azure.policy import AsyncCloudRetryPolicy

        return AsyncRetryPolicy(**options) if _disabled() else AsyncCloudRetryPolicy(engine=self._engine, **options)

    def execute(self, client_class: type[Any], operation: str, *args: Any, **params: Any) -> Any:
        """What an operation of a kept client gives: `execute(ResourceManagementClient, "resource_groups.get", "one")`.

        That is the model, an iterator over all pages, a poller; of an aio client whatever its method returns.
        """
        return attrgetter(operation)(self._kept(client_class))(*args, **params)

    def close(self) -> None:
        """Close the sync clients that `execute` keeps; aio ones are closed by `aclose`."""
        for client in self._forgotten(aio=False):
            client.close()

    async def aclose(self) -> None:
        """Close all clients that `execute` keeps."""
        self.close()
        for client in self._forgotten(aio=True):
            await client.close()

    def __enter__(self) -> Self:
        """Close with the block what `execute` keeps."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        """Close with the block what `execute` keeps, aio clients too."""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._given is not None and not callable(self._given):
            raise CloudRetryError(
                "a command with a live credential can't be pickled; give it an importable function that makes one"
            )
        return _rebuild_azure, (self._given, self.subscription_id, self.configuration)

    def _kept(self, client_class: type[Any]) -> Any:
        with self._lock:
            if client_class not in self._clients:
                self._clients[client_class] = self.client(client_class)
            return self._clients[client_class]

    def _forgotten(self, *, aio: bool) -> list[Any]:
        from cloudretry.azure.clients import is_async

        with self._lock:
            return [self._clients.pop(kind) for kind in list(self._clients) if is_async(kind) is aio]


def _copied(config: Config) -> Config:
    """A copy whose retries botocore may change: it rewrites the caller's own mapping otherwise."""
    twin = copy.copy(config)
    if getattr(twin, "retries", None):
        twin.retries = dict(twin.retries)  # type: ignore[attr-defined]  # Config's options are set by name
    return twin


def _rebuild(session: Any, account: str | None, configuration: Configuration) -> AwsApiCommand:
    return AwsApiCommand(session, account=account, configuration=configuration)


@contextmanager
def _needs(extra: str, package: str) -> Iterator[None]:
    """Turn the absence of a package into MissingExtra; a package that is there and broken says so itself."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingExtra(extra) from None


def _rebuild_azure(credential: Any, subscription_id: str | None, configuration: Configuration) -> AzureApiCommand:
    return AzureApiCommand(credential, subscription_id, configuration=configuration)


def _configuration(source: Source) -> Configuration:
    """What holds; with the kill switch on, the built-in entries, so that a broken configuration is out of the way too."""
    return load_configuration(environ={}, cwd=os.devnull) if _disabled() else load_configuration(source)


def _watch(source: Source, found: Configuration) -> Watch | None:
    """Looks after the files that were read; a Configuration that is given as such stays what it is."""
    if not found.files or isinstance(source, Configuration):
        return None
    if isinstance(source, str | os.PathLike):
        source = os.path.abspath(source)  # noqa: PTH100 - as load_configuration takes it; the program may change its directory
    return Watch(found, partial(load_configuration, source, cwd=os.getcwd()))  # noqa: PTH109 - as above


def _disabled() -> bool:
    """The kill switch, looked at whenever something is about to be hooked; one warning says that it is on."""
    if not switched_off(os.environ):
        return False
    if not _warned:
        _warned.append(True)
        logger.warning("CLOUDRETRY_DISABLED is set: calls are neither retried nor counted by cloudretry")
    return True


_warned: list[bool] = []
