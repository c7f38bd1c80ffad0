"""The table of the ranking steps, and what it takes to add one."""

import ast
from pathlib import Path

import pytest

from mcp_server_qdrant.search import ranking
from mcp_server_qdrant.search.ranking import STEPS

ROOT = Path(__file__).parent.parent.parent
SEARCH = ROOT / "src" / "mcp_server_qdrant" / "search"
FILES = sorted(path.stem for path in (SEARCH / "steps").glob("*.py") if path.stem != "__init__")
FIRST = "calibrate"  # it makes the hits that the steps of the table take


def test_every_step_is_one_file_and_one_row():
    rows = [step.file for step in STEPS]

    assert sorted([FIRST, *rows]) == FILES
    assert len(set(rows)) == len(rows)


def test_rows_of_a_stage_stand_together_in_the_order_of_the_stages():
    stages = list(dict.fromkeys(step.stage for step in STEPS))

    assert stages == ["candidates", "texts", "reread"]
    assert [step.stage for step in STEPS] == sorted(
        (step.stage for step in STEPS), key=stages.index
    )


@pytest.mark.parametrize("name", FILES)
def test_a_step_touches_five_files_at_most(name):
    """Its own, the table, its test, the parameters' declaration and a page of the docs.

    Those who know it by name are counted; `calibrate` and `tags` have a formula that others use.
    """
    dotted = f"mcp_server_qdrant.search.steps.{name} "
    users = [
        path.relative_to(SEARCH).as_posix()
        for path in SEARCH.rglob("*.py")
        if f"from {dotted}import" in path.read_text("utf-8")
    ]
    shared = {
        "calibrate": ["explain.py"],
        "tags": ["words/tags.py"],
        "group": ["steps/retire.py"],
        "retire": ["successors.py"],
    }

    assert sorted(users) == sorted(["ranking.py", *shared.get(name, [])])
    assert (ROOT / "tests" / "search" / "steps" / f"test_{name}.py").exists()


@pytest.mark.parametrize("name", FILES)
def test_a_step_is_pure(name):
    """Plain functions of plain values: no clock, no settings, no engine, nothing to wait for."""
    tree = ast.parse((SEARCH / "steps" / f"{name}.py").read_text("utf-8"))
    imported = {
        module
        for node in ast.walk(tree)
        for module in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert not imported & {"asyncio", "time", "os", "random"}
    ours = {module for module in imported if module.startswith("mcp_server_qdrant")}
    allowed = {
        "core.bm25",
        "core.datatypes",
        "core.dates",
        "core.exact",
        "core.notation",
        "search.lift",
    }
    allowed |= {"search.steps.group"}
    assert ours <= {f"mcp_server_qdrant.{module}" for module in allowed}
    assert not any(
        isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.Global) for node in ast.walk(tree)
    )
    assert "now()" not in ast.unparse(tree)


def test_the_steps_of_a_stage_are_applied_in_the_order_of_the_table(monkeypatch):
    applied = []

    def step(file, stage):
        return ranking.Step(file, stage, lambda hits, *_: [*hits, applied.append(file)])

    table = [step("a", "texts"), step("b", "reread"), step("c", "texts")]
    monkeypatch.setattr(ranking, "STEPS", tuple(table))

    assert ranking.rank("texts", [], None, None) == [None, None]
    assert applied == ["a", "c"]
