"""Who may ask: the tenant's principals, their tokens, and the endpoints that give them out. Pure: seed and time are passed in.

Client credentials (by secret) and the token endpoint of a machine with a managed identity. A token is a JWT that nobody
signed; it is good if it was given out here and its time is not over.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from cloudretry.simcloud.azure.answers import reply
from cloudretry.simcloud.azure.estate import make_id
from cloudretry.simcloud.numbers import Numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudretry.simcloud.answers import Answer

__all__ = ["Directory", "Principal"]

_DAY_S: Final = 86_400
_MANAGER: Final = "https://management.azure.com"
_HERE: Final = frozenset({"127.0.0.1", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A service principal. `token` is good for a day from the start."""

    client_id: str
    client_secret: str
    object_id: str
    token: str
    expires_on: int


class Directory:
    """Holds principals and tokens. The first principal is also the machine's managed identity. Not thread-safe.

    `port` is where it answers, once that is known.
    """

    def __init__(self, tenant: str, principals: int, seed: int, now: float) -> None:
        self.tenant = tenant
        self.port = 0
        self._numbers = Numbers(f"{seed}/directory")
        self._tokens: dict[str, tuple[str, float]] = {}
        made = [self._make(now) for _ in range(principals)]
        self.principals: Mapping[str, Principal] = {principal.client_id: principal for principal in made}

    def caller(self, authorization: str, now: float) -> tuple[str, str]:
        """The client id that a request's Authorization stands for, or "" and what is wrong with it."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            return "", "missing"
        who, until = self._tokens.get(token, ("", now + 1))
        return ("", "expired") if until <= now else (who, "invalid")

    def answer(
        self, path: str, host: str, query: Mapping[str, str], form: Mapping[str, str], now: float, good_for: float
    ) -> Answer:
        """What the token endpoint says; `path` without its first slash."""
        tenant, _, page = path.partition("/")
        match page:
            case "oauth2/v2.0/token" | "oauth2/token":
                return self._give(form, now, good_for)
            case "v2.0/.well-known/openid-configuration" | ".well-known/openid-configuration":
                return reply(_configuration(tenant, host))
            case "discovery/instance":
                return reply(_instances(host, query, self.port))
            case _:
                return _refuse(404, "invalid_request", 90002, "There is no such page.")

    def answer_machine(self, query: Mapping[str, str], asks_well: bool, now: float, good_for: float) -> Answer:  # noqa: FBT001
        """What the machine's own token endpoint says; `asks_well`: with the header `Metadata: true`."""
        if not asks_well:
            return reply({"error": "invalid_request", "error_description": "Required metadata header not specified"}, 400)
        who = query.get("client_id") or next(iter(self.principals))
        if who not in self.principals:
            return reply({"error": "invalid_request", "error_description": "Identity not found"}, 400)
        resource = query.get("resource", _MANAGER)
        token = self._issue(who, resource, now, good_for)
        times = {"expires_in": str(int(good_for)), "expires_on": str(int(now + good_for)), "not_before": str(int(now))}
        return reply({"access_token": token, "token_type": "Bearer", "client_id": who, "resource": resource, **times})

    def _give(self, form: Mapping[str, str], now: float, good_for: float) -> Answer:
        who = self.principals.get(form.get("client_id", "").lower())
        if form.get("grant_type") != "client_credentials":
            return _refuse(400, "unsupported_grant_type", 70003, "Only client credentials are simulated.")
        if who is None:
            return _refuse(400, "unauthorized_client", 700016, "The application was not found in the directory.")
        if form.get("client_secret") != who.client_secret:
            return _refuse(401, "invalid_client", 7000215, "Invalid client secret provided.")
        audience = form.get("scope", _MANAGER).partition(" ")[0].removesuffix("/.default")
        token = self._issue(who.client_id, audience, now, good_for)
        return reply(
            {"token_type": "Bearer", "expires_in": int(good_for), "ext_expires_in": int(good_for), "access_token": token}
        )

    def _make(self, now: float) -> Principal:
        client, objects = make_id(self._numbers), make_id(self._numbers)
        secret = f"simulated-{self._numbers.getrandbits(96):024x}"
        token = self._issue(client, _MANAGER, now, _DAY_S, objects)
        return Principal(client_id=client, client_secret=secret, object_id=objects, token=token, expires_on=int(now + _DAY_S))

    def _issue(self, client: str, audience: str, now: float, good_for: float, object_id: str = "") -> str:
        known = object_id or self.principals[client].object_id
        claims = {
            "aud": audience,
            "iss": f"https://sts.windows.net/{self.tenant}/",
            "iat": int(now),
            "nbf": int(now),
            "exp": int(now + good_for),
            "appid": client,
            "oid": known,
            "tid": self.tenant,
            "uti": f"{self._numbers.getrandbits(64):016x}",
            "ver": "1.0",
        }
        token = ".".join((_part({"typ": "JWT", "alg": "none"}), _part(claims), ""))
        self._tokens[token] = client, now + good_for
        return token

    def page(self) -> dict[str, Any]:
        """What the inventory page tells of it."""
        return {"tenant": self.tenant, "principals": [asdict(principal) for principal in self.principals.values()]}


def read_form(body: bytes) -> dict[str, str]:
    """The fields of a form."""
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _part(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def _refuse(status: int, name: str, code: int, message: str) -> Answer:
    return reply({"error": name, "error_description": f"AADSTS{code}: {message}", "error_codes": [code]}, status)


def _configuration(tenant: str, host: str) -> dict[str, Any]:
    base = f"https://{host}/{tenant}"
    return {
        "issuer": f"{base}/v2.0",
        "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
        "token_endpoint": f"{base}/oauth2/v2.0/token",
        "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
        "jwks_uri": f"{base}/discovery/v2.0/keys",
        "tenant_region_scope": "EU",
        "cloud_instance_name": "microsoftonline.com",
    }


def _instances(host: str, query: Mapping[str, str], port: int) -> dict[str, Any]:
    asked = urlsplit(query.get("authorization_endpoint", ""))
    name, tenant = asked.hostname or host, asked.path.split("/")[1:2]
    place = f"{name}:{port}" if name in _HERE else name  # MSAL leaves a port out
    aliases = sorted({host, name, "login.microsoftonline.com", "login.windows.net", "sts.windows.net"})
    return {
        "tenant_discovery_endpoint": f"https://{place}/{''.join(tenant) or 'common'}/v2.0/.well-known/openid-configuration",
        "api-version": "1.1",
        "metadata": [{"preferred_network": host, "preferred_cache": host, "aliases": aliases}],
    }
