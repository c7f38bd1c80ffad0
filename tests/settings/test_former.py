"""Variables of earlier versions do nothing, and that is said."""

import pytest

from mcp_server_qdrant.settings.environment import environment_names, load
from mcp_server_qdrant.settings.former import FORMER


def test_no_variable_is_former_and_read():
    variables = {name for names in environment_names().values() for name in names}

    assert not variables & FORMER.keys()


@pytest.mark.parametrize("old", FORMER)
@pytest.mark.parametrize("in_file", [False, True])
def test_each_is_told_of_and_never_an_error(loaded, old, in_file, tmp_path, monkeypatch):
    loaded()
    file = tmp_path / "any.env"
    file.write_text(f"{old}=1" if in_file else "")
    file.chmod(0o600)
    if not in_file:
        monkeypatch.setenv(old, "1")
    said: list[str] = []
    load(file, said.append)

    (sentence,) = said
    assert sentence.startswith(f"{old} is no longer a setting and does nothing: ")
    assert sentence.endswith(f"set {FORMER[old]} instead" if FORMER[old] else "remove it")
