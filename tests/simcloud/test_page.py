"""The page of counters: what it shows, and that nothing in it is markup of somebody else's."""

from __future__ import annotations

from cloudretry.simcloud.counts import Counts, Verdict
from cloudretry.simcloud.identity import PLACE
from cloudretry.simcloud.limits import Limit, Standing
from cloudretry.simcloud.page import counters_page


def test_it_shows_counts_limits_and_tokens() -> None:
    counts = Counts(PLACE)
    for verdict in ("accepted", "throttled", "throttled", "cut"):
        counts.record(Verdict(0.0, "111122223333", "eu-west-1", "ec2", "DescribeVpcs", verdict))
    page = counters_page(
        "AWS",
        PLACE,
        counts.totals(),
        [Standing("111122223333", "eu-west-1", "ec2:DescribeVpcs", Limit(100, 0.15), 12.34, "src")],
    )
    cells = [cell.partition("</td>")[0].rpartition(">")[2] for cell in page.split("<td")[1:]]
    assert cells[:7] == ["111122223333", "eu-west-1", "ec2", "DescribeVpcs", "1", "2", "1"]
    assert cells[7:] == ["111122223333", "eu-west-1", "ec2:DescribeVpcs", "100", "0.15", "12.3", "src"]
    assert "1 accepted, 2 throttled, 1 cut" in page


def test_names_that_came_with_a_request_are_escaped() -> None:
    counts = Counts(PLACE)
    counts.record(Verdict(0.0, "1", "<b>", "<script>", "a&b", "accepted"))
    page = counters_page("AWS", PLACE, counts.totals(), [Standing("1", "<i>", "<script>", Limit(1, 1), 1.0, "x")])
    assert not [tag for tag in ("<script", "<b>", "<i>", "a&b<") if tag in page]
    assert "&lt;script&gt;" in page


def test_it_needs_nothing_from_elsewhere() -> None:
    page = counters_page("AWS", PLACE, Counts(PLACE).totals(), [])
    assert not [word for word in ("http:", "https:", "src=", "<script", "@import") if word in page]
