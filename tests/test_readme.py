"""The README and the pages beside it say what the code does."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def _script():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "scripts" / "readme_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("mark", ["tools", "settings"])
def test_the_tables_of_tools_and_settings_are_those_of_the_code(mark):
    script = _script()

    assert f"<!-- {mark} -->" in script.filled(mark)
    assert script.filled(mark) == script.TABLES[mark].read_text("utf-8")


def test_links_within_the_project_lead_somewhere():
    links = [
        (path, link)
        for path in DOCUMENTS
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text("utf-8"))
    ]

    assert len(links) > 20
    assert [
        f"{path.name}: {link}" for path, link in links if not (path.parent / link).exists()
    ] == []


def test_every_setting_has_a_row_and_a_meaning():
    from mcp_server_qdrant.settings.environment import Settings, environment_names

    table = _script().settings_table()

    for field, names in environment_names().items():
        assert f"`{names[0]}`" in table
        assert Settings.model_fields[field].description
