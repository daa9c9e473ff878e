"""The tests of boto3's clients, for aiobotocore's: the same servers, the same requests, the same errors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tests.aws import (
    test_broken_connections,
    test_codes,
    test_delays,
    test_egress,
    test_history,
    test_nothing_vanishes,
    test_pacing,
    test_repairs,
    test_requests,
    test_transient,
)
from tests.aws.test_broken_connections import tls
from tests.aws.test_delays import throttled_once

__all__ = ["throttled_once", "tls"]

pytestmark = pytest.mark.wire

MODULES = (
    test_broken_connections,
    test_codes,
    test_delays,
    test_egress,
    test_history,
    test_nothing_vanishes,
    test_pacing,
    test_repairs,
    test_requests,
    test_transient,
)
OTHERWISE = {
    "test_a_kept_alive_connection_that_was_closed_costs_nothing": "nobody looks at it while the loop does not run",
    "test_a_redirect_that_nobody_follows_is_a_refusal": "aiohttp follows it",
    "test_botocore_is_told_none_or_zero_and_nothing_else": "our own",
    "test_a_presigned_url_takes_no_turn": "nothing is an operation in these",
    "test_a_payload_that_looks_like_a_page_is_the_users_own": "as above",
    "test_organizations_are_listed_however_often_they_throttle": "as above",
    "test_a_body_that_is_cut_while_the_caller_reads_is_recorded": "as above",
    "test_answers_without_a_send_give_their_turns_back": "they are other classes",
    "test_a_call_made_while_another_is_signed_does_not_take_its_place": "a loop within a loop",
}
"""What can't be the same."""


def shared(*modules: Any) -> Iterator[tuple[str, Any]]:
    """Those whose clients come from our fixtures."""
    for module in modules:
        for name, test in vars(module).items():
            if (
                name.startswith("test_")
                and name not in OTHERWISE
                and {"hooked", "plain", "pooled", "rig"} & inspect.signature(test).parameters.keys()
            ):
                yield name, test


globals().update(shared(*MODULES))
