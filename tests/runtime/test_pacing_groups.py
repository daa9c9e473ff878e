"""A user's groups decide who shares a quota, as the settings say it at the moment."""

from __future__ import annotations

from dataclasses import replace

from cloudretry.core.call import Call
from cloudretry.core.match import Match
from cloudretry.core.pacing_settings import PacingSettings
from cloudretry.core.quota import GroupRule
from cloudretry.runtime.pacing import Pacing
from cloudretry.testing import virtual_clock

APART = PacingSettings()
TOGETHER = PacingSettings(groups=(GroupRule(match=Match(service="rds"), group="all", everywhere=True),))
LIST = Call(provider="aws", service="rds", operation="DescribeDBInstances", region="eu-west-1", account="1")
TAGS = replace(LIST, operation="ListTagsForResource", region="us-east-1")


def test_calls_of_a_group_share_a_quota() -> None:
    pacing = Pacing()
    assert pacing.turns(LIST, APART) is not pacing.turns(TAGS, APART)
    assert pacing.turns(LIST, TOGETHER) is pacing.turns(TAGS, TOGETHER)
    assert sorted(quota.group for quota in pacing.states()) == ["DescribeDBInstances", "ListTagsForResource", "all"]


def test_a_users_group_comes_before_ours() -> None:
    roles = replace(LIST, service="iam", operation="ListRoles")
    users = replace(roles, operation="ListUsers")
    own = PacingSettings(groups=(GroupRule(match=Match(service="iam", operation="List*"), group="{operation}"),))
    pacing = Pacing()
    assert pacing.turns(roles, APART) is pacing.turns(users, APART)
    assert pacing.turns(roles, own) is not pacing.turns(users, own)


def test_changed_groups_hold_from_the_next_attempt_on() -> None:
    pacing = Pacing()
    before = pacing.turns(LIST, APART)
    after = pacing.turns(LIST, TOGETHER)
    assert after is not before
    assert pacing.turns(LIST, TOGETHER) is after
    assert pacing._calls[LIST, None, False].turns is after


def test_two_configurations_in_turns_leave_nothing_behind() -> None:
    pacing = Pacing()
    with virtual_clock() as clock:
        for _ in range(100):
            pacing.turns(LIST, APART)
            pacing.turns(LIST, TOGETHER)
        assert sum(len(metered.keys) for metered in pacing._quotas.values()) == 1
        clock.advance(700.0)
        for account in "23":
            pacing.turns(replace(LIST, account=account), APART)
        assert {quota.owner for quota in pacing.states()} == {"2", "3"}
        assert len(pacing._calls) == 2
