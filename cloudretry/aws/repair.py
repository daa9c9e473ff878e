"""Answers that botocore can't read or reads wrongly, made into what they are."""

from __future__ import annotations

from http.client import responses
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from botocore.model import OperationModel, ServiceModel

__all__ = ["QUERY_PROTOCOLS", "expects_json", "is_object", "protocol_of", "readable_error"]

QUERY_PROTOCOLS: Final = {
    "query": "<ErrorResponse><Error><Code>{0}</Code><Message>{1}</Message></Error></ErrorResponse>",
    "ec2": "<Response><Errors><Error><Code>{0}</Code><Message>{1}</Message></Error></Errors></Response>",
}
"""The protocols whose parser raises for an error body that is no XML, so that no retry handler is ever asked."""

_JSON_PROTOCOLS: Final = frozenset({"json", "rest-json"})
_ERROR_STATUS: Final = 300
_MARGIN: Final = 64  # as much white space as anybody puts around a document


def protocol_of(service: ServiceModel) -> str:
    """The protocol that botocore speaks with a service; older ones know one alone."""
    return getattr(service, "resolved_protocol", None) or service.protocol


def readable_error(operation_model: OperationModel, response_dict: dict[str, Any], **_: object) -> None:
    """A `before-parse` handler: a proxy's page or an empty body becomes an error document with the status as its code."""
    status = response_dict["status_code"]
    if status < _ERROR_STATUS or _is_xml(response_dict["body"]):
        return
    form = QUERY_PROTOCOLS[protocol_of(operation_model.service_model)]
    response_dict["body"] = form.format(status, responses.get(status, "")).encode()


def _is_xml(body: bytes) -> bool:
    try:
        ET.fromstring(body, ET.XMLParser(encoding="utf-8"))  # noqa: S314 - as botocore's own parser reads these bytes next
    except ET.ParseError:
        return False
    return True


def expects_json(operation: OperationModel) -> bool:
    """Whether an answer's body is a JSON document, and not a payload of the user's."""
    if protocol_of(operation.service_model) not in _JSON_PROTOCOLS:
        return False
    shape = operation.output_shape
    return shape is None or (shape.serialization.get("payload") is None and not operation.has_streaming_output)


def is_object(body: bytes) -> bool:
    """Whether a body looks like a whole JSON object, or is empty: a captive portal's page and half a document do not."""
    return not body or (body[:_MARGIN].lstrip()[:1] == b"{" and body[-_MARGIN:].rstrip()[-1:] == b"}")
