"""AWS for the demo: moto behind limits, and boto3 clients, as they come or as AwsApiCommand makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from cloudretry.commands import AwsApiCommand
from cloudretry.core.call import Call
from cloudretry.core.quota import quota_of
from cloudretry.demo import aws_listings as asked
from cloudretry.demo.cloud import Answers, Found, Item, Listing, Question
from cloudretry.demo.compare import counted
from cloudretry.demo.ideal import Meter, Metered
from cloudretry.order import interleave
from cloudretry.simcloud import PUBLISHED, Rule, SimulatedAws, simulated_aws
from cloudretry.simcloud.identity import PLACE, Identity, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import boto3

    from cloudretry.config import Configuration
    from cloudretry.report import Report

__all__ = ["Aws", "AwsSource"]

HOME: Final = "us-east-1"
"""Where services without regions of their own are asked."""
_WITHOUT_REGIONS: Final = frozenset({"iam", "s3"})
_CONNECTIONS: Final = 50
_UNPAGED: Final = frozenset(
    "".join(map(str.title, listing.operation.split("_"))) for listing in asked.LISTINGS["ec2"] if listing.page_size is None
)
"""Actions that are asked with neither filter nor page size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aws:
    """How much there is to discover, and behind which limits. `share` of what such accounts hold by default."""

    name: ClassVar[str] = "AWS"
    alone: ClassVar[str] = "plain boto3"
    needs: ClassVar[Sequence[str]] = ("boto3", "moto", "aiohttp", "flask", "flask_cors")
    hints: ClassVar[Sequence[str]] = (
        "Now your own script: boto3.client(...) -> cloudretry.AwsApiCommand().client(...)",
        "To try it against the simulated AWS: cloudretry simulate aws",
    )

    accounts: int
    regions: tuple[str, ...]
    share: float
    limits: tuple[Rule, ...] = PUBLISHED

    @property
    def places(self) -> str:
        """What there is to discover."""
        return f"{counted(self.accounts, 'account')} in {counted(len(self.regions), 'region')}"

    def simulated(self, seed: int) -> AbstractContextManager[SimulatedAws]:
        """AWS, for as long as the context lasts."""
        return simulated_aws(seed=seed, accounts=self.accounts, regions=self.regions, size=self.share, limits=self.limits)

    def metered(self, running: SimulatedAws) -> list[Metered]:
        """What was accepted since the last reset, and the meters that it passed."""
        return [self._metered(row) for row in running.counters()["rows"]]

    def _metered(self, row: Mapping[str, Any]) -> Metered:
        account, region, service, action = (row[name] for name in PLACE)
        bare = service == "ec2" and action in _UNPAGED
        seen = Identity(account=account, region=region, service=service, action=action, protocol=Protocol.QUERY, bare=bare)
        call = Call(provider="aws", service=service, operation=action, region=region, account=account)
        rule = next((rule for rule in self.limits if rule.matches(seen)), None)
        meters = []
        if rule is not None:
            actions = "/".join(rule.actions) if rule.shared else action
            meters.append(Meter(f"{service}:{actions}@{account}/{region}", rule.limit))
        return Metered(row["accepted"], quota_of(call, unfiltered=bare), meters)

    def source(
        self, running: SimulatedAws, report: Report | None = None, configuration: Configuration | None = None
    ) -> AwsSource:
        """Clients as boto3 makes them; with a report, as AwsApiCommand makes them."""
        return AwsSource(running, report, configuration)


class AwsSource:
    """A Source. All its clients are made at once, by one thread, as boto3 demands of those who share a session."""

    def __init__(self, aws: SimulatedAws, report: Report | None, configuration: Configuration | None) -> None:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        self.errors = (BotoCoreError, ClientError)
        items = [
            Item(account, region, service)
            for account in aws.accounts
            for service in asked.LISTINGS
            for region in ([HOME] if service in _WITHOUT_REGIONS else aws.regions)
        ]
        self.items = list(interleave(items, quota=lambda item: item.account))
        config = Config(max_pool_connections=_CONNECTIONS, proxies={}, s3={"addressing_style": "path"})
        makers = {
            account: partial(make, endpoint_url=aws.url, config=config)
            for account, make in _makers(aws, report, configuration).items()
        }
        self._clients = {item: makers[item.account](item.service, item.region) for item in self.items}

    def lists(self, item: Item) -> Iterator[Listing]:
        """The lists of a service."""
        for listing in asked.LISTINGS[item.service]:
            yield Listing(self._spell(item, listing.operation), self._pages(item, listing))

    def reason(self, error: Exception) -> str:
        """The code, and how often it was tried."""
        if _code(error) is None:
            return f"{type(error).__name__}: {error}"
        attempts = error.response["ResponseMetadata"].get("RetryAttempts", 0) + 1  # type: ignore[attr-defined]  # a ClientError
        return f"{_code(error)}, gave up after {counted(attempts, 'attempt')}"

    def _pages(self, item: Item, listing: asked.Listing) -> Iterator[list[Found]]:
        size = {"PaginationConfig": {"PageSize": listing.page_size}} if listing.page_size else {}
        for page in self._clients[item].get_paginator(listing.operation).paginate(**size):
            yield [self._found(item, listing, listed) for listed in _items(page, listing.items)]

    def _found(self, item: Item, listing: asked.Listing, listed: Mapping[str, Any]) -> Found:
        return Found(
            type=listing.type,
            id=listed[listing.id],
            listed=listed,
            region=partial(_region, item, listing),
            details={
                detail.operation: Question(self._spell(item, detail.operation), partial(self._ask, item, detail, listed))
                for detail in listing.details
            },
        )

    def _ask(self, item: Item, detail: asked.Detail, listed: Mapping[str, Any]) -> dict[str, Any]:
        """The answer; empty if there is nothing to tell."""
        arguments = {detail.argument: listed[detail.key], **detail.fixed}
        try:
            answer: dict[str, Any] = getattr(self._clients[item], detail.operation)(**arguments)
        except self.errors as error:
            if _code(error) in detail.nothing:
                return {}
            raise
        return {name: value for name, value in answer.items() if name != "ResponseMetadata"}

    def _spell(self, item: Item, operation: str) -> str:
        name = self._clients[item].meta.method_to_api_mapping[operation]
        return f"{item.service}:{name}@{item.account}/{item.region}"


def _makers(aws: SimulatedAws, report: Report | None, configuration: Configuration | None) -> dict[str, Callable[..., Any]]:
    """Account → what makes its clients."""
    import boto3
    from botocore.loaders import Loader
    from botocore.session import Session

    # One loader, without the user's own models: three sessions read each service's description once.
    loader = Loader(extra_search_paths=[Loader.BUILTIN_DATA_PATH], include_default_search_paths=False)

    def session(account: str) -> boto3.Session:
        core = Session()
        core.register_component("data_loader", loader)
        return boto3.Session(**aws.credentials(account), botocore_session=core)

    sessions = {account: session(account) for account in aws.accounts}
    if report is None:
        return {account: plain.client for account, plain in sessions.items()}
    return {
        account: AwsApiCommand(plain, account=account, configuration=configuration, report=report).client
        for account, plain in sessions.items()
    }


def _items(page: dict[str, Any], path: Sequence[str]) -> list[dict[str, Any]]:
    found = [page]
    for name in path:
        found = [item for outer in found for item in outer.get(name, ())]
    return found


def _region(item: Item, listing: asked.Listing, answers: Answers) -> str | None:
    if listing.region != "location":
        return item.region if listing.region == "client" else "global"
    location = answers["get_bucket_location"]
    return None if location is None else location["LocationConstraint"] or HOME


def _code(error: Exception) -> str | None:
    response: dict[str, Any] = getattr(error, "response", {})
    return response["Error"].get("Code") if response else None
