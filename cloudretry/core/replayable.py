"""What may be sent again although the server has perhaps acted on it: one table.

Everything else is sent again only where the server refused it (a throttle) or never saw it.

Sources: RFC 9110 §9.2.2 for methods; the AWS naming convention for operations; the service models' documentation for the
exceptions.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["AWS_READS", "aws_replayable"]

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

AWS_READS: Final = re.compile(r"(Batch)?(Describe|Filter|Get|Head|List|Lookup|Query|Scan|Search|Select|Simulate)(?=[A-Z]|$)")

AWS_SESSIONS: Final = frozenset({("sts", f"AssumeRole{how}") for how in ("", "WithSAML", "WithWebIdentity")})
"""Each answer is one more temporary session, which does no harm."""

AWS_READS_THAT_CHANGE_SOMETHING: Final = frozenset(
    {
        ("cognito-identity", "GetId"),  # creates an identity
        ("cognito-identity", "GetOpenIdTokenForDeveloperIdentity"),  # creates an identity
        ("importexport", "GetShippingLabel"),  # buys a label
        ("kinesis", "GetRecords"),  # spends one of a shard's five reads in a second
        ("sagemaker", "GetScalingConfigurationRecommendation"),  # starts a job
        ("sfn", "GetActivityTask"),  # hands the task to this worker
        ("ssm", "GetDeployablePatchSnapshotForInstance"),  # creates a snapshot
    }
)
"""(service, operation): named like a read, but the server hands something out or makes something."""

S3_WRITES: Final = re.compile(r"Put|UploadPart")
"""S3 operations that leave the same state when they are repeated. The machine sees to it that the body can be rewound."""


def aws_replayable(service: str, operation: str, *, method: str, has_token: bool) -> bool:
    """Whether an AWS operation may be sent twice. `has_token`: its input has an idempotency token, which stays the same."""
    if has_token:
        return True
    if (service, operation) in AWS_READS_THAT_CHANGE_SOMETHING:
        return False
    if service == "s3" and method == "PUT":
        return S3_WRITES.match(operation) is not None
    return method in SAFE_METHODS or (service, operation) in AWS_SESSIONS or AWS_READS.match(operation) is not None
