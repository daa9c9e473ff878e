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
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Fixes what the simulated AWS holds and the sequence that waits are drawn from. "
    "Which call meets which throttle is chance, so losses differ from run to run.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new or empty folder for the inventories and the lists of lost calls.  [default: ./cloudretry-demo-DATE-TIME]",
)
@click.option("--fast", is_flag=True, help="One small account, two regions, smaller bursts: about 15 seconds.")
def demo(seed: int, out: Path | None, *, fast: bool) -> None:
    """Discover a simulated AWS twice, with boto3 as it comes and under cloudretry, and compare.

    Needs no account and no network: everything stays on this machine, whatever AWS settings it has. Takes less than a minute.
    """
    from cloudretry.demo.display import choose_display
    from cloudretry.demo.run import FAST, FULL, check_extras, run_demo

    try:
        check_extras()
        folder = _new_folder(out or Path(time.strftime("cloudretry-demo-%Y%m%d-%H%M%S")))
        run_demo(folder, choose_display(), seed=seed, size=FAST if fast else FULL)
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
