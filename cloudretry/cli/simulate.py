"""`cloudretry simulate`: thin; everything is in cloudretry/simcloud/."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloudretry.errors import ConfigurationError
from cloudretry.simcloud.limits import PUBLISHED, UNLIMITED
from cloudretry.simcloud.settings import REGIONS
from cloudretry.simcloud.specs import read_faults, read_limits, read_retry_after

if TYPE_CHECKING:
    from cloudretry.simcloud import SimulatedAws

__all__ = ["simulate"]


def _by(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that reads each value of an option; what the reader refuses is an error of usage."""

    def convert(_context: click.Context, _option: click.Parameter, value: Any) -> Any:
        try:
            return tuple(map(read, value)) if isinstance(value, tuple) else value and read(value)
        except ConfigurationError as error:
            raise click.BadParameter(str(error)) from None

    return convert


def _read_file(path: str) -> Any:
    try:
        return read_limits(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


def _split(text: str) -> tuple[str, ...]:
    if not (names := tuple(part.strip() for part in text.split(",") if part.strip())):
        raise ConfigurationError("name at least one")
    return names


@click.group(name="simulate")
def simulate() -> None:
    """Run a simulated cloud on this machine."""


@simulate.command(name="aws")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="On 127.0.0.1.  [default: any that is free]")
@click.option("--seed", type=int, default=0, show_default=True, help="Fixes what is in it, its keys, and where faults strike.")
@click.option("--accounts", type=click.IntRange(1, 100), default=3, show_default=True)
@click.option(
    "--regions", metavar="A,B", callback=_by(_split), default=",".join(REGIONS), show_default=True, help="Separated by commas."
)
@click.option("--no-limits", is_flag=True, help="Throttle nothing, except by --limits.")
@click.option(
    "--limits",
    metavar="FILE",
    callback=_by(_read_file),
    help='JSON that goes before the built-in table: [{"service": "ec2", "actions": ["Describe*"], "burst": 10, "refill": 2}]',
)
@click.option(
    "--faults",
    metavar="SPEC",
    callback=_by(read_faults),
    multiple=True,
    help="rate=0.02,kinds=cut+page+reset, or match=ec2:DescribeInstances,times=2,kinds=page,status=403; again for more rules.",
)
@click.option("--latency", type=click.FloatRange(0, 60), default=0.0, help="Seconds that are added to every answer.")
@click.option(
    "--retry-after",
    metavar="SPEC",
    callback=_by(read_retry_after),
    multiple=True,
    help="Throttles say how long to wait: 2 (seconds), bucket (until its next token), match=s3,seconds=2,headers=Retry-After.",
)
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
    from cloudretry.simcloud import Settings, SimulationFailed, run_simulated_aws

    table = (limits or ()) + (UNLIMITED if no_limits else PUBLISHED)
    try:
        with run_simulated_aws(Settings(limits=table, **settings)) as (running, process):
            lines = list(_welcome(running))
            click.echo("\n".join(lines))
            if not sys.stdout.isatty():
                click.echo(lines[-1].removeprefix("# "), err=True)
            process.wait()
            raise SimulationFailed(f"the simulated AWS ended by itself, with status {process.returncode}")
    except KeyboardInterrupt:
        click.echo("\nEnded.", err=True)


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
