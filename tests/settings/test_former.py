"""Variables of earlier versions do nothing, and that is said."""

import pytest

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.settings.environment import environment_names, load
from mcp_server_qdrant.settings.former import FORMER


def test_no_variable_is_former_and_read():
    variables = {name for names in environment_names().values() for name in names}

    assert not variables & FORMER


def test_each_is_told_of_and_never_an_error(loaded, tmp_path, monkeypatch):
    loaded()
    harmless = sorted(FORMER - {"TENANT_CHECK_URL"})
    file = tmp_path / "any.env"
    file.write_text("".join(f"{name}=1\n" for name in harmless[::2]))
    file.chmod(0o600)
    for name in harmless[1::2]:
        monkeypatch.setenv(name, "1")
    said: list[str] = []
    load(file, said.append)

    assert [sentence.split()[0] for sentence in said] == harmless
    assert all(" is no longer a setting and does nothing: " in sentence for sentence in said)


def test_one_that_hid_texts_is_refused(loaded):
    with pytest.raises(ConfigError, match="what it hid would be shown"):
        loaded(TENANT_CHECK_URL="http://localhost:9000/check")
