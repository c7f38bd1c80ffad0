"""Access tokens of an OAuth issuer: JWTs (RFC 9068, RFC 8725) signed with one of its keys."""

from collections.abc import Mapping
from typing import Any

import jwt

from mcp_server_qdrant.core.context import Caller, granted
from mcp_server_qdrant.core.errors import Unauthorized
from mcp_server_qdrant.http.auth.jwks import ALGORITHMS, Key, Keys

MAX_TOKEN = 16_384
LEEWAY_SECONDS = 30.0
NAMES = ("sub", "client_id", "azp")  # the first present names the caller


REASONS: dict[type[Exception], str] = {  # nothing that stands in a token
    jwt.ExpiredSignatureError: "The token has expired.",
    jwt.ImmatureSignatureError: "The token is not valid yet.",
    jwt.InvalidAudienceError: "The token is for another audience.",
    jwt.InvalidIssuerError: "The token is of another issuer.",
    jwt.MissingRequiredClaimError: "The token lacks a claim: it needs exp, iss and aud.",
    jwt.InvalidSignatureError: "The token's signature is wrong.",
}


class AccessTokens:
    """Callers by their JWT, once all of it has been verified."""

    def __init__(
        self,
        keys: Keys,
        *,
        issuer: str,
        audience: tuple[str, ...],
        scope_claims: tuple[str, ...] = ("scope", "scp"),
        scope_prefix: str = "",
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._scope_claims = scope_claims
        self._scope_prefix = scope_prefix

    async def caller(self, token: str) -> Caller:
        """Who has this token. Raises Unauthorized, VerifierUnavailable without any keys."""
        claims = await self._verified(token)
        name = next((claims[key] for key in NAMES if isinstance(claims.get(key), str)), "")
        if not name:
            raise Unauthorized("The token does not say whose it is.")
        return Caller(name, self._scopes(claims), claims)

    async def _verified(self, token: str) -> dict[str, Any]:
        if len(token) > MAX_TOKEN:
            raise Unauthorized("The token is too long.")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise Unauthorized("The token is not a JWT.") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise Unauthorized("The token is signed by an algorithm that is not accepted.")
        if not _access_token(header.get("typ")):
            raise Unauthorized("The token is not an access token.")
        key = await self._keys.key(kid)
        if key is None:
            raise Unauthorized("The token is signed with a key that the issuer does not have.")
        return self._decoded(token, key, algorithm)

    def _decoded(self, token: str, key: Key, algorithm: str) -> dict[str, Any]:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                jwt.PyJWK(dict(key), key.get("alg", algorithm)),
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
            )
        except jwt.PyJWTError as error:
            reason = next((text for kind, text in REASONS.items() if isinstance(error, kind)), None)
            raise Unauthorized(reason or "The token is broken.") from None
        return claims

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[str]:
        prefix = self._scope_prefix
        found = next((claims[key] for key in self._scope_claims if key in claims), "")
        names = found.split() if isinstance(found, str) else found
        if not isinstance(names, list):
            return frozenset()
        named = [name for name in names if isinstance(name, str) and name.startswith(prefix)]
        return granted(name.removeprefix(prefix) for name in named)


def _access_token(typ: Any) -> bool:
    """True where a header's `typ` is that of an access token, or missing."""
    kind = str(typ or "jwt").lower()
    return kind == "jwt" or kind.endswith("at+jwt")
