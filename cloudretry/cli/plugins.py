"""`cloudretry plugins`: which getDelay() plugins are installed, and whether one works. Plain text."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import click

from cloudretry.core.decision import Decision, Retry, Source
from cloudretry.errors import ConfigurationError
from cloudretry.strategies.registry import GROUP, build_plugin

if TYPE_CHECKING:
    from cloudretry.strategies.plugin import Plugin

__all__ = ["plugins"]


@click.group(invoke_without_command=True)
@click.pass_context
def plugins(context: click.Context) -> None:
    """List the installed getDelay() plugins, without importing them."""
    if context.invoked_subcommand is None:
        for line in _table(_row(point) for point in entry_points(group=GROUP)):
            click.echo(line)


@plugins.command()
@click.argument("name")
@click.option("options", "--option", "-o", metavar="KEY=VALUE", multiple=True, help="One of the plugin_options; JSON or text.")
@click.option("--retries", default=5, show_default=True, type=click.IntRange(1, 100), help="Retries of each call.")
def check(name: str, options: tuple[str, ...], retries: int) -> None:
    """Build a plugin and try it on throttles as the clouds send them.

    Prints the milliseconds before each retry. Exits with 1 and one line if it can't be built or gives nothing usable.
    """
    from cloudretry.testing.contexts import RECORDED
    from cloudretry.testing.trial import decisions

    try:
        plugin = build_plugin(name, dict(map(_option, options)))
    except ConfigurationError as error:
        raise click.ClickException(" ".join(error.problems)) from None
    for recorded, context in RECORDED.items():
        with _overheard() as warnings:
            steps = list(decisions(plugin, context, retries=retries, seed=1))
        _refuse_fall_back(plugin, recorded, steps, warnings)
        click.echo(f"{recorded:36}{' '.join(map(_shown, steps))}")
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)


def _row(point: EntryPoint) -> tuple[str, str, str]:
    return point.name, point.value, f"{point.dist.name} {point.dist.version}" if point.dist else "-"


def _table(rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    ordered = sorted(rows)
    if not ordered:
        yield f"no plugin is installed (entry points in {GROUP})"
    widths = [max(map(len, column)) for column in zip(*ordered, strict=True)]
    for row in ordered:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _option(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{key!r} is not KEY=VALUE", param_hint="--option")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _shown(step: Decision) -> str:
    return f"{step.delay * 1000:.0f}" if isinstance(step, Retry) else f"stop ({step.reason.value})"


def _refuse_fall_back(plugin: Plugin, recorded: str, steps: Iterable[Decision], warnings: list[str]) -> None:
    if any(isinstance(step, Retry) and step.source is Source.FALLBACK for step in steps):
        why = warnings[0] if warnings else f"getDelay() of plugin {plugin.name!r} gave nothing usable again"
        raise click.ClickException(f"{why} ({recorded})")


@contextmanager
def _overheard() -> Iterator[list[str]]:
    """Collect what cloudretry warns of, in place of the usual logging."""
    heard: list[str] = []
    handler = _Ear(heard)
    logger = logging.getLogger("cloudretry")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield heard
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


class _Ear(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self._heard.append(record.getMessage())
