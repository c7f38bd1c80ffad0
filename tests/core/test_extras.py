"""The line that adds an extra fits the installation, and names the extra's own packages."""

import tomllib
from pathlib import Path

import pytest

from mcp_server_qdrant.core import extras

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(
    ("marker", "line"),
    [
        ("here/pipx_metadata.json", "pipx inject here opentsne scikit-learn"),
        (
            "here/uv-receipt.toml",
            "uv tool install --with opentsne --with scikit-learn ./qdrant-collections-mcp",
        ),
        ("manifest.json", extras.BUNDLED),
        ("here/pyvenv.cfg", "python -m pip install opentsne scikit-learn"),
    ],
)
def test_the_line_is_that_of_the_program_which_made_the_environment(tmp_path, marker, line):
    (tmp_path / "here").mkdir()
    (tmp_path / marker).touch()

    assert extras.adding("map", tmp_path / "here") == line


def test_every_extra_that_people_may_want_is_known_with_its_packages():
    declared = PROJECT["optional-dependencies"]

    assert PROJECT["name"] == extras.DISTRIBUTION
    assert {*extras.NEEDED_BY, "dev"} == declared.keys()
    for extra in extras.NEEDED_BY:
        assert extras.packages(extra) == sorted(
            one.split(">")[0].lower() for one in declared[extra]
        )


def test_what_is_not_installed_is_missing(monkeypatch):
    assert extras.missing() == []

    def gone(package):
        if package == "opentsne":
            raise extras.PackageNotFoundError(package)

    monkeypatch.setattr(extras, "version", gone)

    assert extras.missing() == ["map"]
