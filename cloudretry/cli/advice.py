"""What to do about a try that failed, in words. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cloudretry.core.outcome import Phase
from cloudretry.core.proxy_url import masked_url
from cloudretry.core.tries import Hop, Reason

if TYPE_CHECKING:
    from cloudretry.core.pool_settings import Member, PoolSettings
    from cloudretry.core.tries import TryEnd

__all__ = ["advice"]

_SPOKEN: Final = frozenset({"basic"})
_FOREIGN: Final = {"negotiate": "Kerberos", "kerberos": "Kerberos", "ntlm": "NTLM", "digest": "Digest"}

_AT_MEMBER: Final = {
    Reason.UNRESOLVED: "its name is not known here: check the name in the pool, and this machine's DNS",
    Reason.REFUSED: "nothing listens there: check host and port in the pool, and whether it runs",
    Reason.TIMEOUT: "it does not answer: a firewall that drops silently, or a wrong address; connect_timeout is {connect:g} s",
    Reason.TUNNEL_REFUSED: "it takes no more connections now: ask its operator for its limits",
    Reason.CERTIFICATE: "its own certificate is not trusted: set ca_bundle of the pool to the CA that signed it",
    Reason.PROTOCOL_ERROR: "what answers there is no {kind} proxy: check the scheme and the port; perhaps a login page",
}
_AT_DESTINATION: Final = {
    Reason.UNRESOLVED: "the destination's name is not known here; a proxy by http:// or socks5h:// would resolve it itself",
    Reason.REFUSED: "the destination can't be reached from here without a proxy: nothing takes the connection",
    Reason.RESET: "the destination, or a firewall before it, cuts the connection",
    Reason.TIMEOUT: "the destination does not answer by this way: a firewall, or a way out that ends nowhere",
    Reason.TUNNEL_REFUSED: "it works, but can't reach the destination itself: its DNS, or its own way out",
    Reason.FORBIDDEN: "it does not let us go there: ask its operator to allow this destination",
    Reason.CERTIFICATE: "the certificate is not trusted: if a proxy inspects TLS, set ca_bundle of the pool to its CA",
    Reason.PROTOCOL_ERROR: "what answers does not speak TLS or HTTP: something else than the destination is there",
}


def advice(member: Member, settings: PoolSettings, end: TryEnd, challenge: str | None) -> str:
    """One line for whoever runs the pool."""
    if end.reason is Reason.AUTH_REJECTED:
        return _about_credentials(member, challenge)
    if end.hop is Hop.MEMBER and end.reason is Reason.RESET:
        return _about_reset(member, end.phase)
    words = _AT_MEMBER if end.hop is Hop.MEMBER else _AT_DESTINATION
    text = words.get(end.reason) if end.reason is not None else None
    return (text or "the request could not be sent from here").format(connect=settings.connect_timeout, kind=_kind(member))


def _about_credentials(member: Member, challenge: str | None) -> str:
    asked = [scheme for scheme in map(_scheme, (challenge or "").split(",")) if scheme in _SPOKEN | _FOREIGN.keys()]
    foreign = sorted({_FOREIGN[scheme] for scheme in asked if scheme in _FOREIGN})
    if foreign and not _SPOKEN & set(asked):
        names = " or ".join(foreign)
        return f"it wants {names}, which is not supported: let a local relay (cntlm, px) speak it, and make that the member"
    if member.url is not None and "@" in member.url:
        return "it does not take the credentials: check what the references in the member's url stand for"
    return "it wants credentials: write them into the member's url as ${env:NAME} or ${file:PATH}"


def _scheme(part: str) -> str:
    return part.strip().partition(" ")[0].lower()


def _about_reset(member: Member, phase: Phase) -> str:
    if phase is Phase.CONNECT or member.url is None:
        return "it, or a firewall before it, cuts the connection"
    other = {"http": "https", "https": "http"}.get(_kind(member))
    scheme = f"; perhaps it is {other}:// rather than {_kind(member)}://" if other else ""
    return f"it cuts the connection without a word: it may be overloaded or no {_kind(member)} proxy{scheme}"


def _kind(member: Member) -> str:
    if member.url is None:
        return "connect_to" if member.connect_to else "direct"
    return masked_url(member.url).partition("://")[0]
