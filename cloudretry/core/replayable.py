"""What may be sent again although the server has perhaps acted on it: one table. Everything else is sent again only
where the server refused it (a throttle) or never saw it.

Sources: RFC 9110 §9.2.2 for methods; the AWS naming convention for operations; service documentation for the exceptions.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["aws_replayable"]

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

AWS_READS: Final = re.compile(r"(BatchGet|Describe|Get|Head|List|Lookup|Query|Scan|Search)(?=[A-Z]|$)")

AWS_READS_THAT_CHANGE_SOMETHING: Final = frozenset(
    {
        ("sfn", "GetActivityTask"),  # hands the task to this worker
        ("cognito-identity", "GetId"),  # creates an identity
        ("ssm", "GetDeployablePatchSnapshotForInstance"),  # creates a snapshot
    }
)
"""(service, operation): named like a read, but the server hands something out or makes something."""


def aws_replayable(service: str, operation: str, *, method: str, has_token: bool) -> bool:
    """Whether an AWS operation may be sent twice. `has_token`: its input has an idempotency token, which stays the same."""
    if has_token:
        return True
    if (service, operation) in AWS_READS_THAT_CHANGE_SOMETHING:
        return False
    return method in SAFE_METHODS or AWS_READS.match(operation) is not None
