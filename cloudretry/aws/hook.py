"""One client's handlers: they sit in the seat of botocore's generic retry handler, and of nothing else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from cloudretry.aws.carry import put_on_error, put_on_response
from cloudretry.aws.classify import classify_error, classify_response, corrupt
from cloudretry.core.call import Call
from cloudretry.core.decision import StopReason
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.core.replayable import aws_replayable
from cloudretry.runtime.clock import current_clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from botocore.awsrequest import AWSRequest, AWSResponse
    from botocore.client import BaseClient
    from botocore.hooks import BaseEventHooks
    from botocore.model import OperationModel

    from cloudretry.core.machine import RetryMachine
    from cloudretry.runtime.engine import Engine

__all__ = ["ClientHook"]

logger = logging.getLogger("cloudretry")

_KEY: Final = "cloudretry"  # in a request's context, which botocore keeps for all attempts of a call and for nothing else
_EXHAUSTED: Final = frozenset({StopReason.MAX_RETRIES, StopReason.TRANSIENT_RETRIES, StopReason.TIME_BUDGET})
_UNKNOWN: Final = object()


class ClientHook:
    """The state that a client's handlers share. It never refers to the client, so that both are freed at once.

    Thread-safe; `engine` may be replaced at any time and holds for calls that begin later.
    """

    def __init__(self, client: BaseClient, engine: Engine, *, account: str | None = None) -> None:
        self.engine = engine
        self._service_model = client.meta.service_model
        self._service = client.meta.service_model.service_id.hyphenize()
        self._region = client.meta.region_name
        self._host = client.meta.endpoint_url.partition("://")[2].partition("/")[0]
        self._credentials = client._request_signer._credentials  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public way
        self._account: str | object | None = account or _UNKNOWN
        self._single_attempt = _explicit_attempts(client) == 1
        self._calls: dict[str, Call] = {}

    @classmethod
    def on(cls, client: BaseClient, engine: Engine, *, account: str | None = None) -> ClientHook:
        """Make a hook and let it take the generic retry handler's seat, under its id; in observe mode, sit beside it."""
        hook = cls(client, engine, account=account)
        events, service = client.meta.events, hook._service
        if engine.settings.providers["aws"].mode == "observe":
            _take_seat(events, f"request-created.{service}", hook.observed_request_created, f"cloudretry-begin-{service}")
            _take_seat(events, f"needs-retry.{service}", hook.observed_needs_retry, f"cloudretry-observe-{service}")
        else:
            _take_seat(events, f"request-created.{service}", hook.request_created, f"seed-max-attempts-{service}")
            _take_seat(events, f"needs-retry.{service}", hook.needs_retry, f"retry-config-{service}")
            _report_explicit(client)
        _take_seat(events, f"after-call.{service}", hook.after_call, f"cloudretry-end-{service}")
        _take_seat(events, f"after-call-error.{service}", hook.after_call_error, f"cloudretry-error-{service}")
        return hook

    def request_created(self, request: AWSRequest, operation_name: str, **_: object) -> None:
        """Begin a call with its first attempt, and tell the server truly how many there may be."""
        machine = self._machine(request.context, operation_name)
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
        outcome = self._outcome(response, operation, caught_exception)
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
        outcome = self._outcome(response, operation, caught_exception)
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

    def _outcome(
        self, response: tuple[AWSResponse, dict[str, Any]] | None, operation: OperationModel, error: Exception | None
    ) -> Outcome | None:
        """None: the provider answered."""
        if error is not None:
            return classify_error(error, current_clock().wall())
        if response is None:
            return None
        http, parsed = response
        if http.status_code < 400 and "x-amz-crc32" not in http.headers:  # noqa: PLR2004 - most calls end here
            return None
        wall = current_clock().wall()
        return classify_response(http, parsed, operation, wall) or corrupt(http, wall)

    def _machine(self, context: dict[str, Any], operation_name: str) -> RetryMachine:
        machine: RetryMachine | None = context.get(_KEY)
        if machine is None:
            call = self._calls.get(operation_name) or self._call(operation_name)
            machine = context[_KEY] = self.engine.begin(call, single_attempt=self._single_attempt)
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


def _take_seat(events: BaseEventHooks, event: str, handler: Callable[..., Any], seat: str) -> None:
    """Put a handler under an id in whose place another may already be; a later registration under it does nothing."""
    events.unregister(event, unique_id=seat)
    events.register(event, handler, unique_id=seat)


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
