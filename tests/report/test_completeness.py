"""Which parts of an inventory may be believed."""

from __future__ import annotations

import pytest

from cloudretry.core.call import Call
from cloudretry.core.decision import Stop, StopReason
from cloudretry.core.events import CallEnded
from cloudretry.core.outcome import Kind, Outcome, is_absent, is_denied
from cloudretry.report import OperationReport, Report
from cloudretry.report.completeness import completeness


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (OperationReport(calls=3), "complete"),
        (OperationReport(calls=3, refused=1, absent=1), "complete"),  # no such bucket: an answer
        (OperationReport(calls=3, refused=1), "partial"),  # a token for the next page that was too old
        (OperationReport(calls=3, lost=1), "partial"),
        (OperationReport(calls=3, unfinished=1), "partial"),
        (OperationReport(calls=3, lost=3), "partial"),
        (OperationReport(throttled=2), "partial"),  # a call that has not ended
        (OperationReport(calls=3, refused=1, denied=1), "partial"),
        (OperationReport(calls=3, refused=3, denied=3), "denied"),
        (OperationReport(calls=3, refused=2, denied=2, lost=1), "partial"),
    ],
)
def test_one_operation(counts: OperationReport, expected: str) -> None:
    assert completeness([("1", "eu-west-1", "ec2:DescribeVpcs", counts)]) == {
        "1": {"eu-west-1": {"ec2:DescribeVpcs": expected}}
    }


def test_of_a_program_that_did_not_finish_nothing_is_complete() -> None:
    counts = [("1", "a", "s:X", OperationReport(calls=3)), ("1", "a", "s:Y", OperationReport(calls=1, refused=1, denied=1))]
    assert completeness(counts, finished=False) == {"1": {"a": {"s:X": "partial", "s:Y": "denied"}}}


def test_by_account_and_region() -> None:
    good, bad = OperationReport(calls=1), OperationReport(calls=1, lost=1)
    assert completeness(
        [("1", "a", "s:X", good), ("1", "b", "s:X", bad), ("2", None, "s:X", good), (None, "a", "s:Y", bad)]
    ) == {
        "1": {"a": {"s:X": "complete"}, "b": {"s:X": "partial"}},
        "2": {"-": {"s:X": "complete"}},
        "-": {"a": {"s:Y": "partial"}},
    }


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "UnauthorizedOperation", True),
        (400, "AccessDeniedException", True),
        (403, "AuthorizationFailed", True),
        (401, None, True),
        (400, "NotAuthorizedException", True),
        (400, "RequestExpired", True),
        (400, "ExpiredTokenException", True),
        (403, "InvalidClientTokenId", True),
        (400, "OptInRequired", True),
        (404, "NoSuchBucket", False),
        (409, "MissingSubscriptionRegistration", False),
        (400, None, False),
    ],
)
def test_what_is_denied(status: int, code: str | None, expected: bool) -> None:  # noqa: FBT001 - a row
    outcome = Outcome(kind=Kind.FATAL, status=status, code=code)
    assert is_denied(outcome) is expected
    report = Report()
    call = Call(provider="aws", service="ec2", operation="DescribeVpcs")
    report(CallEnded(call, 1, outcome, Stop(StopReason.NOT_RETRYABLE), 0.0))
    assert (report.total.refused, report.total.denied, report.total.lost) == (1, int(expected), 0)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (404, None, True),
        (400, "InvalidVpcID.NotFound", True),
        (400, "AWS.SimpleQueueService.NonExistentQueue", False),
        (400, "NoSuchEntity", True),
        (400, "InvalidNextToken", False),
        (403, "AccessDenied", False),
    ],
)
def test_what_is_absent(status: int, code: str | None, expected: bool) -> None:  # noqa: FBT001 - a row
    assert is_absent(Outcome(kind=Kind.FATAL, status=status, code=code)) is expected
