"""The two ways in which the demo's discovery gets its clients, and an environment that leads nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

from cloudretry.core.builtin import BUILTIN
from cloudretry.errors import MissingExtra
from cloudretry.runtime.engine import Engine

if TYPE_CHECKING:
    from cloudretry.core.settings import Settings
    from cloudretry.demo.discovery import MakeClient
    from cloudretry.report import Report
    from cloudretry.simcloud import SimulatedAws

__all__ = ["plain_boto3", "sealed_environment", "under_cloudretry"]

_SEALED = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "*",
}
_PREFIXES = ("AWS_", "BOTO_", "CLOUDRETRY_")
_SUFFIXES = ("_PROXY", "_CA_BUNDLE")


@contextmanager
def sealed_environment() -> Iterator[None]:
    """Hide whatever could lead an SDK, or cloudretry, elsewhere or change how it retries; for the whole process."""
    hidden = {name: value for name, value in os.environ.items() if _leads_elsewhere(name.upper())}
    for name in hidden:
        del os.environ[name]
    os.environ.update(_SEALED)
    try:
        yield
    finally:
        for name in _SEALED:
            os.environ.pop(name, None)
        os.environ.update(hidden)


def _leads_elsewhere(name: str) -> bool:
    return name.startswith(_PREFIXES) or name.endswith(_SUFFIXES)


def plain_boto3(aws: SimulatedAws, *, connections: int) -> MakeClient:
    """Clients as boto3 makes them, but for the endpoint and the number of connections; each of them once."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.loaders import Loader
        from botocore.session import Session
    except ImportError:
        raise MissingExtra("aws") from None
    config = Config(max_pool_connections=connections, proxies={}, s3={"addressing_style": "path"})
    # One loader, without the user's own models: three sessions read each service's description once.
    loader = Loader(extra_search_paths=[Loader.BUILTIN_DATA_PATH], include_default_search_paths=False)
    sessions: dict[str, boto3.Session] = {}
    for account in aws.accounts:
        core = Session()
        core.register_component("data_loader", loader)
        sessions[account] = boto3.Session(**aws.credentials(account), botocore_session=core)

    @cache
    def make_client(account: str, service: str, region: str) -> Any:
        return sessions[account].client(service, region_name=region, endpoint_url=aws.url, config=config)  # type: ignore[call-overload]

    return make_client


def under_cloudretry(make_client: MakeClient, report: Report, *, seed: int, settings: Settings = BUILTIN) -> MakeClient:
    """The same clients, from now on hooked as AwsApiCommand hooks its own; the draws come from `seed`."""
    from cloudretry.aws.attach import attach_any

    engine = Engine(settings, rng=Random(seed), listeners=[report])

    def make_hooked_client(account: str, service: str, region: str) -> Any:
        client = make_client(account, service, region)
        attach_any(client, engine, account=account)
        return client

    return make_hooked_client
