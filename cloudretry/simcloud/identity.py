"""Who asks for what: account, region, service and action of an HTTP request to AWS. Pure, but for reading botocore's models.

Signatures are not verified. Requests of the smithy-rpc-v2-cbor protocol are not understood; botocore sends none
to services that also speak JSON.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from cloudretry.simcloud.patterns import fits
from cloudretry.simcloud.routes import match_route

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULT_ACCOUNT", "PLACE", "Identity", "Protocol", "account_of", "identify", "is_form"]

DEFAULT_ACCOUNT = "123456789012"
"""Holds what unsigned requests, and keys that carry no account, get to see: nothing."""
PLACE = ("account", "region", "service", "action")
"""By what requests are counted."""

_GLOBAL = frozenset({"budgets", "cloudfront", "iam", "organizations", "route53", "shield", "support"})
_GLOBAL_REGION = "us-east-1"  # whatever a client was told that has an endpoint of its own
_SCOPE = re.compile(r"(?:Credential=|^)([^/\s]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")
_NEITHER_FILTER_NOR_PAGE = frozenset({"Action", "Version", "DryRun"})


class Protocol(Enum):
    """How a service speaks, as far as its error bodies differ."""

    EC2 = "ec2"
    QUERY = "query"
    JSON = "json"
    REST_JSON = "rest-json"
    REST_XML = "rest-xml"
    S3 = "s3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a request is metered by. `service` is the signing name."""

    account: str
    region: str
    service: str
    action: str
    protocol: Protocol
    bare: bool = False
    """An EC2 request without any parameter that filters, selects or pages."""

    @property
    def place(self) -> tuple[str, str, str, str]:
        """The values of PLACE."""
        return self.account, self.region, self.service, self.action

    def fits(self, pattern: str) -> bool:
        """Whether `service:Action@account/region` matches; patterns of fnmatch, and what is missing is any.

        `ec2`, `ec2:Describe*`, `*@111122223333`, `iam:Get*@*/us-east-1`.
        """
        return fits(self.place, pattern)


def account_of(access_key: str) -> str:
    """The account that an access key id carries in its characters; DEFAULT_ACCOUNT where it carries none."""
    try:
        raw = base64.b32decode(access_key[4:20])
    except (binascii.Error, ValueError):
        return DEFAULT_ACCOUNT
    number = (int.from_bytes(raw[:6], "big") & 0x7FFFFFFFFF80) >> 7
    return f"{number:012d}" if raw and number < 10**12 else DEFAULT_ACCOUNT


def identify(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Identity:
    """Identify a request; `path` and `query` as they came, still escaped, `headers` with case-insensitive names."""
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    form = _form(headers, body)
    action = form.get("Action") or parameters.get("Action")
    account, region, service = _scope(headers, parameters, action)
    if action:
        protocol = Protocol.EC2 if service == "ec2" else Protocol.QUERY
        bare = service == "ec2" and _NEITHER_FILTER_NOR_PAGE.issuperset(form or parameters)
    elif target := headers.get("X-Amz-Target"):
        action, protocol, bare = target.rpartition(".")[2], Protocol.JSON, False
    else:
        action, spoken = match_route(service, method, path, parameters, headers)
        protocol, bare = Protocol.S3 if service == "s3" else Protocol(spoken), False
    return Identity(account=account, region=region, service=service, action=action, protocol=protocol, bare=bare)


def is_form(headers: Mapping[str, str]) -> bool:
    """Whether the action may stand in the body."""
    return headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded")


def _form(headers: Mapping[str, str], body: bytes) -> dict[str, str]:
    if not is_form(headers):
        return {}
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _scope(headers: Mapping[str, str], parameters: Mapping[str, str], action: str | None) -> tuple[str, str, str]:
    signed = headers.get("Authorization") or parameters.get("X-Amz-Credential", "")
    if found := _SCOPE.search(signed):
        service = found[3].lower()
        return account_of(found[1]), _GLOBAL_REGION if service in _GLOBAL else found[2], service
    key = parameters.get("AWSAccessKeyId", "")  # of a presigned URL in the older signature, which has no scope
    return account_of(key), _GLOBAL_REGION, "sts" if action else "s3"
