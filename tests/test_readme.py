"""The README says what the code does."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _script():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "scripts" / "readme_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_tools_and_settings_are_those_of_the_code():
    text = (ROOT / "README.md").read_text("utf-8")

    assert _script().filled(text) == text


def test_every_setting_has_a_row_and_a_meaning():
    from mcp_server_qdrant.settings import Settings, environment_names

    table = _script().settings_table()

    for field, names in environment_names().items():
        assert f"`{names[0]}`" in table
        assert Settings.model_fields[field].description
