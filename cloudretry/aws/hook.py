"""One client's handlers: they sit in the seat of botocore's generic retry handler, and of nothing else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from cloudretry.aws.carry import put_on_error, put_on_response
from cloudretry.aws.classify import outcome_of
from cloudretry.aws.repair import QUERY_PROTOCOLS, protocol_of, readable_error
from cloudretry.aws.seats import Seats, remove_limiter
from cloudretry.aws.transport import put_before
from cloudretry.core.call import Call
from cloudretry.core.decision import StopReason
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.core.replayable import aws_replayable
from cloudretry.core.settings import single_attempt
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from botocore.awsrequest import AWSRequest, AWSResponse
    from botocore.client import BaseClient
    from botocore.model import OperationModel

    from cloudretry.core.machine import RetryMachine
    from cloudretry.runtime.engine import Bounds, Engine

__all__ = ["ClientHook"]

logger = logging.getLogger("cloudretry")

_KEY: Final = "cloudretry"  # in a request's context, which botocore keeps for all attempts of a call and for nothing else
_EXHAUSTED: Final = frozenset({StopReason.MAX_RETRIES, StopReason.TRANSIENT_RETRIES, StopReason.TIME_BUDGET})
_UNKNOWN: Final = object()


class ClientHook:
    """The state that a client's handlers share. It never refers to the client, so that both are freed at once.

    Thread-safe; `engine` may be replaced at any time and holds for calls that begin later.
    """

    def __init__(self, client: BaseClient, engine: Engine, *, account: str | None, bounds: Bounds | None) -> None:
        self.engine = engine
        self._service_model = client.meta.service_model
        self._service = client.meta.service_model.service_id.hyphenize()
        self._region = client.meta.region_name
        self._host = client.meta.endpoint_url.partition("://")[2].partition("/")[0]
        self._credentials = client._request_signer._credentials  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way
        self._account: str | object | None = account or _UNKNOWN
        self._bounds = single_attempt if _explicit_attempts(client) == 1 else bounds
        self._calls: dict[str, Call] = {}

    @classmethod
    def on(cls, client: BaseClient, engine: Engine, *, account: str | None = None, bounds: Bounds | None = None) -> ClientHook:
        """Make a hook and let it take the generic retry handler's seat, under its id; in observe mode, sit beside it.

        `bounds` narrows the settings of each call, for clients inside credential providers.
        """
        hook = cls(client, engine, account=account, bounds=bounds)
        if engine.settings.providers["aws"].mode == "observe":
            hook._sit_beside(client)
        else:
            hook._take_over(client)
        seat = Seats(client)
        seat.take("after-call", hook.after_call, "cloudretry-end")
        seat.take("after-call-error", hook.after_call_error, "cloudretry-error")
        return hook

    def _sit_beside(self, client: BaseClient) -> None:
        seats = Seats(client)
        seats.take("request-created", self.observed_request_created, "cloudretry-begin")
        seats.take("needs-retry", self.observed_needs_retry, "cloudretry-observe")

    def _take_over(self, client: BaseClient) -> None:
        seats = Seats(client)
        seats.take("request-created", self.request_created, "seed-max-attempts")
        seats.take("needs-retry", self.needs_retry, "retry-config")
        if protocol_of(self._service_model) in QUERY_PROTOCOLS:
            seats.take("before-parse", readable_error, "cloudretry-readable")
        put_before(client)
        remove_limiter(client)
        _report_explicit(client)

    def request_created(self, request: AWSRequest, operation_name: str, **_: object) -> None:
        """Begin a call with its first attempt, and tell the server truly how many there may be."""
        machine = self._machine(request.context, operation_name)
        machine.ended = None  # an earlier attempt may have been answered by a redirect
        retries = request.context.get("retries")
        if retries is not None:
            retries["max"] = machine.settings.max_retries + 1

    def observed_request_created(self, request: AWSRequest, operation_name: str, **_: object) -> None:
        """Begin a call with its first attempt."""
        self._machine(request.context, operation_name)

    def needs_retry(
        self,
        response: tuple[AWSResponse, dict[str, Any]] | None,
        operation: OperationModel,
        caught_exception: Exception | None,
        request_dict: dict[str, Any],
        **_: object,
    ) -> float | None:
        """0.0 after having waited: send again now. None: no. Any other value means something else to some botocore."""
        machine = self._machine(request_dict["context"], operation.name)
        outcome = outcome_of(response, operation, caught_exception)
        if outcome is None:
            machine.answered()
            return None
        machine.rewindable = _rewindable(request_dict.get("body"))
        if self.engine.retried(machine, outcome):
            return 0.0
        if outcome.exception is not None and caught_exception is None:
            raise outcome.exception  # the answer is damaged; botocore would hand it to the caller as data
        return None

    def observed_needs_retry(
        self,
        response: tuple[AWSResponse, dict[str, Any]] | None,
        operation: OperationModel,
        caught_exception: Exception | None,
        request_dict: dict[str, Any],
        **_: object,
    ) -> None:
        """Record the attempt; botocore's own handler decides."""
        machine = self._machine(request_dict["context"], operation.name)
        outcome = outcome_of(response, operation, caught_exception)
        if outcome is None:
            machine.answered()
        else:
            self.engine.observed(machine, outcome)

    def after_call(self, parsed: dict[str, Any], context: dict[str, Any], **_: object) -> None:
        """The call is over and has a response."""
        machine = context.get(_KEY)
        if machine is None:
            return
        if machine.ended is not None and machine.ended.reason is not StopReason.ANSWERED:
            put_on_response(parsed, machine.history())
            if machine.ended.reason in _EXHAUSTED:
                parsed["ResponseMetadata"]["MaxAttemptsReached"] = True
        self.engine.end(machine)

    def after_call_error(self, exception: Exception, context: dict[str, Any], **_: object) -> None:
        """The call is over and has no response."""
        machine = context.get(_KEY)
        if machine is None:
            return
        if machine.ended is None:  # botocore could not read the answer and asked nobody
            unreadable = Outcome(
                kind=Kind.FATAL, code=type(exception).__name__, exception=exception, wall=current_clock().wall()
            )
            machine.record(unreadable, current_clock().monotonic())
        put_on_error(exception, machine.history())
        self.engine.end(machine)

    def _machine(self, context: dict[str, Any], operation_name: str) -> RetryMachine:
        machine: RetryMachine | None = context.get(_KEY)
        if machine is None:
            call = self._calls.get(operation_name) or self._call(operation_name)
            machine = context[_KEY] = self.engine.begin(call, self._bounds)
        return machine

    def _call(self, operation_name: str) -> Call:
        operation = self._service_model.operation_model(operation_name)
        call = Call(
            provider="aws",
            service=self._service,
            operation=operation_name,
            region=self._region,
            account=self._account_id(),
            host=self._host,
            replayable=aws_replayable(
                self._service,
                operation_name,
                method=operation.http.get("method", "POST"),
                has_token=bool(operation.idempotent_members),
            ),
        )
        if self._account is not _UNKNOWN:
            self._calls[operation_name] = call
        return call

    def _account_id(self) -> str | None:
        """The account, where it is given or the credentials know it. Looked up once: keys rotate, the account stays."""
        if self._account is _UNKNOWN:
            try:
                frozen = self._credentials.get_frozen_credentials() if self._credentials else None
            except Exception:  # noqa: BLE001 - signing asks for the same credentials next, and raises the SDK's own error
                return None
            self._account = getattr(frozen, "account_id", None)
        return self._account  # type: ignore[return-value]  # no longer _UNKNOWN


def _rewindable(body: object) -> bool:
    """Whether botocore can go back to the start of a body: bytes and text always, a stream if it can seek."""
    if not hasattr(body, "read"):
        return True
    seekable = getattr(body, "seekable", None)
    return bool(seekable()) if seekable is not None else hasattr(body, "seek")


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
