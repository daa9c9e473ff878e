"""One client's handlers: they sit in the seat of botocore's generic retry handler, and of nothing else."""

from __future__ import annotations

import logging
from inspect import ismethod
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakMethod

from botocore.exceptions import ConnectionError, HTTPClientError  # noqa: A004 - botocore's name
from botocore.parsers import ResponseParserError

from cloudretry import errors
from cloudretry.aws.carry import put_on_error, put_on_response
from cloudretry.aws.classify import outcome_of, outcome_of_error
from cloudretry.aws.egress import Exhausted
from cloudretry.aws.errors import TurnTimeout
from cloudretry.aws.paging import Paging, paging_of
from cloudretry.aws.principal import known_account, principal_of
from cloudretry.aws.repair import QUERY_PROTOCOLS, protocol_of, readable_error
from cloudretry.aws.seats import Seats
from cloudretry.aws.transport import put_before
from cloudretry.core.call import Call
from cloudretry.core.decision import EXHAUSTED, StopReason
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.core.replayable import aws_replayable
from cloudretry.core.settings import for_credentials, single_attempt
from cloudretry.runtime.clock import current_clock
from cloudretry.runtime.current import CURRENT, Current
from cloudretry.runtime.outer_loops import OUTER_LOOPS, asked_by, fingerprint
from cloudretry.runtime.reach import host_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from botocore.awsrequest import AWSRequest, AWSResponse
    from botocore.client import BaseClient
    from botocore.model import OperationModel

    from cloudretry.core.lost import Page
    from cloudretry.core.machine import RetryMachine
    from cloudretry.runtime.engine import Bounds, Engine

__all__ = ["ClientHook", "overdue", "refuse_damaged", "weakly"]

logger = logging.getLogger("cloudretry")

_OUTER: Final = "cloudretry-outer"
_KEY: Final = "cloudretry"  # in a request's context, which botocore keeps for all attempts of a call and for nothing else
_PAGE: Final = "cloudretry-page"
_UNFILTERED: Final = frozenset({"Action", "Version", "NextToken", "DryRun"})
"""The parameters of an EC2 request that neither filters nor says how long a page may be: it is metered more strictly."""


class ClientHook:
    """The state that a client's handlers share. It never refers to the client, so that both are freed at once.

    Thread-safe; `engine` may be replaced at any time and holds for calls that begin later.
    """

    def __init__(self, client: BaseClient, engine: Engine, *, account: str | None, bounds: Bounds | None) -> None:
        self.engine = engine
        self._service_model = client.meta.service_model
        self._service = client.meta.service_model.service_id.hyphenize()
        self._region = client.meta.region_name
        self._host = host_of(client.meta.endpoint_url)
        self._credentials = client._request_signer._credentials  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way
        self._account = account
        self._bounds = single_attempt if _explicit_attempts(client) == 1 else bounds
        self._paced = bounds is not for_credentials
        self._observes = engine.settings.providers["aws"].mode == "observe"
        self._calls: dict[str, Call] = {}
        self._loader = client._loader  # type: ignore[attr-defined]  # noqa: SLF001 - as above
        self._listings: dict[str, Paging | None] = {}

    @classmethod
    def on(cls, client: BaseClient, engine: Engine, *, account: str | None = None, bounds: Bounds | None = None) -> ClientHook:
        """Make a hook and let it take the generic retry handler's seat, under its id; in observe mode, sit beside it.

        `bounds` narrows the settings of each call, for clients inside credential providers.
        """
        hook, seats = cls(client, engine, account=account, bounds=bounds), Seats(client)
        if hook._observes:
            hook._sit_beside(seats)
        else:
            hook._take_over(client, seats)
        seats.take("before-parameter-build", hook.before_parameter_build, "cloudretry-page", where="_last")
        hook._stand_around(client._endpoint)  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way
        seats.done()
        return hook

    def renew(self, engine: Engine, account: str | None) -> None:
        """Let another engine, and another account if one is named, hold for calls that begin later."""
        if (engine.settings.providers["aws"].mode == "observe") != self._observes:
            logger.warning("a client's mode is decided when it is attached; it stays as it is")
        self.engine = engine
        if account is not None:
            self._account = account
            self._calls.clear()

    def _sit_beside(self, seats: Seats) -> None:
        seats.take("request-created", self.observed_request_created, "cloudretry-begin", where="_first")
        seats.take("needs-retry", self.observed_needs_retry, "cloudretry-observe")

    def _take_over(self, client: BaseClient, seats: Seats) -> None:
        seats.take("request-created", self.request_created, "seed-max-attempts", where="_first")
        seats.take("needs-retry", self.needs_retry, "retry-config")
        if protocol_of(self._service_model) in QUERY_PROTOCOLS:
            seats.take("before-parse", readable_error, "cloudretry-readable")
        seats.remove_limiter()
        self._stand_before(client)
        _report_explicit(client)

    def _stand_before(self, client: BaseClient) -> None:
        """See what a client really sends."""
        put_before(client)

    def _stand_around(self, endpoint: Any) -> None:
        """See how each call ends: botocore's events don't tell of one that is interrupted, nor behind a handler that raises."""
        make = weakly(endpoint.make_request)

        def make_request(operation_model: OperationModel, request_dict: dict[str, Any]) -> Any:
            context = self.begun(request_dict)
            try:
                http, parsed = make()(operation_model, request_dict)
            except BaseException as error:
                self.failed(error, context)
                raise
            self.answered(parsed, context)
            return http, parsed

        endpoint.make_request = make_request

    def before_parameter_build(
        self, params: dict[str, Any], model: OperationModel, context: dict[str, Any], **_: object
    ) -> None:
        """See for which page of a listing the program asks: here its own names stand, whatever the protocol.

        It comes after what a resource makes of values of its own, as `answered` comes before what one makes of the answer.
        """
        name = model.name
        if name not in self._listings:
            where = self._region, self._host, id(self._credentials)
            self._listings[name] = paging_of(self._loader, self._service_model, name, *where)
        paging = self._listings[name]
        if paging is not None:
            context[_PAGE] = paging, *paging.page(params), params

    def request_created(self, request: AWSRequest, operation_name: str, **_: object) -> Any:
        """Begin a call's attempt with its turn: waited for here, so that no signature grows old in the queue."""
        machine = self._begin(request, operation_name)
        try:
            self.engine.take_turn(machine)
        except errors.TurnTimeout as late:
            raise overdue(request, late) from None

    def _begin(self, request: AWSRequest, operation_name: str) -> RetryMachine:
        """Begin a call with its first attempt, before it is signed, and tell the server truly how many there may be."""
        machine = self._machine(request.context, operation_name)
        machine.ended = None  # an earlier attempt may have been answered by a redirect
        if machine.parameters is None and self._paced:
            who = self._credentials
            OUTER_LOOPS.begin(
                machine,
                lambda: fingerprint(
                    principal_of(who), request.method, request.url, request.data, asked_by(request.headers.items())
                ),
                None if _PAGE not in request.context else lambda: _listing(principal_of(who), *request.context[_PAGE]),
            )
        if _OUTER in request.context:
            CURRENT.set(Current(self.engine, machine))
        retries = request.context.get("retries")
        if retries is not None:
            retries["max"] = machine.settings.max_retries + 1
        place = machine.place
        if place is not None:
            if machine.call.account is None and place.principal is None:
                place.principal = principal_of(self._credentials)
            if self._service == "ec2":
                place.unfiltered = not (request.data.keys() - _UNFILTERED) if isinstance(request.data, dict) else False
        return machine

    def observed_request_created(self, request: AWSRequest, operation_name: str, **_: object) -> None:
        """Begin a call with its first attempt, before it is signed."""
        self._machine(request.context, operation_name).ended = None

    def needs_retry(
        self,
        response: tuple[AWSResponse, dict[str, Any]] | None,
        operation: OperationModel,
        caught_exception: Exception | None,
        request_dict: dict[str, Any],
        **_: object,
    ) -> Any:
        """0.0 after having waited: send again now. None: no. Any other value means something else to some botocore."""
        machine, outcome = self._came_to(response, operation, caught_exception, request_dict)
        if outcome is None:
            return None
        if self.engine.retried(machine, outcome):
            return 0.0
        refuse_damaged(outcome, caught_exception)
        return None

    def _came_to(
        self,
        response: tuple[AWSResponse, dict[str, Any]] | None,
        operation: OperationModel,
        caught_exception: Exception | None,
        request_dict: dict[str, Any],
    ) -> tuple[RetryMachine, Outcome | None]:
        """A call, and what its attempt came to; None: the provider answered."""
        machine = self._machine(request_dict["context"], operation.name)
        if response is not None and isinstance(response[0], Exhausted):
            response[0].tell(response[1])
        outcome = outcome_of(response, operation, caught_exception)
        if machine.journey is not None:
            outcome = machine.journey.seen(outcome)
        self.engine.landed(machine, outcome)
        if outcome is None:
            machine.answered()
        else:
            machine.rewindable = _rewindable(request_dict.get("body"))
        return machine, outcome

    def observed_needs_retry(
        self,
        response: tuple[AWSResponse, dict[str, Any]] | None,
        operation: OperationModel,
        caught_exception: Exception | None,
        request_dict: dict[str, Any],
        **_: object,
    ) -> Any:
        """Record the attempt; botocore's own handler decides."""
        machine = self._machine(request_dict["context"], operation.name)
        outcome = outcome_of(response, operation, caught_exception)
        if outcome is None:
            machine.answered()
        else:
            self.engine.observed(machine, outcome)

    @staticmethod
    def begun(request_dict: dict[str, Any]) -> dict[str, Any]:
        """A call begins, perhaps inside another one, whose signing needs it. Its context."""
        context: dict[str, Any] = request_dict["context"]
        context[_OUTER] = CURRENT.get()
        return context

    def answered(self, parsed: dict[str, Any], context: dict[str, Any]) -> None:
        """The call is over and has a response."""
        CURRENT.set(context.pop(_OUTER))
        machine = context.get(_KEY)
        if machine is None:
            return
        if machine.ended is None or machine.ended.reason is StopReason.ANSWERED:
            if _PAGE in context:
                paging, page, of, _ = context[_PAGE]
                machine.page = paging.answered(machine.page or page, of, parsed)
        else:
            put_on_response(parsed, machine.history())
            if machine.ended.reason in EXHAUSTED:
                parsed["ResponseMetadata"]["MaxAttemptsReached"] = True
        self.engine.end(machine)

    def failed(self, error: BaseException, context: dict[str, Any]) -> None:
        """The call is over and has no response. Where the program ended it, wherever it was, it counts as cancelled."""
        CURRENT.set(context.pop(_OUTER))
        machine = context.get(_KEY)
        if machine is None:
            return
        if isinstance(error, Exception):
            if machine.ended is None:  # nobody was asked about this attempt
                self._unasked(machine, error)
            put_on_error(error, machine.history())
        elif machine.ended is None:  # who only observes can't see whether a request is on its way: it most likely is
            (machine.interrupt if self._observes else machine.cancel)()
        self.engine.end(machine)

    def _unasked(self, machine: RetryMachine, exception: Exception) -> None:
        """An attempt that ended without a question whether to repeat it.

        botocore could not read the answer, or its legacy handler (in observe mode) had enough; or there was no attempt at all,
        because the request could not be signed or a handler of the user's own raised.
        """
        if isinstance(exception, ResponseParserError):
            outcome = Outcome(kind=Kind.FATAL, code=type(exception).__name__, exception=exception, wall=current_clock().wall())
            machine.record(outcome, current_clock().monotonic())
        elif isinstance(exception, ConnectionError | HTTPClientError) and self._observes:
            self.engine.observed(machine, outcome_of_error(exception))
        else:
            machine.abandon(outcome_of_error(exception))

    def _machine(self, context: dict[str, Any], operation_name: str) -> RetryMachine:
        machine: RetryMachine | None = context.get(_KEY)
        if machine is None:
            call = self._calls.get(operation_name) or self._call(operation_name)
            machine = context[_KEY] = self.engine.begin(call, self._bounds)
            if _PAGE in context:
                machine.page = context[_PAGE][1]
            if not self._paced:
                machine.place = None
        elif machine.call.account is None and (  # signing has fetched credentials since
            self._account_id() is not None or (machine.call.principal is None and self._principal() is not None)
        ):
            self.engine.rename(machine, self._call(operation_name), self._bounds)
        return machine

    def _call(self, operation_name: str) -> Call:
        operation = self._service_model.operation_model(operation_name)
        call = self._calls[operation_name] = Call(
            provider="aws",
            service=self._service,
            operation=operation_name,
            region=self._region,
            account=self._account_id(),
            principal=self._principal(),
            host=self._host,
            replayable=aws_replayable(
                self._service,
                operation_name,
                method=operation.http.get("method", "POST"),
                has_token=bool(operation.idempotent_members),
            ),
        )
        return call

    def _principal(self) -> str | None:
        """Who calls, where the account is not known."""
        named = None if self._account is not None else principal_of(self._credentials)
        return None if named is None else f"key:{named}"

    def _account_id(self) -> str | None:
        """The account, where it is given or the credentials know it by now; keys rotate, the account stays.

        Never asks for credentials: that may take a network call, or be what this very call is for.
        """
        if self._account is None:
            self._account = known_account(self._credentials)
            if self._account is not None:
                self._calls.clear()
        return self._account


def overdue(request: AWSRequest, late: errors.TurnTimeout) -> TurnTimeout:
    """The SDK's error for a call whose turn would come too late."""
    return TurnTimeout(endpoint_url=str(request.url), error=str(late))


def _listing(who: str | None, paging: Paging, _page: Page, _of: object, params: dict[str, Any]) -> bytes | None:
    return fingerprint(who, paging.listed(params))


def refuse_damaged(outcome: Outcome, caught_exception: Exception | None) -> None:
    """Raise what is wrong with a damaged answer: botocore would hand it to the caller as data."""
    if outcome.exception is not None and caught_exception is None:
        raise outcome.exception


def weakly(method: Callable[..., Any]) -> Callable[[], Any]:
    """Gives it, and does not keep its object alive; a function that somebody has put in its place, as it is."""
    return WeakMethod(method) if ismethod(method) else lambda: method


def _rewindable(body: Any) -> bool:
    """Whether botocore can go back to the start of a body: bytes and text always, a stream if it can seek."""
    body = getattr(body, "_raw", body)  # botocore's wrapper of a body that it signs in chunks can seek if this can
    if not hasattr(body, "read"):
        return True
    seekable = getattr(body, "seekable", hasattr(body, "seek"))
    try:
        return bool(seekable() if callable(seekable) else seekable)
    except Exception:  # noqa: BLE001 - a stream of the user's own making
        return False


def _explicit_attempts(client: BaseClient) -> int | None:
    """The total of attempts that the user set for the SDK, by Config, environment or profile; None if nobody did."""
    retries = getattr(client.meta.config, "retries", None) or {}
    attempts: int | None = retries.get("total_max_attempts")
    return attempts


_reported: set[int] = set()


def _report_explicit(client: BaseClient) -> None:
    attempts = _explicit_attempts(client)
    if attempts not in {None, 1} and attempts not in _reported:
        _reported.add(attempts)
        logger.warning("the SDK's setting of %d attempts is not used: cloudretry's own max_retries holds", attempts)
