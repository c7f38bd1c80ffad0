"""How values of settings are read."""

import pytest
from pydantic import SecretStr

from mcp_server_qdrant.settings.values import reveal


@pytest.mark.parametrize(
    ("secret", "said"),
    [(SecretStr("key\n"), "key"), (SecretStr("key"), "key"), (SecretStr(""), None), (None, None)],
)
def test_a_key_comes_without_the_line_end_of_its_file(secret, said):
    assert reveal(secret) == said
