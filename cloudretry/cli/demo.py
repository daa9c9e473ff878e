"""`cloudretry demo`: thin; everything is in cloudretry/demo/."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from cloudretry.errors import CloudRetryError

__all__ = ["demo"]


@click.command(name="demo")
@click.option(
    "--cloud",
    type=click.Choice(["aws", "azure", "both"]),
    default="both",
    show_default=True,
    help="Both: one after the other, and without the one whose SDK is not installed.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Fixes what the simulated clouds hold. Which call meets which throttle is chance, so losses differ from run to run.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new or empty folder for the inventories and the lists of lost calls.  [default: ./cloudretry-demo-DATE-TIME]",
)
@click.option("--fast", is_flag=True, help="Little to discover, behind smaller bursts: about half a minute.")
def demo(cloud: str, seed: int, out: Path | None, *, fast: bool) -> None:
    """Discover simulated clouds twice, with the SDK as it comes and under cloudretry, and compare.

    Needs no account and no network: everything stays on this machine, whatever settings of AWS and Azure it has. Takes about
    a minute.
    """
    from cloudretry.demo.display import choose_display
    from cloudretry.demo.run import FAST, FULL, choose_clouds, run_demo

    try:
        clouds, left_out = choose_clouds(FAST if fast else FULL, cloud)
        folder = _new_folder(out or Path(time.strftime("cloudretry-demo-%Y%m%d-%H%M%S")))
        for line in left_out:
            click.echo(line)
        run_demo(folder, choose_display(), clouds, seed=seed)
    except CloudRetryError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo(f"Stopped. What was found until then is in {folder}", err=True)
        sys.stdout.flush()
        os._exit(130)  # a thread may be in the middle of a wait of many seconds, and Python would wait for it


def _new_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise click.ClickException(f"{folder} is not empty; name a new folder with --out")
    except OSError as error:
        raise click.ClickException(f"{folder} can't be used: {error.strerror}; name another folder with --out") from error
    return folder
