"""Who is compared: each makes calls as its users do, and each is given the same server and the same number of threads."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import local
from typing import Any, Final

import boto3
from azure.core import PipelineClient
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import RetryPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest
from botocore.config import Config
from botocore.exceptions import ClientError

from cloudretry.core.backoff import exponential_delay, header_delay
from cloudretry.core.call import Call
from cloudretry.core.match import Match
from cloudretry.core.pacing_settings import KnownRate, PacingSettings
from cloudretry.core.rate import Limit
from cloudretry.runtime.pacing import Pacing
from cloudretry.runtime.turns import TurnTimeout

__all__ = ["AWS", "AZURE", "Make", "Rival"]

Make = Callable[[str, Limit], Callable[[int], None]]
"""url, the server's limits → a function that makes one call for the tenant of a number, and raises where the call is lost."""
LOST: Final = (ClientError, HttpResponseError, TurnTimeout)
MAX_RETRIES: Final = 8  # of the built-in entries


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
    """Ours, by hand: turns around single attempts of the plain SDK. To be `attach(client)` when the hooks have turns."""
    rates = (KnownRate(match=Match(), rate=known.rate, burst=known.burst),) if known else ()
    settings = PacingSettings(reserve=0.0, rates=rates)
    pacing, rng = Pacing(), random.Random(1)
    host = url.partition("://")[2]
    clients = (
        [aws_client(url, tenant, {"total_max_attempts": 1, "mode": "standard"}) for tenant in range(20)]
        if provider == "aws"
        else [azure_client(url, RetryPolicy.no_retries())] * 20
    )

    def call(tenant: int) -> None:
        service, operation = ("ec2", "DescribeRegions") if provider == "aws" else ("Microsoft.Resources", "GET resourceGroups")
        what = Call(provider=provider, service=service, operation=operation, account=str(tenant), host=host)
        not_before = None
        for retry in range(1, MAX_RETRIES + 2):
            turn = pacing.turns(what, settings).take(not_before=not_before, patience=settings.queue_timeout)
            try:
                with turn:
                    answer = clients[tenant].describe_regions() if provider == "aws" else _list(clients[tenant], url, tenant)
            except (ClientError, HttpResponseError) as error:
                asked = float(getattr(error, "response", None) is not None and provider == "azure")
                turn.throttled(asked)
                if retry > MAX_RETRIES:
                    raise
                delay = (
                    header_delay(asked, window=0.5, rng=rng)
                    if asked
                    else exponential_delay(retry, base=0.5, cap=20.0, window=0.5, rng=rng)
                )
                not_before = time.monotonic() + delay
            else:
                turn.accepted(remaining=_remaining(answer) if provider == "azure" else None)
                return

    return call


def _remaining(answer: Any) -> float | None:
    left = answer.headers.get("x-ms-ratelimit-remaining-subscription-reads")
    return None if left is None else float(left)


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
