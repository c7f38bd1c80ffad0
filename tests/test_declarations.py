"""In how many files the names of parameters and settings stand: each is declared once.

What is generated (docs/settings.md, .env.example, tables of the README) does not count, nor do the
documents and tests that use a setting as anybody would.
"""

import re
from pathlib import Path

from mcp_server_qdrant.core.find import Preferences, SearchRequest
from mcp_server_qdrant.settings.environment import Settings, environment_names
from mcp_server_qdrant.settings.former import FORMER

ROOT = Path(__file__).parent.parent
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in sorted((ROOT / "src").rglob("*"))
    if path.suffix in (".py", ".js") and "vendor" not in path.parts
}
# Settings themselves, and the commands that report on all of them and write them down.
REPORTS = r"/settings/|/cli/(doctor|init)\.py"
MOST = 4
MOST_SETTINGS = 70
# Words of the language or of other things too, which no search for a name can tell apart.
COMMON = {
    *("query", "collections", "limit", "mode", "explain", "rerank", "priority", "correct"),
    *("algorithm", "diversity", "query_filter", "score_threshold", "since", "until"),
}

# What several parts of the composition ask for: engine, collections, tenants, and groups.
CENTRAL = {
    *("qdrant_url", "qdrant_timeout", "qdrant_content_fields", "qdrant_read_only"),
    *("collection_name", "tenant_field", "embedding_options", "cluster"),
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


def test_a_parameter_of_find_stands_in_few_files():
    """Its declaration, where it is used, and the page; one test makes the fourth."""
    names = set(SearchRequest.model_fields) - COMMON
    found = {name: files_with(name) for name in names}

    assert {name: files for name, files in found.items() if len(files) >= MOST} == {}


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


def test_a_setting_stands_in_few_files():
    """Its declaration and where it is used; one test makes the fourth."""
    users = {path: text for path, text in SOURCES.items() if not re.search(REPORTS, path)}
    found = {
        name: [path for path, text in users.items() if re.search(rf"settings\.{name}\b", text)]
        for name in Settings.model_fields.keys() - CENTRAL
    }

    assert {name: files for name, files in found.items() if 1 + len(files) >= MOST} == {}


def test_there_are_not_many_settings():
    assert len(Settings.model_fields) == len(environment_names()) <= MOST_SETTINGS
