"""Fixtures for users' own tests, known to pytest wherever cloudretry is installed. Imports nothing until one is asked for.

    def test_a_throttled_discovery_is_complete(cloudretry_cloud, cloudretry_clock):
        cloudretry_cloud.inject(Faults(match="ec2:DescribeInstances", kinds=("throttle",), times=3))
        found = discover()                                     # boto3 finds the simulated AWS by its environment
        assert found == {id for _, _, kind, id in cloudretry_cloud.resources if kind == "ec2:instance"}
        assert cloudretry_cloud.counters()["throttled"] == 3
        assert len(cloudretry_clock.sleeps) == 3               # nobody waited

`cloudretry_azure` is a simulated Azure likewise, for azure-identity and the management clients.

A simulated cloud needs the extra "simulate" and has its own process, started once for a whole run. `Faults`, `Rule` and
what else it is set up with come from cloudretry.simcloud. To have another one everywhere, override the fixture:

    @pytest.fixture
    def cloudretry_cloud(make_cloudretry_cloud):
        return make_cloudretry_cloud(accounts=3, regions=["eu-west-1", "us-east-1"], limits=PUBLISHED)

The buckets of its limits fill by the real clock. Under a virtual one, which lets no time pass, throttle by `inject`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from cloudretry.simcloud import SimulatedAws, SimulatedAzure
    from cloudretry.testing.clock import VirtualClock

__all__ = ["cloudretry_azure", "cloudretry_clock", "cloudretry_cloud", "make_cloudretry_azure", "make_cloudretry_cloud"]

_SMALL: Final[Mapping[str, Any]] = {"accounts": 1, "regions": ("eu-west-1",), "size": 0.1, "limits": ()}
_SMALL_AZURE: Final[Mapping[str, Any]] = {"subscriptions": 1, "locations": ("westeurope",), "size": 0.2, "limits": ()}
_NO_PROXY: Final = ("NO_PROXY", "no_proxy")


@pytest.fixture
def cloudretry_clock() -> Iterator[VirtualClock]:
    """A clock on which cloudretry's waits take no time; `sleeps` lists them. Waits of the SDKs themselves stay real."""
    from cloudretry.testing.clock import virtual_clock

    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def cloudretry_cloud(make_cloudretry_cloud: Callable[..., SimulatedAws]) -> SimulatedAws:
    """A small simulated AWS without limits: one account, eu-west-1, a few dozen resources. See make_cloudretry_cloud."""
    return make_cloudretry_cloud()


@pytest.fixture
def make_cloudretry_cloud(_cloudretry_clouds: Callable[..., Any]) -> Iterator[Callable[..., SimulatedAws]]:
    """Call it with settings of cloudretry.simcloud.simulated_aws, that differ from the small ones, to get a simulated AWS.

    The environment then leads boto3 to it, as a user of its first account, and to no other AWS, until the test ends; so it
    does to the latest where a test makes several. Equal settings share a server, reset for every test; what a test creates
    in it stays, unless the test has one of its own by `fresh=True`.
    """
    with pytest.MonkeyPatch.context() as patch, ExitStack() as own:
        own.callback(_forget_session)

        def make(*, fresh: bool = False, **settings: Any) -> SimulatedAws:
            running: SimulatedAws = _running(_start_aws, settings, own if fresh else None, _cloudretry_clouds)
            _lead_to(running, patch)
            return running

        yield make


@pytest.fixture
def cloudretry_azure(make_cloudretry_azure: Callable[..., SimulatedAzure]) -> SimulatedAzure:
    """A small simulated Azure without limits: one subscription, westeurope, some dozen resources. See make_cloudretry_azure."""
    return make_cloudretry_azure()


@pytest.fixture
def make_cloudretry_azure(_cloudretry_clouds: Callable[..., Any]) -> Iterator[Callable[..., SimulatedAzure]]:
    """Call it with settings of cloudretry.simcloud.simulated_azure, that differ from the small ones, to get a simulated Azure.

    As make_cloudretry_cloud. The environment leads DefaultAzureCredential and the management clients to it, by HTTPS_PROXY
    and REQUESTS_CA_BUNDLE, and lets nothing out by HTTPS to any other host. aio clients must be told whom to trust:
    `**cloudretry_azure.client_options()`.
    """
    with pytest.MonkeyPatch.context() as patch, ExitStack() as own:

        def make(*, fresh: bool = False, **settings: Any) -> SimulatedAzure:
            running: SimulatedAzure = _running(_start_azure, settings, own if fresh else None, _cloudretry_clouds)
            _forget("AZURE_", patch)
            for name, value in running.environment().items():
                patch.setenv(name, value)
            return running

        yield make


@pytest.fixture(scope="session")
def _cloudretry_clouds() -> Iterator[Callable[..., Any]]:
    known: dict[str, Any] = {}
    with ExitStack() as servers:

        def find(start: Callable[[dict[str, Any]], Any], settings: dict[str, Any]) -> Any:
            key = f"{start.__name__} {sorted(settings.items())!r}"
            if key not in known:
                known[key] = servers.enter_context(start(settings))
            return known[key]

        yield find


def _running(
    start: Callable[[dict[str, Any]], Any], settings: dict[str, Any], own: ExitStack | None, shared: Callable[..., Any]
) -> Any:
    running = own.enter_context(start(settings)) if own else shared(start, settings)
    running.reset()
    return running


def _start_aws(settings: dict[str, Any]) -> Any:
    from cloudretry.simcloud import simulated_aws

    return simulated_aws(**{**_SMALL, **settings})


def _start_azure(settings: dict[str, Any]) -> Any:
    from cloudretry.simcloud import simulated_azure

    return simulated_azure(**{**_SMALL_AZURE, **settings})


def _forget(prefix: str, patch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith(prefix)]:
        patch.delenv(name)


def _lead_to(running: SimulatedAws, patch: pytest.MonkeyPatch) -> None:
    _forget("AWS_", patch)
    for name, value in running.credentials(running.accounts[0]).items():
        patch.setenv(name.upper(), str(value))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        patch.setenv(name, running.regions[0])
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        patch.setenv(name, os.devnull)
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    patch.setenv("AWS_ENDPOINT_URL", running.url)
    for name in _NO_PROXY:
        patch.setenv(name, ",".join(filter(None, ("127.0.0.1", os.environ.get(name)))))
    if "boto3" in sys.modules:
        patch.setattr("boto3.DEFAULT_SESSION", None)  # it holds credentials of before


def _forget_session() -> None:
    """Let no later test find the credentials of this one in boto3's default session."""
    if "boto3" in sys.modules:
        vars(sys.modules["boto3"])["DEFAULT_SESSION"] = None
