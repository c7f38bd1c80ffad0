"""Access tokens of an OAuth issuer: JWTs (RFC 9068, RFC 8725), and its public keys (RFC 7517).

The keys are fetched at the first use, cached and refreshed; old ones stay valid while the issuer is
unreachable. PyJWT's own client drops expired keys, blocks a thread per token while the issuer is
down, and has no discovery.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import jwt
from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls

from mcp_server_qdrant.core.bounded import PLAIN, TooLarge, limit_body
from mcp_server_qdrant.core.context import Caller, expand_scopes
from mcp_server_qdrant.core.errors import Unauthorized, VerifierUnavailable

logger = logging.getLogger(__name__)

MAX_TOKEN = 16_384
LEEWAY_SECONDS = 30.0
SCOPE_CLAIMS = ("scope", "scp")  # the first present one counts
NAMES = ("sub", "client_id", "azp")  # the first one present names the caller
FRESH_SECONDS = 300.0  # until keys are refreshed
PAUSE_SECONDS = 30.0  # between fetches, so that forged key ids cannot cause many
RETRY_SECONDS = 5.0  # after a failure while there are no keys
FETCH_SECONDS = 5.0
ALGORITHMS = (  # asymmetric ones only
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
UNAVAILABLE = (
    "The issuer's keys cannot be fetched, so no token can be checked: try again in a few seconds."
)
REASONS: dict[type[Exception], str] = {  # never quotes the token
    jwt.ExpiredSignatureError: "The token has expired.",
    jwt.ImmatureSignatureError: "The token is not valid yet.",
    jwt.InvalidAudienceError: "The token is for another audience.",
    jwt.InvalidIssuerError: "The token is from another issuer.",
    jwt.MissingRequiredClaimError: "The token lacks a claim: it needs exp, iss and aud.",
    jwt.InvalidSignatureError: "The token's signature is wrong.",
}

Key = Mapping[str, Any]


class Keys:
    """The keys of one issuer; at most one fetch at a time."""

    def __init__(
        self,
        issuer: str,
        url: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._url = url
        self._transport = transport
        self._clock = clock
        self._keys: tuple[Key, ...] = ()
        self._fetched = self._tried = float("-inf")
        self._fetching = asyncio.Lock()

    async def key(self, kid: str | None) -> Key | None:
        """The key with this id, or the only key; None: the token is forged.

        Raises VerifierUnavailable if there are no keys at all.
        """
        found = self._find(kid)
        old = self._clock() - self._fetched >= FRESH_SECONDS
        # If the key is known, only one call waits for the refresh.
        if found is None or (old and not self._fetching.locked()):
            async with self._fetching:
                if self._clock() - self._tried >= (PAUSE_SECONDS if self._keys else RETRY_SECONDS):
                    await self._fetch()
            found = self._find(kid)
        if not self._keys:
            raise VerifierUnavailable(UNAVAILABLE)
        return found

    def _find(self, kid: str | None) -> Key | None:
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.get("kid") == kid), None)

    async def _fetch(self) -> None:
        client = httpx.AsyncClient(
            transport=self._transport, event_hooks={"response": [limit_body]}
        )
        try:
            async with asyncio.timeout(FETCH_SECONDS), client:
                self._keys = await self._get(client)
            self._fetched = self._clock()
        except (httpx.HTTPError, httpx.InvalidURL, TooLarge, ValueError, TimeoutError) as error:
            cached = "the old ones stay valid" if self._keys else "there are none"
            reason = error if isinstance(error, _Unusable) else type(error).__name__
            logger.warning("The issuer's keys could not be fetched (%s): %s.", reason, cached)
        self._tried = self._clock()

    async def _get(self, client: httpx.AsyncClient) -> tuple[Key, ...]:
        url = self._url or await self._discover(client)
        found = (await _json(client, url)).get("keys")
        keys = tuple(key for key in found or () if isinstance(key, dict) and _is_signing_key(key))
        if not keys:
            raise _Unusable("no key in the answer can check a signature")
        return keys

    async def _discover(self, client: httpx.AsyncClient) -> str:
        """The URL of the keys, by RFC 8414 or OpenID Connect discovery."""
        wanted = "https://" if self._issuer.startswith("https://") else "http"
        fault = f"the issuer has no metadata with a jwks_uri of {wanted}; set AUTH_JWKS_URL"
        for url in build_oauth_authorization_server_metadata_discovery_urls(self._issuer, ""):
            try:
                metadata = await _json(client, url)
            except _Unusable:
                continue
            found = metadata.get("jwks_uri")
            if metadata.get("issuer") != self._issuer:
                fault = "the metadata are of another issuer than AUTH_ISSUER"
            elif isinstance(found, str) and found.startswith(wanted):
                return found
        raise _Unusable(fault)


class _Unusable(ValueError):
    """An unusable response. The message never quotes it."""


async def _json(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """The JSON object at a URL. Raises _Unusable."""
    response = await client.get(url, headers={"Accept": "application/json", **PLAIN})
    try:
        found = response.json()
    except (ValueError, RecursionError):
        found = None
    if response.status_code != 200 or not isinstance(found, dict):
        raise _Unusable(f"status {response.status_code}, and a JSON object was expected")
    return found


def _is_signing_key(key: Key) -> bool:
    """True for a public signature key: not a shared secret, not an encryption key."""
    made_for = key.get("use", "sig") == "sig" and key.get("alg", "EdDSA") in ALGORITHMS
    return made_for and key.get("kty") in ("RSA", "EC", "OKP")


class AccessTokens:
    """Identifies callers by fully verified JWTs."""

    def __init__(self, keys: Keys, *, issuer: str, audience: tuple[str, ...]) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience

    async def caller(self, token: str) -> Caller:
        """The caller with this token. Raises Unauthorized, or VerifierUnavailable without keys."""
        claims = await self._verify(token)
        name = next((claims[key] for key in NAMES if isinstance(claims.get(key), str)), "")
        if not name:
            raise Unauthorized("The token names no caller.")
        return Caller(name, _scopes(claims), claims)

    async def _verify(self, token: str) -> dict[str, Any]:
        if len(token) > MAX_TOKEN:
            raise Unauthorized("The token is too long.")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise Unauthorized("The token is not a JWT.") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise Unauthorized("The token is signed by an algorithm that is not accepted.")
        if not _is_access_token(header.get("typ")):
            raise Unauthorized("The token is not an access token.")
        key = await self._keys.key(kid)
        if key is None:
            raise Unauthorized("The token is signed with a key that the issuer does not have.")
        return self._decode(token, key, algorithm)

    def _decode(self, token: str, key: Key, algorithm: str) -> dict[str, Any]:
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


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    found = next((claims[key] for key in SCOPE_CLAIMS if key in claims), "")
    names = found.split() if isinstance(found, str) else found
    return expand_scopes(names if isinstance(names, list) else ())


def _is_access_token(typ: Any) -> bool:
    """True if a header's `typ` is that of an access token, or missing."""
    kind = str(typ or "jwt").lower()
    return kind == "jwt" or kind.endswith("at+jwt")
