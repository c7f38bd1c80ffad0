"""Benchmarks are not run by the tests, but what they use of this package has to be there."""

import ast
import importlib.util
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
PACKAGE = "mcp_server_qdrant"
OTHERS = {"official_side.py", "fill_official.py"}  # run beside the official package of that name
FILES = sorted(path for path in BENCHMARKS.rglob("*.py") if path.name not in OTHERS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(BENCHMARKS)))
def test_every_name_that_a_benchmark_imports_of_the_package_exists(path):
    missing = [
        f"{node.module}.{one.name}"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE
        for one in node.names
        if not _exists(str(node.module), one.name)
    ]

    assert missing == []


def _exists(module: str, name: str) -> bool:
    found = importlib.import_module(module)
    if hasattr(found, name):
        return True
    return hasattr(found, "__path__") and bool(importlib.util.find_spec(f"{module}.{name}"))
