"""The file of tokens as the command changes it."""

import pytest

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.http.auth.tokenfile import change, line
from mcp_server_qdrant.http.auth.tokens import digest, read
from tests.http.auth.test_tokens import ANA, BEN, entry


@pytest.mark.parametrize("name", ["t.yaml", "t.json"])
async def test_tokens_are_added_to_a_file_that_only_its_owner_reads(tmp_path, name):
    path = tmp_path / name
    change(path, entry(ANA))
    change(path, entry(BEN, "ben"))

    assert [one.name for one in read(path)] == ["ana", "ben"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert ANA not in path.read_text()


def test_what_stands_in_a_file_stays_when_a_token_is_added(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(
        f"# the team\n- name: ana  # in Oslo\n  sha256: {digest(ANA)}\n  scopes: [read]"
    )
    before = path.read_text()

    change(path, entry(BEN, "ben"))

    assert path.read_text() == f"{before}\n{line(entry(BEN, 'ben'))}"


@pytest.mark.parametrize("name", ["t.yaml", "t.json"])
@pytest.mark.parametrize("text", ["[{", None])
def test_a_file_that_would_be_wrong_is_left_as_it_is(tmp_path, name, text):
    path = tmp_path / name
    if text is None:
        change(path, entry(ANA))
        text = path.read_text()
    path.write_text(text)

    with pytest.raises(ConfigError):
        change(path, entry(BEN))

    assert path.read_text() == text
