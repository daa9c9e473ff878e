"""The commands of `cloudretry config`. Errors are raised; the main command prints them and exits with 78."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from cloudretry.config import Configuration

__all__ = ["config"]

_FILE = click.option("--config", "file", metavar="FILE", help="A configuration file, above all other layers.")


@click.group()
def config() -> None:
    """Show, check and preview the configuration."""


@config.command()
@click.option("--origin", is_flag=True, help="Behind each setting, where it was set.")
@click.option(
    "--for", "operation", metavar="OPERATION", help="What holds for one: [azure/]service:operation[@account[/region]]."
)
@click.option("--format", "form", type=click.Choice(["toml", "json"]), default="toml", show_default=True)
@_FILE
def show(*, origin: bool, operation: str | None, form: str, file: str | None) -> None:
    """Print the effective settings; what is printed can be loaded again."""
    from cloudretry.config import switched_off
    from cloudretry.config.rendering import parse_call, show_call
    from cloudretry.config.rendering import show as shown_whole

    if origin and form == "json":
        raise click.UsageError("JSON has no comments: --origin goes with --format toml")
    try:
        call = None if operation is None else parse_call(operation)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--for") from None
    configuration = _load(file)
    if switched_off(os.environ):
        click.echo("CLOUDRETRY_DISABLED is set: none of this is in use", err=True)
    shown = shown_whole(configuration) if call is None else show_call(configuration, call)
    click.echo(shown.as_json() if form == "json" else shown.as_toml(with_origins=origin).rstrip("\n"))


@config.command()
@click.argument("file", required=False)
def validate(file: str | None) -> None:
    """Check FILE alone, or the layers that hold here. Exits with 78 if anything is wrong."""
    from cloudretry.config.loading import check_file, load_configuration
    from cloudretry.config.references_check import unresolved_references

    configuration = load_configuration() if file is None else check_file(file)
    _warn(*configuration.warnings, *unresolved_references(configuration, os.environ))
    plugins = sorted({retry.plugin for retry in configuration.settings.all_retry_settings() if retry.plugin})
    unbuilt = f" (not built here: {', '.join(plugins)}; try them with `cloudretry plugins check NAME`)" if plugins else ""
    click.echo(f"ok{unbuilt}")


@config.command()
def schema() -> None:
    """Print the JSON Schema of a configuration file, for editors."""
    from cloudretry.config.schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2))


@config.command(name="compile")
@click.option("-o", "--output", metavar="FILE", help="Write to a file, readable by its owner alone.")
@_FILE
def compile_settings(*, output: str | None, file: str | None) -> None:
    """Print the settings as JSON that a process without pydantic can load.

    References to secrets stay references. Credentials that are written out are not printed: they need --output.
    """
    from cloudretry.config.compiled import refuse_secrets, write_compiled

    settings = _load(file).settings
    if output is None:
        refuse_secrets(settings)
        click.echo(settings.to_json())
        return

    write_compiled(settings, output)


@config.command()
@click.option("--provider", type=click.Choice(["aws", "azure"]), help="Only this one.")
@click.option("--samples", type=click.IntRange(100, 1_000_000), default=20_000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draws.")
@_FILE
def preview(*, provider: str | None, samples: int, seed: int, file: str | None) -> None:
    """Draw what each retry may wait, and the worst that a call can come to."""
    from random import Random

    from cloudretry.config.preview import preview as page

    entries = _load(file).settings.providers
    names = sorted(entries) if provider is None else [provider]
    click.echo("\n".join(page(name, entries[name], samples=samples, rng=Random(seed)) for name in names), nl=False)


def _load(file: str | None) -> Configuration:
    from cloudretry.config import load_configuration

    configuration = load_configuration(file)
    _warn(*configuration.warnings)
    return configuration


def _warn(*warnings: str) -> None:
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
