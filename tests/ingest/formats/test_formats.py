"""A file format is one file and one row: with its test and a line of the docs, four files."""

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mcp_server_qdrant.ingest.formats.load import FORMATS, TEXT, format_of

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "mcp_server_qdrant"
ROOM = SOURCE / "ingest" / "formats"
MODULES = {file.stem for file in ROOM.glob("*.py")} - {
    "__init__",
    "base",
    "exported",
    "front",
    "load",
    "office",
}


def test_every_file_of_a_format_is_one_row_and_has_its_test():
    readers = [one.read.__module__.rpartition(".")[2] for one in (*FORMATS, TEXT)]

    assert sorted(readers) == sorted(MODULES)
    assert {file.stem for file in Path(__file__).parent.glob("test_*.py")} == {
        f"test_{name}" for name in (*MODULES, "formats", "load")
    }


def test_the_docs_have_a_line_for_each_format_and_for_no_other():
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    table = page.partition("| files | become |\n|---|---|\n")[2].partition("\n\n")[0]

    assert {line.split("|")[1].strip() for line in table.splitlines()} == {
        one.name for one in (*FORMATS, TEXT)
    }


def test_every_installation_reads_every_format():
    """What a format imports is a dependency of the package, not of an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = {canonicalize_name(Requirement(one).name) for one in project["dependencies"]}
    imported = re.compile(r"^\s+(?:from|import) (\w+)", re.MULTILINE)
    used = {
        name for file in ROOM.glob("*.py") for name in imported.findall(file.read_text("utf-8"))
    }
    owners = {name: found for name, found in packages_distributions().items() if name in used}

    assert {"mammoth", "pypdfium2", "pptx"} <= owners.keys()
    assert [
        name for name, found in owners.items() if not asked & {*map(canonicalize_name, found)}
    ] == []


def test_no_pattern_is_of_two_formats():
    patterns = [pattern for one in FORMATS for pattern in one.names.split()]

    assert len(patterns) == len({*patterns})
    assert all(format_of(f"n/{one.replace('*', 'X').upper()}") in FORMATS for one in patterns)
