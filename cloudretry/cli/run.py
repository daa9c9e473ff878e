"""`cloudretry run`: thin; everything is in cloudretry/launcher/."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from cloudretry.errors import CloudRetryError

if TYPE_CHECKING:
    from cloudretry.config import Configuration
    from cloudretry.launcher.report_folder import ReportFolder
    from cloudretry.launcher.run_folder import RunFolder
    from cloudretry.launcher.summary import Summary

__all__ = ["run"]

_FAILED: Final = 1
_REFUSED: Final = 2
_LOST: Final = 3
_CAN_T_START: Final = 126  # as a shell says it
_NOT_FOUND: Final = 127
_IGNORED_BY_PYTHON: Final = ("SIGPIPE", "SIGXFSZ")  # and so by what is started in its place


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--config", "file", metavar="FILE", help="A configuration file, above all other layers.")
@click.option(
    "--report", metavar="DIR", help="Leave report.json, completeness.json, journal.jsonl and each process's counts there."
)
@click.option("--fail-on-loss", is_flag=True, help="Exit with 3 where the program itself succeeds and a call was lost.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND…")
def run(*, file: str | None, report: str | None, fail_on_loss: bool, command: tuple[str, ...]) -> int:
    """Run a program, not a line of it changed, with its boto3 and Azure clients under cloudretry; its children's too.

    \b
        cloudretry run -- python discover.py
        cloudretry run --report out -- custodian run -s out policies.yml
        cloudretry run -- aws ec2 describe-instances

    Exits as the program does. 78: the configuration was refused, and nothing was started. 2: nothing in this program could be
    hooked: python -I, -E or -S, a frozen program such as AWS CLI v2, or no Python at all. 1: it succeeded, but its report
    could not be written.
    """  # noqa: D301 - \b is click's mark of a paragraph that keeps its lines
    from cloudretry.config import load_configuration, switched_off
    from cloudretry.launcher.command import why_not
    from cloudretry.launcher.run_folder import child_environment, running
    from cloudretry.launcher.supervise import end_as

    if switched_off(os.environ):
        _say("CLOUDRETRY_DISABLED is set: the program runs without it")
        return _replaced_by(command, os.environ)
    refusal = why_not(command, os.environ)
    if refusal is not None:
        return _refused(refusal)
    outer = running(os.environ)
    if outer is not None:
        if file or report or fail_on_loss:
            _say("this runs inside another `cloudretry run`, whose options hold")
        return _replaced_by(command, child_environment(outer, os.environ))
    configuration = load_configuration(file)
    for warning in configuration.warnings:
        click.echo(f"warning: {warning}", err=True)
    lacking = _lacking_plugins(command, configuration)
    if lacking:
        return _refused(f"plugins that the program's own Python does not have: {', '.join(lacking)}; install them there")
    with _folders(report) as (folder, left):
        status = _supervised(command, configuration, file, folder, left, fail_on_loss=fail_on_loss)
    return end_as(status)


def _refused(why: str) -> int:
    _say(why)
    return _REFUSED


def _lacking_plugins(command: tuple[str, ...], configuration: Configuration) -> list[str]:
    from cloudretry.launcher.command import missing_plugins

    plugins = {retry.plugin for retry in configuration.settings.all_retry_settings() if retry.plugin}
    return missing_plugins(command, os.environ, plugins)


def _supervised(
    command: tuple[str, ...],
    configuration: Configuration,
    file: str | None,
    folder: RunFolder,
    report: ReportFolder | None,
    *,
    fail_on_loss: bool,
) -> int:
    from cloudretry.config.compiled import write_compiled
    from cloudretry.launcher.run_folder import child_environment
    from cloudretry.launcher.supervise import run_to_end

    write_compiled(configuration.settings, folder.settings)
    # clients that the program attaches by itself have the same file, unless they are given another
    environ = {**os.environ, "CLOUDRETRY_CONFIG": os.path.abspath(file)} if file else os.environ  # noqa: PTH100 - paths stay text
    try:
        status = run_to_end(command, child_environment(folder, environ), _watch(configuration, file, folder))
    except OSError as error:
        _say(f"{command[0]}: {error.strerror}")
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _CAN_T_START
    try:
        ours = _account_for(folder, report, succeeded=status == 0, fail_on_loss=fail_on_loss)
    except Exception as error:  # noqa: BLE001 - whatever it is, the program's own status is not to suffer from it
        _say_if_possible(f"what the program came to can't be told: {type(error).__name__}: {error}")
        ours = _LOST if fail_on_loss else _FAILED
    return status or ours


def _account_for(folder: RunFolder, report: ReportFolder | None, *, succeeded: bool, fail_on_loss: bool) -> int:
    """Say and write what it came to. The status where the program succeeded."""
    from cloudretry.launcher.outliving import going_on
    from cloudretry.launcher.summary import Summary, merge  # now that the program does not wait for it

    try:
        documents = list(folder.documents())
        still_there = going_on(documents)  # before it is read what they have written until then
        summary = merge(documents, going_on=still_there)
    except OSError as error:  # the program has removed it
        summary = Summary(unreadable=[f"{folder.processes}: {error.strerror}"])
    summary.passed_by = folder.is_passed_by()
    with suppress(OSError):  # there may be no stderr any more
        _tell(summary, folder, asked=fail_on_loss or report is not None)
    failures = report.write(summary, finished=succeeded) if report is not None else []
    for failure in failures:
        _say_if_possible(failure)
    if fail_on_loss and summary.is_incomplete:
        return _LOST
    return _FAILED if failures else 0


def _watch(configuration: Configuration, file: str | None, folder: RunFolder) -> Callable[[], None]:
    """A changed configuration is compiled anew here; the processes of the program take up what is compiled."""
    from cloudretry.config import load_configuration
    from cloudretry.config.compiled import write_compiled
    from cloudretry.runtime.watching import Watch

    source = None if file is None else os.path.abspath(file)  # noqa: PTH100 - as load_configuration takes it
    watch = Watch(configuration, partial(load_configuration, source))
    watch.subscribe(lambda settings: write_compiled(settings, folder.settings))
    return watch.look


def _tell(summary: Summary, folder: RunFolder, *, asked: bool) -> None:
    """What came of it, where it was asked for or something is missing."""
    if not folder.is_reached():
        _say("nothing was hooked: the command started no Python that reads PYTHONPATH")
    if asked or (summary.is_incomplete and not summary.passed_by):  # which was said already
        for line in summary.lines():
            click.echo(line, err=True)


@contextmanager
def _folders(report: str | None) -> Iterator[tuple[RunFolder, ReportFolder | None]]:
    """The run's private folder, for as long as it lasts, and the one that was asked for, which stays."""
    from cloudretry.launcher.report_folder import ReportFolder
    from cloudretry.launcher.run_folder import JOURNAL, RunFolder

    with tempfile.TemporaryDirectory(prefix="cloudretry-run-") as path:
        folder = RunFolder(path)
        if report is None:
            os.mkdir(folder.processes, 0o700)  # noqa: PTH102 - paths stay text
            yield folder, None
            return
        try:
            left = ReportFolder(report)
            os.symlink(left.processes, folder.processes)  # noqa: PTH211 - as above
            os.symlink(left.path, folder.report)  # noqa: PTH211 - as above
            os.close(os.open(os.path.join(left.path, JOURNAL), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # noqa: PTH118 - as above
        except OSError as error:
            raise CloudRetryError(f"{report}: can't be the folder of a report: {error.strerror}") from None
        yield folder, left


def _replaced_by(command: tuple[str, ...], environ: Mapping[str, str]) -> int:
    """Let the command be this process. Returns only where it can't be started."""
    sys.stdout.flush()
    for name in _IGNORED_BY_PYTHON:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environ)  # noqa: S606 - what the user asks for
    except OSError as error:
        _say(f"{command[0]}: {error.strerror}")
        return _NOT_FOUND if isinstance(error, FileNotFoundError) else _CAN_T_START


def _say_if_possible(text: str) -> None:
    with suppress(OSError):  # there may be no stderr any more
        _say(text)


def _say(text: str) -> None:
    click.echo(f"cloudretry: {text}", err=True)
