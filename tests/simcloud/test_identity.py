"""Who asks for what: requests that botocore's own clients built, and the keys that carry an account."""

from __future__ import annotations

import base64
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from botocore.config import Config
from hypothesis import given
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from cloudretry.simcloud.identity import DEFAULT_ACCOUNT, Identity, Protocol, account_of, identify

if TYPE_CHECKING:
    import boto3
    from botocore.awsrequest import AWSPreparedRequest

    from cloudretry.simcloud import SimulatedAws

ACCOUNT = "581039954779"  # of the session's access key


class _SentError(Exception):
    def __init__(self, request: AWSPreparedRequest) -> None:
        super().__init__()
        self.request = request


@cache
def client_of(session: boto3.Session, service: str) -> Any:
    config = Config(inject_host_prefix=False)  # as everybody must who has an IP address for an endpoint
    client = session.client(service, endpoint_url="http://127.0.0.1:9", config=config)  # type: ignore[call-overload]
    client.meta.events.register_first("before-send", _intercept)
    return client


def _intercept(request: AWSPreparedRequest, **_: object) -> None:
    raise _SentError(request)


def identity_of(client: Any, operation: str, parameters: dict[str, Any]) -> Identity:
    with pytest.raises(_SentError) as sent:
        client._make_api_call(operation, parameters)
    request = sent.value.request
    headers = {name: v.decode() if isinstance(v, bytes) else v for name, v in request.headers.items()}
    body = request.body.encode() if isinstance(request.body, str) else request.body
    url = urlsplit(request.url)
    raw = body if isinstance(body, (bytes, bytearray)) else b""
    return identify(request.method, url.path, url.query, CaseInsensitiveDict(headers), bytes(raw))


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "expected"),
    [
        ("ec2", "DescribeInstances", {}, ("ec2", Protocol.EC2, True)),
        ("ec2", "DescribeInstances", {"MaxResults": 5}, ("ec2", Protocol.EC2, False)),
        ("ec2", "DescribeInstances", {"InstanceIds": ["i-1"]}, ("ec2", Protocol.EC2, False)),
        ("ec2", "DescribeVolumes", {"Filters": [{"Name": "size", "Values": ["8"]}]}, ("ec2", Protocol.EC2, False)),
        ("ec2", "DescribeVolumes", {"DryRun": True}, ("ec2", Protocol.EC2, True)),
        ("sts", "GetCallerIdentity", {}, ("sts", Protocol.QUERY, False)),
        ("elbv2", "DescribeLoadBalancers", {}, ("elasticloadbalancing", Protocol.QUERY, False)),
        ("dynamodb", "ListTables", {}, ("dynamodb", Protocol.JSON, False)),
        ("sqs", "ListQueues", {}, ("sqs", Protocol.JSON, False)),
        ("lambda", "ListFunctions", {}, ("lambda", Protocol.REST_JSON, False)),
        ("eks", "ListClusters", {}, ("eks", Protocol.REST_JSON, False)),
        ("sesv2", "ListEmailIdentities", {}, ("ses", Protocol.REST_JSON, False)),
        ("route53", "ListHostedZones", {}, ("route53", Protocol.REST_XML, False)),
        ("s3", "ListBuckets", {}, ("s3", Protocol.S3, False)),
    ],
)
def test_protocols(
    session: boto3.Session, service: str, operation: str, parameters: dict[str, Any], expected: tuple[str, Protocol, bool]
) -> None:
    found = identity_of(client_of(session, service), operation, parameters)
    assert (found.service, found.protocol, found.bare) == expected
    assert (found.action, found.account) == (operation, ACCOUNT)
    assert found.region == ("us-east-1" if service == "route53" else "eu-west-1")


# told apart by nothing that is in the request, or not sent to the service at all
INDISTINGUISHABLE = {
    "s3": {"ListDirectoryBuckets", "WriteGetObjectResponse"},
}


@pytest.mark.parametrize("service", ["s3", "lambda", "eks", "efs", "apigateway", "apigatewayv2", "route53", "cloudfront"])
def test_every_operation_of_a_rest_service_is_recognised(session: boto3.Session, service: str) -> None:
    client = client_of(session, service)
    model = client.meta.service_model
    skipped = INDISTINGUISHABLE.get(service, set())
    operations = [name for name in model.operation_names if name not in skipped]
    operations = [name for name in operations if not model.operation_model(name).deprecated]
    wrong = {
        name: found.action
        for name in operations
        if (found := identity_of(client, name, _sample(model.operation_model(name).input_shape))).action != name
    }
    assert len(operations) > 20
    assert wrong == {}


SIMPLE = {"blob": b"", "boolean": True, "timestamp": 0, "integer": 1, "long": 1, "float": 1, "double": 1}


def _sample(shape: Any, depth: int = 0) -> Any:
    """The least that botocore accepts for a shape."""
    match shape.type_name if shape is not None and depth < 9 else "none":
        case "structure":
            members = shape.required_members or list(shape.members)[: bool(getattr(shape, "is_tagged_union", False))]
            return {name: _sample(shape.members[name], depth + 1) for name in members}
        case "list":
            return [_sample(shape.member, depth + 1)] * max(1, shape.metadata.get("min", 1))
        case "map":
            return {"key": _sample(shape.value, depth + 1)}
        case "string":
            return shape.enum[0] if shape.enum else "example-name".ljust(shape.metadata.get("min", 0), "x")
        case simple:
            return SIMPLE.get(simple, {})


@pytest.mark.parametrize(("signature", "region"), [("s3v4", "eu-west-1"), ("s3", "us-east-1")])
def test_a_presigned_url_is_identified_by_its_query(session: boto3.Session, signature: str, region: str) -> None:
    signer = session.client("s3", endpoint_url="http://127.0.0.1:9", config=Config(signature_version=signature))
    url = urlsplit(signer.generate_presigned_url("get_object", {"Bucket": "bucket", "Key": "a/b"}))
    found = identify("GET", url.path, url.query, CaseInsensitiveDict(), b"")
    assert found == Identity(account=ACCOUNT, region=region, service="s3", action="GetObject", protocol=Protocol.S3)


@pytest.mark.parametrize(
    ("method", "body", "service", "action"),
    [("POST", b"Action=AssumeRoleWithWebIdentity", "sts", "AssumeRoleWithWebIdentity"), ("GET", b"", "s3", "ListBuckets")],
)
def test_unsigned_requests_belong_to_nobody(method: str, body: bytes, service: str, action: str) -> None:
    headers = CaseInsensitiveDict({"content-type": "application/x-www-form-urlencoded"})
    found = identify(method, "/", "", headers, body)
    assert (found.account, found.service, found.action) == (DEFAULT_ACCOUNT, service, action)


def test_a_rest_request_that_no_model_knows_counts_under_its_method() -> None:
    scope = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260101/eu-west-1/nosuchthing/aws4_request, SignedHeaders=x"
    found = identify("GET", "/things", "", CaseInsensitiveDict(authorization=scope), b"")
    assert (found.service, found.action, found.protocol) == ("nosuchthing", "GET", Protocol.REST_JSON)


@given(st.integers(0, 10**12 - 1), st.integers(0, 127), st.binary(min_size=4, max_size=4))
def test_an_access_key_carries_its_account(account: int, low: int, rest: bytes) -> None:
    raw = ((1 << 47) | (account << 7) | low).to_bytes(6, "big") + rest
    assert account_of("ASIA" + base64.b32encode(raw).decode()) == f"{account:012d}"


@given(st.text(st.characters(max_codepoint=0x17F), max_size=24))
def test_any_other_key_still_has_an_account(key: str) -> None:
    assert len(account_of(key)) == 12


@pytest.mark.parametrize("key", ["", "test", "testing", "AKIA0000000000000000", "AKIA"])
def test_keys_without_an_account_share_the_default_one(key: str) -> None:
    assert account_of(key) == DEFAULT_ACCOUNT


@pytest.mark.wire
def test_the_running_server_identifies_the_same_way(aws: SimulatedAws, connect: Any) -> None:
    account = aws.accounts[1]
    aws.reset()
    connect(aws, "sts", account=account).get_caller_identity()
    connect(aws, "ec2", account=account, region="us-east-1").describe_regions()
    connect(aws, "lambda", account=account).list_functions()
    connect(aws, "dynamodb", account=account).list_tables()
    connect(aws, "s3", account=account).list_buckets()
    connect(aws, "iam", account=account).list_users()
    assert [line[1:6] for line in aws.log()] == [
        (account, "eu-west-1", "sts", "GetCallerIdentity", "accepted"),
        (account, "us-east-1", "ec2", "DescribeRegions", "accepted"),
        (account, "eu-west-1", "lambda", "ListFunctions", "accepted"),
        (account, "eu-west-1", "dynamodb", "ListTables", "accepted"),
        (account, "eu-west-1", "s3", "ListBuckets", "accepted"),
        (account, "us-east-1", "iam", "ListUsers", "accepted"),
    ]
