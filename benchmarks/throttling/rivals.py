"""Who is compared: each makes calls as its users do, and each is given the same server and the same number of threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import local
from typing import Any, Final

import boto3
from azure.core import PipelineClient
from azure.core.exceptions import AzureError
from azure.core.pipeline.policies import RetryPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from cloudretry import attach
from cloudretry.core.rate import Limit
from cloudretry.runtime.pacing import PACING

__all__ = ["AWS", "AZURE", "Make", "Rival"]

Make = Callable[[str, Limit], Callable[[int], None]]
"""url, the server's limits → a function that makes one call for the tenant of a number, and raises where the call is lost."""
LOST: Final = (BotoCoreError, ClientError, AzureError)


@dataclass(frozen=True)
class Rival:
    """One row of the table."""

    name: str
    make: Make
    quick: bool = True


def aws_client(url: str, tenant: int, retries: dict[str, Any]) -> Any:
    session: Any = boto3.Session(f"AKIA{tenant:016d}", "fake", region_name="eu-west-1")
    options: dict[str, Any] = {"retries": retries, "max_pool_connections": 128}
    return session.client("ec2", endpoint_url=url, config=Config(**options))


def azure_client(url: str, policy: RetryPolicy[Any, Any]) -> Any:
    transport = RequestsTransport(use_env_settings=False)
    return PipelineClient(url, policies=[policy], transport=transport)


def boto(retries: dict[str, Any], *, per_thread: bool, url: str) -> Callable[[int], None]:
    shared: dict[int, Any] = {}
    own = local()

    def call(tenant: int) -> None:
        clients = own.__dict__.setdefault("clients", {}) if per_thread else shared
        if tenant not in clients:
            clients[tenant] = aws_client(url, tenant, retries)
        clients[tenant].describe_regions()

    if not per_thread:
        for tenant in range(20):
            shared[tenant] = aws_client(url, tenant, retries)
    return call


def azure(policy: Callable[[], RetryPolicy[Any, Any]], *, url: str) -> Callable[[int], None]:
    client = azure_client(url, policy())
    return partial(_list, client, url)


def _list(client: Any, url: str, tenant: int) -> Any:
    answer = client.send_request(HttpRequest("GET", f"{url}/subscriptions/{tenant}/resourceGroups"))
    answer.raise_for_status()
    return answer


def ours(provider: str, *, known: Limit | None, url: str) -> Callable[[int], None]:
    """The same clients, attached; nothing is left to others, as the rivals leave nothing."""
    pacing: dict[str, Any] = {"reserve": 0}
    if known:
        pacing["rates"] = [{"match": {"service": "ec2"}, "rate": known.rate, "burst": known.burst}]
    PACING.forget()

    def attached(client: Any) -> Any:
        return attach(client, configuration={provider: {"pacing": pacing}})

    if provider == "azure":
        return partial(_list, attached(azure_client(url, RetryPolicy())), url)
    clients = [attached(aws_client(url, tenant, {"mode": "standard"})) for tenant in range(20)]
    return lambda tenant: clients[tenant].describe_regions()


def _retries(mode: str, attempts: int | None = None) -> dict[str, Any]:
    return {"mode": mode} if attempts is None else {"mode": mode, "total_max_attempts": attempts}


def _boto(name: str, retries: dict[str, Any], *, per_thread: bool = False, quick: bool = True) -> Rival:
    return Rival(name, lambda url, _: boto(retries, per_thread=per_thread, url=url), quick)


def _azure(name: str, **options: int) -> Rival:
    return Rival(name, lambda url, _: azure(lambda: RetryPolicy(**options), url=url))


AWS: Final = (
    Rival("cloudretry, published limits", lambda url, limit: ours("aws", known=limit, url=url)),
    Rival("cloudretry, nothing known", lambda url, _: ours("aws", known=None, url=url)),
    _boto("boto3 standard (default), one client", _retries("standard")),
    _boto("boto3 standard 20, one client", _retries("standard", 20), quick=False),
    _boto("boto3 standard 20, one per thread", _retries("standard", 20), per_thread=True, quick=False),
    _boto("boto3 adaptive 20, one client", _retries("adaptive", 20)),
    _boto("boto3 adaptive 20, one per thread", _retries("adaptive", 20), per_thread=True, quick=False),
    _boto("boto3 legacy 20, one client", _retries("legacy", 20)),
)
AZURE: Final = (
    Rival("cloudretry, nothing known", lambda url, _: ours("azure", known=None, url=url)),
    _azure("azure-core (default)"),
    _azure("azure-core, 20 retries", retry_total=20, retry_status=20),
)
