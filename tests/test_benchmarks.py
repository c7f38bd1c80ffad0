"""Benchmarks are not run by the tests, but what they use of this package has to be there."""

import ast
import importlib.util
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


def _exists(module: str, name: str) -> bool:
    found = importlib.import_module(module)
    if hasattr(found, name):
        return True
    return hasattr(found, "__path__") and bool(importlib.util.find_spec(f"{module}.{name}"))
