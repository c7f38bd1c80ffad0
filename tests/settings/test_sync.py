"""The settings of background sync."""

from pathlib import Path

import pytest

from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.settings.environment import load


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")


def test_folders_are_named_with_their_collections(monkeypatch):
    monkeypatch.setenv("SYNC_SOURCES", '{"~/notes": "notes", "/srv/docs": "docs"}')
    found = load().sync_sources

    assert [(one.path, one.collection) for one in found] == [
        (Path("/home/ada/notes"), "notes"),
        (Path("/srv/docs"), "docs"),
    ]


def test_a_list_says_more(monkeypatch):
    given = '[{"path": "/d", "collection": "c", "name": "n", "include": ["*.md"]}]'
    monkeypatch.setenv("SYNC_SOURCES", given)
    (one,) = load().sync_sources

    assert (one.name, one.include, one.exclude) == ("n", ("*.md",), ())
    assert one.selection == Selection(("*.md",))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("~/notes", 'SYNC_SOURCES: must be JSON such as {"~/notes": "notes"}.'),
        ('{"/a": "x/y"}', "SYNC_SOURCES: collection: 'x/y' cannot be a collection's name"),
        ("[" * 100_000, 'SYNC_SOURCES: must be JSON such as {"~/notes": "notes"}.'),
        ('[{"path": "/a"}]', "SYNC_SOURCES: collection: is required."),
        (
            '[{"path": "/a", "collection": "c", "x": 1}]',
            "SYNC_SOURCES: x: is not part of this setting",
        ),
        ('{"/a/docs": "c", "/b/docs": "c"}', "SYNC_SOURCES has two folders named 'docs' for 'c'"),
    ],
)
def test_what_cannot_be_meant_is_refused(given, sentence, monkeypatch):
    monkeypatch.setenv("SYNC_SOURCES", given)
    with pytest.raises(ConfigError) as caught:
        load()

    assert str(caught.value).startswith(sentence)


def test_folders_are_of_a_tenant_where_there_are_tenants(monkeypatch):
    monkeypatch.setenv("SYNC_SOURCES", '{"/srv/docs": "docs"}')
    monkeypatch.setenv("TENANT_FIELD", "tenant")
    with pytest.raises(ConfigError, match="SYNC_SOURCES needs TENANT_ID here"):
        load()

    monkeypatch.setenv("TENANT_ID", "blue")
    assert load().tenant_id == "blue"
