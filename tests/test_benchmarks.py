"""Benchmarks are not run by the tests, but what they use of this package has to be there."""

import ast
import importlib.util
import json
import sys
from dataclasses import asdict
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
PACKAGE = "mcp_server_qdrant"
OTHERS = {"official_side.py", "fill_official.py"}  # run beside the official package of that name
FILES = sorted(path for path in BENCHMARKS.rglob("*.py") if path.name not in OTHERS)


def test_every_name_that_a_benchmark_imports_of_the_package_exists():
    missing = [
        f"{path.relative_to(BENCHMARKS)}: {node.module}.{alias.name}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE
        for alias in node.names
        if not _exists(str(node.module), alias.name)
    ]

    assert len(FILES) > 20
    assert missing == []


def test_the_readme_names_every_script():
    said = (BENCHMARKS / "README.md").read_text("utf-8")
    scripts = [path for path in BENCHMARKS.rglob("*.py") if "__pycache__" not in path.parts]

    assert len(scripts) > 20
    assert [path.name for path in scripts if f"{path.name}`" not in said.replace(" ", "` ")] == []


def test_the_figures_are_those_of_scripts_and_pages_that_there_are_one_section_each(tmp_path):
    spec = importlib.util.spec_from_file_location("all_figures", BENCHMARKS / "figures.py")
    figures = sys.modules["all_figures"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    names = [part.name for part in figures.PARTS]
    table = "| points | ms |\n|---|---|\n| 1,000 | 2.5 |"
    printed = f"loaded\n{table}\n<!-- aside -->\ntarget: met\n"
    outcome = figures.Outcome(
        *(names[0], "speed.md", "benchmarks/x.py", "abc1234", "a machine", "2026-11-29 07:00"),
        *(12.0, 0.5, 1, printed),
    )
    (tmp_path / f"{names[0]}.json").write_text(json.dumps(asdict(outcome)))
    figures.write(tmp_path, tmp_path)
    page = (tmp_path / "figures.md").read_text()

    assert len({*names}) == len(names) > 10
    assert all((BENCHMARKS / part.script).is_file() for part in figures.PARTS)
    assert all((figures.DOCS / part.page).is_file() for part in figures.PARTS)
    assert f"```text\nloaded\n```\n\n{table}\n\n```text\ntarget: met\n```" in page
    assert "`python benchmarks/x.py`\n\n2026-11-29 07:00 UTC, commit abc1234, 12 s" in page
    assert "It ended with an error, or missed a target." in page
    assert figures.rows(printed) == [{"points": "1,000", "ms": "2.5"}]
    assert [one.name for one in figures.chosen("official,map")] == ["official", "map"]


def _exists(module: str, name: str) -> bool:
    found = importlib.import_module(module)
    if hasattr(found, name):
        return True
    return hasattr(found, "__path__") and bool(importlib.util.find_spec(f"{module}.{name}"))
