"""What a JWT must be to let someone in."""

import base64
import hashlib
import hmac
import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from mcp_server_qdrant.core.context import Caller
from mcp_server_qdrant.core.errors import Unauthorized
from mcp_server_qdrant.http.auth.oauth import AccessTokens, Keys
from tests.issuer import AUDIENCE, Issuer


class Published:
    """The keys that the issuer publishes now."""

    def __init__(self, issuer: Issuer) -> None:
        self._keys = Keys(issuer.url)
        self._issuer = issuer

    async def key(self, kid):
        self._keys._keys = tuple(self._issuer.published)
        return self._keys._find(kid)


@pytest.fixture(scope="module")
def issuer():
    return Issuer()


def verifier(issuer):
    return AccessTokens(Published(issuer), issuer=issuer.url, audience=(AUDIENCE,))


async def refused(issuer, token, **expected):
    with pytest.raises(Unauthorized) as caught:
        await verifier(issuer).caller(token)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 100
    return text


async def test_a_valid_token_names_its_caller_scopes_and_claims(issuer):
    token = issuer.token(scope="openid write", team="blue")

    who = await verifier(issuer).caller(token)

    assert (who.name, who.scopes, who.claims["team"]) == ("ana", {"read", "write"}, "blue")


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "RS512", "ES256", "ES384", "EdDSA"])
async def test_all_common_asymmetric_algorithms_are_accepted(algorithm):
    issuer = Issuer()
    issuer.rotate("key", algorithm)
    assert isinstance(await verifier(issuer).caller(issuer.token()), Caller)
    del issuer.published[0]["alg"]
    assert isinstance(await verifier(issuer).caller(issuer.token()), Caller)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exp": int(time.time()) - 31}, "The token has expired."),
        ({"exp": 0}, "The token has expired."),
        ({"exp": None}, "The token lacks a claim: it needs exp, iss and aud."),
        ({"exp": "soon"}, "The token is broken."),
        ({"nbf": int(time.time()) + 3600}, "The token is not valid yet."),
        ({"iat": int(time.time()) + 3600}, "The token is not valid yet."),
        ({"aud": "https://other.example/mcp"}, "The token is for another audience."),
        ({"aud": ["a", "b"]}, "The token is for another audience."),
        ({"aud": AUDIENCE + "/"}, "The token is for another audience."),
        ({"aud": None}, "The token lacks a claim: it needs exp, iss and aud."),
        ({"iss": "https://evil.example"}, "The token is from another issuer."),
        ({"iss": "https://login.example.com/"}, "The token is from another issuer."),
        ({"iss": None}, "The token lacks a claim: it needs exp, iss and aud."),
        ({"sub": None}, "The token names no caller."),
        ({"headers": {"typ": "logout+jwt"}}, "The token is not an access token."),
        ({"headers": {"kid": "nobody's"}}, "signed with a key that the issuer does not have."),
        ({"algorithm": "RS512"}, "The token is broken."),
    ],
)
async def test_a_token_that_says_the_wrong_thing_is_refused(issuer, changes, why):
    assert why in await refused(issuer, issuer.token(**changes))


async def test_the_clocks_may_differ_by_the_leeway(issuer):
    late = issuer.token(exp=int(time.time()) - 20)

    assert (await verifier(issuer).caller(late)).name == "ana"
    ended = issuer.token(exp=int(time.time()) - 40)
    assert await refused(issuer, ended) == "The token has expired."


async def test_a_key_that_is_not_the_issuers_signs_nothing(issuer):
    forged = issuer.token(key=rsa.generate_private_key(65537, 2048))

    assert await refused(issuer, forged) == "The token's signature is wrong."


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", None, 7, ["RS256"]])
async def test_an_unsigned_token_is_refused(issuer, algorithm):
    _, claims, signature = issuer.token().split(".")
    header = _part({"alg": algorithm, "typ": "JWT", "kid": "first"})

    for end in ("", signature):
        assert "algorithm that is not accepted" in await refused(issuer, f"{header}.{claims}.{end}")


@pytest.mark.parametrize("algorithm", ["HS256", "HS512"])
async def test_the_public_key_is_no_shared_secret(issuer, algorithm):
    key = issuer.keys["first"][0].public_key()
    pem = key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    claims = issuer.token().split(".")[1]
    signing = f"{_part({'alg': algorithm, 'typ': 'JWT', 'kid': 'first'})}.{claims}"
    kind = getattr(hashlib, f"sha{algorithm[2:]}")
    signature = _encoded(hmac.new(pem, signing.encode(), kind).digest())

    assert "algorithm that is not accepted" in await refused(issuer, f"{signing}.{signature}")


async def test_keys_that_a_token_brings_along_are_not_looked_at(issuer):
    mine = rsa.generate_private_key(65537, 2048)
    own = jwt.algorithms.RSAAlgorithm.to_jwk(mine.public_key(), as_dict=True)
    headers = {"jwk": own, "jku": "https://evil.example/jwks", "x5u": "https://evil.example/x"}

    forged = issuer.token(key=mine, headers=headers)

    assert await refused(issuer, forged) == "The token's signature is wrong."


async def test_what_was_changed_after_signing_is_refused(issuer):
    header, claims, signature = issuer.token().split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    changed = _part(said | {"scope": "admin"})

    assert await refused(issuer, f"{header}.{changed}.{signature}") == (
        "The token's signature is wrong."
    )
    assert "wrong" in await refused(issuer, f"{header}.{claims}.{_encoded(b'0' * 256)}")


@pytest.mark.parametrize(
    "text",
    ["", "a", "a.b", "a.b.c", "a.b.c.d.e", "..", "e30.e30.", "bnVsbA.e30.e30", "W10.e30.e30"],
)
async def test_what_is_no_jwt_is_refused(issuer, text):
    assert await refused(issuer, text)


async def test_a_header_that_must_be_understood_and_is_not_is_refused(issuer):
    token = issuer.token(headers={"crit": ["new"], "new": 1})

    assert await refused(issuer, token) == "The token is not a JWT."


async def test_a_huge_token_is_refused_unread(issuer):
    assert await refused(issuer, issuer.token(padding="x" * 20_000)) == "The token is too long."


async def test_a_weak_key_checks_nothing():
    issuer = Issuer()
    weak = rsa.generate_private_key(65537, 1024)
    public = jwt.algorithms.RSAAlgorithm.to_jwk(weak.public_key(), as_dict=True)
    issuer.published = [{**public, "kid": "first"}]
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = issuer.token(key=weak)

    assert await refused(issuer, token) == "The token is broken."


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "read"}, {"read"}),
        ({"scope": None, "scp": "write"}, {"read", "write"}),
        ({"scope": None, "scp": ["admin"]}, {"read", "write", "admin"}),
        ({"scope": None}, set()),
        ({"scope": ""}, set()),
        ({"scope": {"read": 1}}, set()),
        ({"scope": ["read", 7, None]}, {"read"}),
    ],
)
async def test_scopes_are_read_from_scope_or_scp(issuer, claims, scopes):
    who = await verifier(issuer).caller(issuer.token(**claims))

    assert who.scopes == scopes


async def test_an_application_without_a_subject_is_named_by_its_id(issuer):
    who = await verifier(issuer).caller(issuer.token(sub=None, azp="robot"))

    assert who.name == "robot"


def _part(value):
    return _encoded(json.dumps(value).encode())


def _encoded(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
