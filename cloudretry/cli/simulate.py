"""`cloudretry simulate`: thin; everything is in cloudretry/simcloud/."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud.azure.limits import PUBLISHED_AZURE
from cloudretry.simcloud.azure.settings import LOCATIONS
from cloudretry.simcloud.limits import PUBLISHED, UNLIMITED
from cloudretry.simcloud.settings import REGIONS
from cloudretry.simcloud.specs import read_azure_limits, read_faults, read_limits, read_retry_after

if TYPE_CHECKING:
    import subprocess

    from cloudretry.simcloud import SimulatedAws, SimulatedAzure

__all__ = ["simulate"]


def _by(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that reads each value of an option; what the reader refuses is an error of usage."""

    def convert(_context: click.Context, _option: click.Parameter, value: Any) -> Any:
        try:
            return tuple(map(read, value)) if isinstance(value, tuple) else value and read(value)
        except ConfigurationError as error:
            raise click.BadParameter(str(error)) from None

    return convert


def _file_of(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def read_file(path: str) -> Any:
        try:
            return read(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path}: {error}") from None

    return read_file


def _split(text: str) -> tuple[str, ...]:
    if not (names := tuple(part.strip() for part in text.split(",") if part.strip())):
        raise ConfigurationError("name at least one")
    return names


def _names(option: str, default: tuple[str, ...]) -> Callable[[Any], Any]:
    shown = ",".join(default)
    return click.option(
        option, metavar="A,B", callback=_by(_split), default=shown, show_default=True, help="Separated by commas."
    )


def _limits(read: Callable[[str], Any], example: str) -> Callable[[Any], Any]:
    said = f"JSON that goes before the built-in table: [{example}]"
    return click.option("--limits", metavar="FILE", callback=_by(_file_of(read)), help=said)


def _faults(example: str) -> Callable[[Any], Any]:
    said = f"rate=0.02,kinds=cut+page+reset, or match={example},times=2,kinds=page,status=403; again for more rules."
    return click.option("--faults", metavar="SPEC", callback=_by(read_faults), multiple=True, help=said)


def _retry_after(example: str) -> Callable[[Any], Any]:
    each = f"match={example},seconds=2,headers=Retry-After"
    said = f"Throttles say how long to wait: 2 (seconds), bucket (until its next token), {each}."
    return click.option("--retry-after", metavar="SPEC", callback=_by(read_retry_after), multiple=True, help=said)


_PORT = click.option("--port", type=click.IntRange(0, 65535), default=0, help="On 127.0.0.1.  [default: any that is free]")
_SEED = click.option(
    "--seed", type=int, default=0, show_default=True, help="Fixes what is in it, its keys, and where faults strike."
)
_NO_LIMITS = click.option("--no-limits", is_flag=True, help="Throttle nothing, except by --limits.")
_LATENCY = click.option("--latency", type=click.FloatRange(0, 60), default=0.0, help="Seconds that are added to every answer.")


@click.group(name="simulate")
def simulate() -> None:
    """Run a simulated cloud on this machine."""


@simulate.command(name="aws")
@_PORT
@_SEED
@click.option("--accounts", type=click.IntRange(1, 100), default=3, show_default=True)
@_names("--regions", REGIONS)
@_NO_LIMITS
@_limits(read_limits, '{"service": "ec2", "actions": ["Describe*"], "burst": 10, "refill": 2}')
@_faults("ec2:DescribeInstances")
@_LATENCY
@_retry_after("s3")
def aws(*, no_limits: bool, limits: Any, **settings: Any) -> None:
    """Run a simulated AWS until Ctrl-C: moto's answers behind limits for each account, region and action.

    Answers on 127.0.0.1 only. Prints the lines that lead an SDK to it, the one that says "answers" last, and stays in the
    foreground: `eval` would wait for ever. Use it so:

    \b
        cloudretry simulate aws > sim.env &
        until grep -q answers sim.env; do sleep 1; done
        . ./sim.env && python my_script.py
        kill $!

    The kinds of --faults are cut, page, empty, reset, reset_unread, slow and throttle.
    """  # noqa: D301 - \b is click's mark of a paragraph that keeps its lines
    from cloudretry.simcloud import Settings, run_simulated_aws

    table = (limits or ()) + (UNLIMITED if no_limits else PUBLISHED)
    with _ended_by_a_person(), run_simulated_aws(Settings(limits=table, **settings)) as (running, process):
        _stay("AWS", list(_welcome(running)), process)


@simulate.command(name="azure")
@_PORT
@_SEED
@click.option("--subscriptions", type=click.IntRange(1, 1000), default=3, show_default=True)
@_names("--locations", LOCATIONS)
@click.option("--principals", type=click.IntRange(1, 100), default=1, show_default=True, help="Each has buckets of its own.")
@_NO_LIMITS
@_limits(
    read_azure_limits, '{"provider": "Microsoft.Compute", "operations": ["GET virtualMachines*"], "burst": 10, "refill": 2}'
)
@_faults("Microsoft.Compute:GET*")
@_LATENCY
@_retry_after("login")
def azure(*, no_limits: bool, limits: Any, **settings: Any) -> None:
    """Run a simulated Azure until Ctrl-C: Resource Manager and a token endpoint, behind limits like Azure's.

    Answers on 127.0.0.1 only. Prints the lines that lead programs to it, the one that says "answers" last, and stays in the
    foreground: `eval` would wait for ever. It is an HTTPS proxy, at which tunnels to management.azure.com and to
    login.microsoftonline.com end and none to any other host begins. Use it so:

    \b
        cloudretry simulate azure > sim.env &
        until grep -q answers sim.env; do sleep 1; done
        . ./sim.env && python my_script.py
        kill $!

    The kinds of --faults are cut, page, empty, reset, reset_unread, slow and throttle.
    """  # noqa: D301 - \b is click's mark of a paragraph that keeps its lines
    from cloudretry.simcloud import AzureSettings, run_simulated_azure

    table = (limits or ()) + (UNLIMITED if no_limits else PUBLISHED_AZURE)
    with _ended_by_a_person(), run_simulated_azure(AzureSettings(limits=table, **settings)) as (running, process):
        _stay("Azure", list(_welcome_azure(running)), process)


@contextmanager
def _ended_by_a_person() -> Iterator[None]:
    """Ctrl-C is no error."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("\nEnded.", err=True)


def _stay(cloud: str, lines: list[str], process: subprocess.Popen[str]) -> None:
    from cloudretry.simcloud import SimulationFailed

    click.echo("\n".join(lines))
    if not sys.stdout.isatty():
        click.echo(lines[-1].removeprefix("# "), err=True)
    process.wait()
    raise SimulationFailed(f"the simulated {cloud} ended by itself, with status {process.returncode}")


def _welcome(running: SimulatedAws) -> Iterator[str]:
    """What a shell reads, and at the end, so that a file with it is complete, what a person reads."""
    yield "# Paste this into another shell, or have it read it from a file:  . ./sim.env && python my_script.py"
    yield "unset AWS_PROFILE AWS_SESSION_TOKEN"
    yield f"export AWS_ENDPOINT_URL={running.url} AWS_DEFAULT_REGION={running.regions[0]} AWS_REGION={running.regions[0]}"
    if any(name.upper() in {"HTTP_PROXY", "ALL_PROXY"} for name in os.environ):
        yield "export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1"
    for number, account in enumerate(running.accounts):
        keys = " ".join(f"{name.upper()}={value}" for name, value in running.credentials(account).items())
        yield f"# account {account}"
        yield f"{'# ' if number else ''}export {keys}"
    yield f"# It holds {len(running.resources)} resources. Counters: {running.url}/_cloudretry/"
    yield f"# The simulated AWS answers at {running.url} until Ctrl-C or kill {os.getpid()}"


def _welcome_azure(running: SimulatedAzure) -> Iterator[str]:
    yield "# Paste this into another shell, or have it read it from a file:  . ./sim.env && python my_script.py"
    yield f"unset {' '.join(_ELSEWHERE)}"
    for name, value in running.environment().items():
        yield f"export {name}={shlex.quote(value)}"
    yield "export CLOUDRETRY__AZURE__PACING__REMEMBER=false"  # it answers by the names of Azure's own hosts
    for principal in running.principals[1:]:
        found = running.secret(principal)
        yield f"# export AZURE_CLIENT_ID={principal} AZURE_CLIENT_SECRET={found['client_secret']}"
    yield f"# subscriptions {', '.join(running.subscriptions)}"
    yield f"# It holds {len(running.resources)} resources. Counters: {running.proxy}/_cloudretry/"
    yield f"# The simulated Azure answers at {running.url} until Ctrl-C or kill {os.getpid()}"


_ELSEWHERE = ("AZURE_AUTHORITY_HOST", "AZURE_SDK_CLOUD_CONF", "AZURE_TOKEN_CREDENTIALS")
"""What would lead azure-identity or the clients past it."""
