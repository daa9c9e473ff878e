"""What was lost is on a list, as records; what an outer loop got in the end is on another one."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from cloudretry.core.call import Call
from cloudretry.core.decision import Stop, StopReason
from cloudretry.core.events import CallEnded
from cloudretry.core.history import printable
from cloudretry.core.lost import LostCall, Page
from cloudretry.core.machine import ANSWERED
from cloudretry.core.outcome import Kind, Outcome
from cloudretry.errors import CallsLost, PoolUnavailable
from cloudretry.report import Report

CALL = Call(provider="aws", service="ec2", operation="DescribeVpcs", region="eu-west-1", account="111122223333")
THROTTLED = Outcome(kind=Kind.THROTTLED, status=503, code="RequestLimitExceeded", request_id="r-1", wall=1_764_489_600.0)
GIVEN_UP = Stop(StopReason.MAX_RETRIES, 30.0)
TOKEN = "eyJ2IjoiMiJ9"
ENDED = CallEnded(CALL, 9, THROTTLED, GIVEN_UP, 31.7, key="vpcs")
LOST = LostCall.of(ENDED, page=Page(3, TOKEN), at=1_764_489_601.5, rule="max_retries=8 (c.toml:3:1)")
EVENT = replace(ENDED, lost=LOST)
LINE = (
    "ec2:DescribeVpcs@111122223333/eu-west-1 attempts=9 waited=31.7s last=503 RequestLimitExceeded reason=max_retries"
    " request_id=r-1 page=3 retry_at=2025-11-30T08:00:30.000+00:00 rule=max_retries=8 (c.toml:3:1)"
)


def test_a_record_has_what_the_providers_support_asks_for() -> None:
    lost = LOST
    assert (lost.provider, lost.service, lost.operation) == ("aws", "ec2", "DescribeVpcs")
    assert (lost.account, lost.region, lost.page, lost.token) == ("111122223333", "eu-west-1", 3, TOKEN)
    assert (lost.attempts, lost.waited, lost.status, lost.code) == (9, 31.7, 503, "RequestLimitExceeded")
    assert (lost.reason, lost.request_id) == ("max_retries", "r-1")
    assert lost.retry_at == datetime(2025, 11, 30, 8, 0, 30, tzinfo=timezone.utc)
    assert lost.at == datetime(2025, 11, 30, 8, 0, 1, 500_000, tzinfo=timezone.utc)


def test_calls_are_told_apart_by_how_they_ended() -> None:
    report = Report()
    for attempts, stop in ((1, ANSWERED), (3, ANSWERED), (2, ANSWERED), (9, GIVEN_UP)):
        report(replace(ENDED, attempts=attempts, stop=stop))
    assert (report.total.calls, report.total.retried, report.total.lost) == (4, 2, 1)


def test_it_prints_as_one_line_without_the_token() -> None:
    assert str(LOST) == LINE
    assert TOKEN not in repr(EVENT) + repr(LOST)


def test_what_is_not_known_is_left_out_of_the_line() -> None:
    bare = LostCall.of(CallEnded(replace(CALL, account=None), 1, None, Stop(StopReason.CANCELLED), 0.0))
    assert str(bare) == "ec2:DescribeVpcs@-/eu-west-1 attempts=1 waited=0.0s last=- - reason=cancelled request_id=-"
    assert (bare.retry_at, bare.at, bare.page, bare.token) == (None, None, None, None)


def test_a_principal_stands_where_no_account_is_known() -> None:
    named = LostCall.of(replace(ENDED, call=replace(CALL, account=None, principal="key:3f9a")))
    assert named.call == "ec2:DescribeVpcs@key:3f9a/eu-west-1"
    assert named.account is None


def test_it_survives_json_and_pickle() -> None:
    written = json.loads(json.dumps(LOST.to_dict()))
    assert written["line"] == LINE
    assert (written["token"], written["retry_at"]) == (TOKEN, "2025-11-30T08:00:30.000+00:00")
    assert LostCall.from_dict(written) == LOST == pickle.loads(pickle.dumps(LOST))  # noqa: S301 - our own bytes


@pytest.mark.parametrize(("length", "kept"), [(4096, True), (4097, False)])
def test_a_token_that_is_data_is_left_out(length: int, kept: bool) -> None:  # noqa: FBT001 - a row
    lost = LostCall.of(ENDED, page=Page(2, "x" * length))
    assert (lost.page, lost.token is not None) == (2, kept)


def test_a_server_can_not_forge_fields() -> None:
    forged = replace(THROTTLED, code="X\nlost call s3:Y", request_id="a b" * 100)
    lost = LostCall.of(replace(ENDED, outcome=forged))
    assert lost.code == "X?lost?call?s3:Y"
    assert lost.request_id is not None
    assert len(lost.request_id) == 128


def test_no_part_of_a_line_can_forge_another() -> None:
    evil = "s-1\u2028lost call x\x1b[31m\x85 " + "A" * 300
    call = replace(CALL, service=evil, operation=f"GET {evil}", region=evil, account=evil)
    lost = replace(LostCall.of(replace(ENDED, call=call)), reason=evil, code=evil, request_id=evil, rule=evil)
    for line in (str(lost), str(call)):
        assert line.isascii()
        assert line.isprintable()
        assert max(map(len, line.replace("@", ":").replace("/", ":").replace(" ", ":").split(":"))) <= 140
    assert str(call).split(" ")[0] == f"{printable(evil)}:GET"
    assert str(call).count(" ") == 1


def test_when_a_pools_member_can_be_had() -> None:
    error, when = PoolUnavailable("no member"), datetime(2026, 1, 1, tzinfo=timezone.utc)
    error.retry_at = when
    nobody = Outcome(kind=Kind.NOT_SENT, exception=error)
    assert LostCall.of(CallEnded(CALL, 1, nobody, Stop(StopReason.POOL_UNAVAILABLE), 0.0)).retry_at == when


def report_of(*events: Any) -> Report:
    report = Report()
    for event in events:
        report(event)
    return report


def test_an_answer_to_the_same_call_takes_it_off_the_list() -> None:
    again = replace(EVENT, attempts=1, rounds=1)
    other = replace(EVENT, key="other")
    answered = CallEnded(CALL, 1, None, ANSWERED, 0.0, rounds=2, key="vpcs")
    report = report_of(EVENT, other, again, answered)
    assert (report.total.calls, report.total.lost, report.total.recovered) == (4, 1, 2)
    assert report.lost == (LOST,)
    assert report.recovered == (LOST, LOST)


@pytest.mark.parametrize(("page", "absent"), [(None, 1), (Page(1), 1), (Page(2, TOKEN), 0), (Page(None, TOKEN), 0)])
def test_that_a_page_behind_the_first_is_not_there_is_no_answer(page: Page | None, absent: int) -> None:
    gone = Outcome(kind=Kind.FATAL, status=404, code="ResourceNotFoundException", wall=1.0)
    refused = CallEnded(CALL, 1, gone, Stop(StopReason.NOT_RETRYABLE), 0.0, page=page)
    total = report_of(refused).total
    assert (total.refused, total.absent, total.lost) == (1, absent, 0)


def test_what_was_lost_under_another_name_recovers_there() -> None:
    """The account became known between the rounds."""
    unnamed = replace(CALL, account=None)
    answered = CallEnded(CALL, 1, None, ANSWERED, 0.0, rounds=1, key="vpcs")
    operations = report_of(replace(EVENT, call=unnamed), answered).operations
    assert (operations[unnamed].lost, operations[unnamed].recovered) == (0, 1)
    assert (operations[CALL].lost, operations[CALL].recovered) == (0, 0)


def test_an_answer_counts_once() -> None:
    answered = CallEnded(CALL, 1, None, ANSWERED, 0.0, rounds=1, key="vpcs")
    report = report_of(EVENT, answered, answered, EVENT)
    assert (report.total.lost, report.total.recovered) == (1, 1)


def test_losses_of_another_report_do_not_recover_here() -> None:
    report = report_of(CallEnded(CALL, 1, None, ANSWERED, 0.0, rounds=1, key="vpcs"))
    assert (report.total.calls, report.total.lost, report.total.recovered) == (1, 0, 0)


def test_the_list_is_bounded_and_the_counts_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloudretry.report.report._MOST_LISTED", 2)
    answered = CallEnded(CALL, 1, None, ANSWERED, 0.0, rounds=3, key="vpcs")
    report = report_of(EVENT, EVENT, EVENT)
    assert (report.total.lost, len(report.lost)) == (3, 2)
    report(answered)
    assert (report.total.lost, report.total.recovered) == (1, 2)  # what is not on the list can't recover


def test_listings_that_were_not_read_to_their_end() -> None:
    first = CallEnded(CALL, 1, None, ANSWERED, 0.0, page=Page(1, leads_on=True))
    middle = replace(first, page=Page(2, "t", follows=True, leads_on=True))
    last = replace(first, page=Page(3, "u", follows=True))
    other = replace(last, call=replace(CALL, region="eu-west-2"))
    assert report_of(first, middle, last).total.unfinished == 0
    assert report_of(first, first, middle, last).total.unfinished == 1
    assert report_of(first, replace(EVENT, page=Page(2, "t", follows=True))).total.unfinished == 0  # which is a loss
    assert report_of(first, other).total.unfinished == 1  # its first page was told to another report


def test_who_asks_is_told_by_lines() -> None:
    with pytest.raises(CallsLost) as caught:
        report_of(EVENT).raise_if_lost()
    assert caught.value.lost == (LINE,)
    report_of(EVENT, CallEnded(CALL, 1, None, ANSWERED, 0.0, key="vpcs")).raise_if_lost()
