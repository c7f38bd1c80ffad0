"""An issuer's public keys (RFC 7517): fetched when first needed, kept, fetched again in time.

Keys stay valid while the issuer cannot be reached. PyJWT's own client forgets them after their
time, blocks a thread for every token while the issuer is away, and knows no discovery.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls

from mcp_server_qdrant.core.bounded import PLAIN, TooLarge, bounded
from mcp_server_qdrant.core.errors import VerifierUnavailable

logger = logging.getLogger(__name__)

FRESH_SECONDS = 300.0  # after which keys are fetched again
PAUSE_SECONDS = 30.0  # between fetches, so that forgers of key ids cause few
RETRY_SECONDS = 5.0  # after a failure, while there are no keys
FETCH_SECONDS = 5.0
ALGORITHMS = (  # with public keys alone
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
UNAVAILABLE = (
    "The issuer's keys cannot be got, so no token can be checked: try again in a few seconds."
)

Key = Mapping[str, Any]


class Keys:
    """The keys of one issuer. There is one fetch at a time, however many calls there are."""

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
        """The key of this id, or the only one; none: the token is forged.

        Raises VerifierUnavailable where there are no keys at all.
        """
        found = self._named(kid)
        old = self._clock() - self._fetched >= FRESH_SECONDS
        # Of those whose key is known, one waits for the new ones, and the others go on.
        if found is None or (old and not self._fetching.locked()):
            async with self._fetching:
                if self._clock() - self._tried >= (PAUSE_SECONDS if self._keys else RETRY_SECONDS):
                    await self._fetch()
            found = self._named(kid)
        if not self._keys:
            raise VerifierUnavailable(UNAVAILABLE)
        return found

    def _named(self, kid: str | None) -> Key | None:
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.get("kid") == kid), None)

    async def _fetch(self) -> None:
        client = httpx.AsyncClient(transport=self._transport, event_hooks={"response": [bounded]})
        try:
            async with asyncio.timeout(FETCH_SECONDS), client:
                self._keys = await self._get(client)
            self._fetched = self._clock()
        except (httpx.HTTPError, httpx.InvalidURL, TooLarge, ValueError, TimeoutError) as error:
            cached = "those fetched before go on" if self._keys else "there are none"
            reason = error if isinstance(error, _Unusable) else type(error).__name__
            logger.warning("The issuer's keys could not be fetched (%s): %s.", reason, cached)
        self._tried = self._clock()

    async def _get(self, client: httpx.AsyncClient) -> tuple[Key, ...]:
        url = self._url or await self._discover(client)
        found = (await _json(client, url)).get("keys")
        keys = tuple(key for key in found or () if isinstance(key, dict) and _public(key))
        if not keys:
            raise _Unusable("no key in the answer can check a signature")
        return keys

    async def _discover(self, client: httpx.AsyncClient) -> str:
        """The address of the keys, by RFC 8414 or OpenID Connect discovery."""
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
    """An answer that cannot be used. Its text is ours, nothing of the answer."""


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


def _public(key: Key) -> bool:
    """True of a public key for signatures: no shared secret, no key for encryption."""
    made_for = key.get("use", "sig") == "sig" and key.get("alg", "EdDSA") in ALGORITHMS
    return made_for and key.get("kty") in ("RSA", "EC", "OKP")
