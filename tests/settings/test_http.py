"""The settings of a server over HTTP: who may connect, limits, logs."""

import pytest
from pydantic import ValidationError

from tests.support import make_settings

LONG = "a-token-of-some-length"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"auth_mode": "token"}, "AUTH_MODE=token needs AUTH_TOKEN or AUTH_TOKENS_FILE"),
        ({"auth_mode": "oauth"}, "AUTH_MODE=oauth needs AUTH_ISSUER and AUTH_AUDIENCE"),
        (
            {"auth_mode": "oauth", "auth_issuer": "https://a.example"},
            "AUTH_MODE=oauth needs AUTH_ISSUER and AUTH_AUDIENCE",
        ),
        ({"auth_token": LONG}, "AUTH_TOKEN does nothing without AUTH_MODE"),
        ({"auth_token": LONG, "auth_mode": "none"}, "AUTH_TOKEN does nothing without AUTH_MODE"),
        ({"auth_tokens_file": "/t.yaml"}, "AUTH_TOKENS_FILE does nothing without AUTH_MODE"),
        ({"auth_issuer": "https://a.example"}, "AUTH_ISSUER does nothing without AUTH_MODE"),
        ({"auth_mode": "token", "auth_token": "short"}, "at least 16 letters"),
        ({"auth_mode": "token", "auth_token": LONG + " x"}, "at least 16 letters"),
        ({"auth_issuer": "login.example.com"}, "must be a URL"),
        ({"auth_jwks_url": "file:///keys"}, "must be a URL"),
        ({"fastmcp_allowed_origins": "https://a.example/app"}, "must be origins"),
        ({"fastmcp_allowed_origins": "app.example.com"}, "must be origins"),
        ({"fastmcp_allowed_hosts": "https://a.example"}, "must be names"),
    ],
)
def test_what_is_half_said_or_wrong_is_refused(values, why):
    with pytest.raises(ValidationError) as caught:
        make_settings(**values)

    assert why in str(caught.value.errors()[0]["msg"])


def test_lists_are_split_at_commas():
    settings = make_settings(
        auth_audience="a, https://b.example",
        fastmcp_allowed_hosts="mcp.example.com,*.internal",
        fastmcp_allowed_origins="*, https://app.example.com",
    )

    assert settings.auth_audience == ("a", "https://b.example")
    assert settings.fastmcp_allowed_hosts == ("mcp.example.com", "*.internal")
    assert settings.fastmcp_allowed_origins == ("*", "https://app.example.com")
