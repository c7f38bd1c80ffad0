"""An OAuth issuer: keys, tokens, and an HTTP server with its metadata and its JWKS."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "https://mcp.example.com/mcp"
MAKERS = {"RS": RSAAlgorithm, "PS": RSAAlgorithm, "ES": ECAlgorithm, "Ed": OKPAlgorithm}


class Issuer:
    """Signs tokens, and serves `jwks` and `metadata` unless it is `down`."""

    def __init__(self, url: str = "https://login.example.com") -> None:
        self.url = url
        self.keys: dict[str, tuple[Any, str]] = {}
        self.published: list[dict[str, Any]] = []
        self.fetches = 0
        self.down = False
        self.answers: dict[str, Any] = {}
        self._rsa = _rsa_keys()
        self.rotate("first")

    def rotate(self, kid: str, algorithm: str = "RS256", **extra: Any) -> None:
        """Replace all published keys by a new one."""
        key = _key(algorithm, self._rsa)
        self.keys[kid] = key, algorithm
        public = MAKERS[algorithm[:2]].to_jwk(key.public_key(), as_dict=True)
        self.published = [{**public, "kid": kid, "use": "sig", "alg": algorithm, **extra}]

    def token(self, kid: str | None = None, *, key: Any = None, **changes: Any) -> str:
        """A signed token; `changes` overrides claims, None removes one.

        `headers` and `algorithm` are PyJWT's.
        """
        kid = kid or next(reversed(self.keys))
        own, algorithm = self.keys[kid]
        headers = {"kid": kid} | changes.pop("headers", {})
        algorithm = changes.pop("algorithm", algorithm)
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ana",
            "scope": "read",
            "iat": now,
            "exp": now + 600,
        } | changes
        said = {name: value for name, value in claims.items() if value is not None}
        headers = {name: value for name, value in headers.items() if value is not None}
        return jwt.encode(said, own if key is None else key, algorithm, headers)

    def answer(self, path: str) -> tuple[int, Any]:
        """Status and body of a GET."""
        if self.down:
            return 503, {}
        if path in self.answers:
            return self.answers[path]
        if path == "/jwks":
            self.fetches += 1
            return 200, {"keys": self.published}
        if path == "/.well-known/openid-configuration":
            return 200, {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"}
        return 404, {}


def _key(algorithm: str, of_rsa: Iterator[Any]) -> Any:
    if algorithm.startswith("ES"):
        curve = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}[algorithm]
        return ec.generate_private_key(curve())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return next(of_rsa)


_RSA: list[Any] = []


def _rsa_keys() -> Iterator[Any]:
    """Distinct RSA keys, shared by all issuers, since creating one takes 0.1 s or more."""
    for number in count():
        if number == len(_RSA):
            _RSA.append(rsa.generate_private_key(65537, 2048))
        yield _RSA[number]


@contextlib.contextmanager
def served() -> Iterator[Issuer]:
    """An issuer that answers over HTTP on this machine."""
    issuer = Issuer()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = issuer.answer(self.path)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
