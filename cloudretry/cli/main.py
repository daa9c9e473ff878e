"""The `cloudretry` command. A subcommand's module is imported when it is asked for, so that a quick one stays quick."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from cloudretry import __version__
from cloudretry.errors import CloudRetryError, ConfigurationError

__all__ = ["main"]

_COMMANDS: Final = {
    "config": "Show, check and preview the configuration.",
    "demo": "Discover simulated, throttling clouds twice: with the SDK as it comes, and under cloudretry.",
    "doctor": "Try every way out of every egress pool, and say what is wrong.",
    "plugins": "List and try the installed getDelay() plugins.",
    "pool": "Look at the egress pools of running programs.",
    "run": "Run a program with its boto3 and Azure clients under cloudretry.",
    "simulate": "Run a simulated cloud on this machine.",
}
_EX_CONFIG: Final = 78  # sysexits.h
_INTERRUPTED: Final = 130  # what a shell reports for SIGINT


class _Lazy(click.Group):
    """Knows the commands' names and help; imports one when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"cloudretry.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cloudretry")
def _cli() -> None:
    """Retries, pacing and egress beneath the real boto3 and Azure clients of discovery programs."""


def main() -> None:
    """Run the command. Errors of ours are one line each on stderr; 78: the configuration was refused; 130: Ctrl-C."""
    try:
        status = _cli(standalone_mode=False)
    except click.exceptions.Abort:
        raise SystemExit(_INTERRUPTED) from None
    except click.ClickException as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    except ConfigurationError as error:
        click.echo(error, err=True)
        raise SystemExit(_EX_CONFIG) from None
    except CloudRetryError as error:
        click.echo(error, err=True)
        raise SystemExit(1) from None
    raise SystemExit(status if isinstance(status, int) else 0)
