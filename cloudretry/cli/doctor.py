"""`cloudretry doctor`: tries every way out with a full exchange, and says what is wrong and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

import click

from cloudretry.core.proxy_url import masked_url, parse_proxy_url
from cloudretry.errors import ConfigurationError
from cloudretry.references import resolve_url

if TYPE_CHECKING:
    from cloudretry.config import Configuration
    from cloudretry.core.pool_settings import Member, PoolSettings

__all__ = ["doctor"]

_DESTINATIONS: Final = {
    "aws": ("https://sts.amazonaws.com/",),
    "azure": ("https://management.azure.com/", "https://login.microsoftonline.com/"),
}
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class _Check:
    """One member, one destination."""

    member: Member
    pool: PoolSettings
    url: str
    provider: str


@click.command()
@click.option("--config", "file", metavar="FILE", help="A configuration file, above all other layers.")
@click.option("--pool", "only", metavar="NAME", help="Only this pool.")
@click.option("--to", "urls", metavar="URL", multiple=True, help="Where to, in the place of what the pool's providers need.")
@click.option(
    "--timeout", default=10.0, show_default=True, type=click.FloatRange(0.1, 300), help="Seconds to wait for an answer."
)
@click.pass_context
def doctor(context: click.Context, *, file: str | None, only: str | None, urls: tuple[str, ...], timeout: float) -> None:
    """Try every way out of every egress pool, and say what is wrong.

    Each member gets a full exchange, without credentials, with the destinations that the providers of its pool need. Exits
    with 1 if a member fails that is not disabled, or if the configuration has problems.
    """
    for url in urls:
        _check_url(url)
    configuration = _configuration(file)
    pools = _pools(configuration, only)
    for warning in _warnings(configuration, pools, urls):
        click.echo(f"warning: {warning}")
    problems = list(_problems(configuration))
    for problem in problems:
        click.echo(f"problem: {problem}")
    if not pools:
        click.echo("no pool is configured: calls leave by the SDK's own connections, and there is nothing to try")
    failed = sum([_examine(pool, list(_checks(configuration, pool, urls)), timeout) for pool in pools])
    context.exit(1 if failed or problems else 0)


def _check_url(url: str) -> None:
    from cloudretry.config.members import check_probe_url

    try:
        check_probe_url(url)
    except ValueError:
        accepted = "http:// or https:// with a host, without credentials"
        raise click.BadParameter(f"{masked_url(url)!r} is no URL to try; accepted: {accepted}", param_hint="--to") from None


def _configuration(file: str | None) -> Configuration:
    from cloudretry.config import load_configuration

    try:
        return load_configuration(file)
    except ConfigurationError as error:
        lines = "\n".join(f"problem: {problem}" for problem in error.problems)
        raise click.ClickException(f"the configuration is refused\n{lines}") from None


def _pools(configuration: Configuration, only: str | None) -> list[PoolSettings]:
    pools = configuration.settings.pools
    if only is not None and only not in pools:
        raise click.BadParameter(f"{only!r} is no pool; known: {', '.join(pools) or 'none'}", param_hint="--pool")
    return [pool for name, pool in pools.items() if only in {None, name}]


def _problems(configuration: Configuration) -> Iterator[str]:
    from cloudretry.config.references_check import unresolved_references

    return unresolved_references(configuration, os.environ)


def _warnings(configuration: Configuration, pools: list[PoolSettings], urls: tuple[str, ...]) -> Iterator[str]:
    from cloudretry.config import switched_off
    from cloudretry.egress.bypass import Bypass

    if switched_off(os.environ):
        yield "CLOUDRETRY_DISABLED is set: no pool is in use"
    yield from configuration.warnings
    yield from _foreign_proxies(pools)
    for pool in pools:
        bypass = Bypass(pool.bypass)
        for url, _ in _urls(configuration, pool, urls):
            if bypass.covers(urlsplit(url).netloc):
                yield f"calls to {_shown(url)} go past pool {pool.name}: bypass or NO_PROXY covers it"


def _foreign_proxies(pools: list[PoolSettings]) -> Iterator[str]:
    """Proxies of the environment that a pool does not have; both SDKs would take them where a pool does not hold."""
    known = {place for pool in pools for member in pool.members if (place := _place(member.url)) is not None}
    for scheme, url in sorted(getproxies_environment().items()):
        if pools and scheme in {"http", "https", "all"} and _place(url) not in known:
            name = f"{scheme}_proxy" if f"{scheme}_proxy" in os.environ else f"{scheme.upper()}_PROXY"
            yield (
                f"{name} is {masked_url(url)}, which is no member: calls that leave by a pool don't use it,"
                " those that go past it and other programs do"
            )


def _place(url: str | None) -> tuple[str, int] | None:
    try:
        parsed = None if url is None else parse_proxy_url(resolve_url(url))
    except ConfigurationError:
        return None
    return None if parsed is None else (parsed.host, parsed.port)


def _urls(configuration: Configuration, pool: PoolSettings, urls: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(URL, provider) that matter to a pool; to one that nobody uses, all."""
    entries = configuration.settings.providers.items()
    using = [name for name, entry in entries if any(retry.pool == pool.name for retry in entry.all_retry_settings())]
    providers = using or list(_DESTINATIONS)
    if urls:
        yield from ((url, providers[0]) for url in urls)
    else:
        yield from ((url, provider) for provider in providers for url in _DESTINATIONS[provider])


def _checks(configuration: Configuration, pool: PoolSettings, urls: tuple[str, ...]) -> Iterator[_Check]:
    wanted = list(_urls(configuration, pool, urls))
    return (_Check(member, pool, url, provider) for member in pool.members for url, provider in wanted)


def _examine(pool: PoolSettings, checks: list[_Check], timeout: float) -> int:
    """Print how each check went; how many failed that should not."""
    click.echo(f"pool {pool.name}")
    failed = 0
    width = max(len(check.member.name) for check in checks)
    for check, (is_good, text) in zip(checks, _outcomes(checks, timeout), strict=True):
        mark = "ok    " if is_good else "off   " if check.member.disabled else "FAILED"
        failed += mark == "FAILED"
        click.echo(f"  {mark}  {check.member.name:<{width}}  {_shown(check.url)}  {text}")
    return failed


def _shown(url: str) -> str:
    """As it can be copied, without a query, which may hold secrets."""
    return urlsplit(url)._replace(query="", fragment="").geturl()


def _outcomes(checks: list[_Check], timeout: float) -> Iterator[tuple[bool, str]]:
    """In the order of the checks; several are made at once. Ctrl-C does not wait for those that have not begun."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        try:
            yield from threads.map(lambda check: _outcome(check, timeout), checks)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _outcome(check: _Check, timeout: float) -> tuple[bool, str]:
    from cloudretry.cli.advice import advice
    from cloudretry.cli.exchange import exchange

    try:
        tried = exchange(check.member, check.pool, check.url, check.provider, timeout)
    except ConfigurationError as error:
        return False, str(error)
    end = tried.end
    if end.reason is None:
        return True, f"answered with {end.status} in {tried.seconds:.2f} s"
    status = f" with status {end.status}" if end.status is not None else ""
    why = advice(check.member, check.pool, end, tried.challenge)
    return False, f"{end.reason.value} in phase {end.phase.value}{status} after {tried.seconds:.2f} s: {why}"
