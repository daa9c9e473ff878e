"""What headers say of the calls that are left."""

from __future__ import annotations

from typing import Any

import pytest

from cloudretry.azure.remaining import remaining_of

READS = "x-ms-ratelimit-remaining-subscription-reads"
RESOURCE = "x-ms-ratelimit-remaining-resource"
USER = "x-ms-user-quota-remaining"
RESET = "x-ms-user-quota-resets-after"


@pytest.mark.parametrize(
    ("method", "headers", "expected"),
    [
        ("GET", {}, None),
        ("GET", {READS: "249", "x-ms-ratelimit-remaining-subscription-global-reads": "3749"}, (249.0, None)),
        ("GET", {READS: "11999, 3"}, (3.0, None)),  # the header came twice
        ("HEAD", {READS: "0"}, (0.0, None)),
        ("POST", {READS: "249"}, None),
        ("PUT", {"x-ms-ratelimit-remaining-subscription-writes": "199"}, (199.0, None)),
        ("DELETE", {"x-ms-ratelimit-remaining-subscription-deletes": "7"}, (7.0, None)),
        ("GET", {"x-ms-ratelimit-remaining-tenant-reads": "11999"}, (11999.0, None)),
        (
            "GET",
            {READS: "249", RESOURCE: "Microsoft.Compute/HighCostGet3Min;46,Microsoft.Compute/HighCostGet30Min;0"},
            (0.0, None),
        ),
        ("POST", {USER: "14", RESET: "00:00:05"}, (14.0, 5.0)),
        ("POST", {USER: "14", RESET: "soon"}, (14.0, None)),
        ("POST", {USER: "14"}, (14.0, None)),
        # what no server should send
        ("GET", {READS: "-1"}, None),
        ("GET", {READS: "nan"}, None),
        ("GET", {READS: "1e9"}, None),
        ("GET", {READS: "9" * 400}, None),
        ("GET", {READS: "٣"}, None),
        ("GET", {READS: ""}, None),
        ("GET", {READS: None}, None),
        ("GET", {READS: b"7"}, None),
        ("GET", {RESOURCE: ";;;,", READS: "12"}, (12.0, None)),
    ],
)
def test_what_is_left(method: str, headers: dict[str, Any], expected: tuple[float, float | None] | None) -> None:
    assert remaining_of(method, headers) == expected
