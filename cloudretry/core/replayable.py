"""What may be sent again although the server has perhaps acted on it: one table.

Everything else is sent again only where the server refused it (a throttle) or never saw it.

Sources: RFC 9110 §9.2.2 for methods; the AWS naming convention for operations; the service models' documentation for the
exceptions; Azure's REST reference for the requests that are sent by POST and only read.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["AWS_READS", "AZURE_READING_POSTS", "aws_replayable", "azure_replayable"]

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

AWS_READS: Final = re.compile(r"(Batch)?(Describe|Filter|Get|Head|List|Lookup|Query|Scan|Search|Select|Simulate)(?=[A-Z]|$)")

AWS_HARMLESS: Final = frozenset(
    {
        ("iam", "GenerateCredentialReport"),
        ("iam", "GenerateOrganizationsAccessReport"),
        ("iam", "GenerateServiceLastAccessedDetails"),
        ("sts", "AssumeRole"),
        ("sts", "AssumeRoleWithSAML"),
        ("sts", "AssumeRoleWithWebIdentity"),
    }
)
"""One more report about what is there, or one more temporary session: nobody is harmed by it."""

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

S3_WRITES: Final = re.compile(r"CopyObject|Put|UploadPart")
"""S3 operations that leave the same state when they are repeated. The machine sees to it that the body can be rewound."""


def aws_replayable(service: str, operation: str, *, method: str, has_token: bool) -> bool:
    """Whether an AWS operation may be sent twice. `has_token`: its input has an idempotency token, which stays the same."""
    if has_token:
        return True
    if (service, operation) in AWS_READS_THAT_CHANGE_SOMETHING:
        return False
    if service == "s3" and method == "PUT":
        return S3_WRITES.match(operation) is not None
    return method in SAFE_METHODS or (service, operation) in AWS_HARMLESS or AWS_READS.match(operation) is not None


AZURE_READING_POSTS: Final = frozenset(
    {
        ("microsoft.costmanagement", "externalbillingaccounts/{name}/forecast"),
        ("microsoft.costmanagement", "externalbillingaccounts/{name}/query"),
        ("microsoft.costmanagement", "forecast"),
        ("microsoft.costmanagement", "query"),
        ("microsoft.management", "getentities"),
        ("microsoft.network", "networkinterfaces/{name}/effectivenetworksecuritygroups"),
        ("microsoft.network", "networkinterfaces/{name}/effectiveroutetable"),
        ("microsoft.network", "networkwatchers/{name}/topology"),
        ("microsoft.policyinsights", "componentpolicystates/{name}/queryresults"),
        ("microsoft.policyinsights", "policyevents/{name}/queryresults"),
        ("microsoft.policyinsights", "policystates/{name}/queryresults"),
        ("microsoft.policyinsights", "policystates/{name}/summarize"),
        ("microsoft.policyinsights", "policytrackedresources/{name}/queryresults"),
        ("microsoft.resourcegraph", "resourcechangedetails"),
        ("microsoft.resourcegraph", "resourcechanges"),
        ("microsoft.resourcegraph", "resources"),
        ("microsoft.resourcegraph", "resourceshistory"),
        ("microsoft.resources", "checkresourcename"),
        ("microsoft.resources", "checkzonepeers"),
    }
)
"""(namespace, type path), in lower case."""

_READING_ACTION: Final = re.compile(r"(.*/)?(list[a-z]*|checknameavailability)")
"""Actions of any provider: `list…` is Resource Manager's convention for what is read by POST, such as `listKeys`."""


def azure_replayable(service: str, operation: str, *, method: str) -> bool:
    """Whether an Azure request may be sent twice. `operation` is spelled as in a Call: method and type path."""
    if method in SAFE_METHODS:
        return True
    types = operation.partition(" ")[2].lower()
    if method != "POST" or not types:
        return False
    return (service.lower(), types) in AZURE_READING_POSTS or _READING_ACTION.fullmatch(types) is not None
