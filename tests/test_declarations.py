"""Each parameter and each setting is declared once.

What is generated (docs/settings.md, .env.example, tables of the README) does not count, nor do the
documents and tests that use a setting as anybody would.
"""

import re
from pathlib import Path

from mcp_server_qdrant.core.find import Preferences
from mcp_server_qdrant.settings.environment import environment_names
from mcp_server_qdrant.settings.former import FORMER

ROOT = Path(__file__).parent.parent
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in sorted((ROOT / "src").rglob("*"))
    if path.suffix in (".py", ".js") and "vendor" not in path.parts
}
# Words of the language or of other things too, which no search for a name can tell apart.
COMMON = {
    *("query", "collections", "limit", "mode", "explain", "rerank", "priority", "correct"),
    *("algorithm", "diversity", "query_filter", "score_threshold", "since", "until"),
}


def files_with(name: str) -> list[str]:
    return [path for path, text in SOURCES.items() if re.search(rf"\b{name}\b", text)]


def declared(name: str) -> list[str]:
    """Files in which a field of this name is declared, with its type."""
    pattern = re.compile(rf"^    {name}: ", re.MULTILINE)
    rooms = ("/core/", "/settings/", "/tools/", "/search/", "/evaluation/", "/http/page/", "/app/")
    return [
        path
        for path, text in SOURCES.items()
        if any(room in path for room in rooms) and pattern.search(text)
    ]


def test_a_preference_is_declared_once():
    found = {name: declared(name) for name in Preferences.model_fields.keys() - COMMON}

    assert {tuple(files) for files in found.values()} == {("src/mcp_server_qdrant/core/find.py",)}


def test_a_variable_is_declared_once_and_an_old_one_stands_in_the_table_alone():
    variables = [name for names in environment_names().values() for name in names]
    rooms = {
        path: text
        for path, text in SOURCES.items()
        if re.search("/settings/(?!former|environment)|/find.py", path)
    }
    found = {
        name: [path for path, text in rooms.items() if re.search(rf'[ (]"{name}"[,)\n]', text)]
        for name in variables
    }

    assert {name: files for name, files in found.items() if len(files) != 1} == {}
    assert {name: files_with(name) for name in FORMER if len(files_with(name)) > 1} == {}
