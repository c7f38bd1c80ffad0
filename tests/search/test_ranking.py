"""The ranking steps are pure."""

import ast
from pathlib import Path

import pytest

SEARCH = Path(__file__).parent.parent.parent / "src" / "mcp_server_qdrant" / "search"


@pytest.mark.parametrize("name", ["relevance", "ranking"])
def test_a_ranking_step_asks_no_clock_and_no_engine_and_waits_for_nothing(name):
    tree = ast.parse((SEARCH / f"{name}.py").read_text("utf-8"))
    nodes = [*ast.walk(tree)]
    imported = {
        alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}

    assert not imported & {"asyncio", "time", "os", "random"}
    assert not any("settings" in module or "engine" in module for module in imported)
    assert not any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in nodes)
    assert "now()" not in ast.unparse(tree)
