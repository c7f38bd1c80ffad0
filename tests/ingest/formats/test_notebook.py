"""Jupyter notebooks: a section per cell."""

import json

import pytest

from mcp_server_qdrant.ingest.formats.load import load
from mcp_server_qdrant.ingest.parts import sections
from tests.ingest.formats.archives import refused


def notebook(*cells: object, **metadata: object) -> bytes:
    about = {"language_info": {"name": "python"}} | metadata
    return json.dumps({"nbformat": 4, "metadata": about, "cells": cells}).encode()


def markdown(source: object) -> dict[str, object]:
    return {"cell_type": "markdown", "source": source}


def code(source: object, *outputs: object) -> dict[str, object]:
    return {"cell_type": "code", "source": source, "outputs": outputs}


def test_headings_and_cells_are_its_sections():
    cells = [
        markdown(["# Roses\n", "\n", "All about them."]),
        markdown("## Pruning"),
        code("cut(3)"),
        markdown("In March."),
    ]
    (one,) = load("n/x.ipynb", notebook(*cells)).texts

    assert one.title == "Roses"
    assert "```python\ncut(3)\n```" in one.text
    assert [(one.text[start:].split("\n")[0], name) for start, name in sections(one.marks)] == [
        ("# Roses", ""),
        ("## Pruning", "Pruning"),
        ("```python", "Pruning > cell 3"),
        ("In March.", "Pruning > cell 4"),
    ]


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ({"output_type": "stream", "text": ["3 ", "roses\n"]}, "3 roses"),
        ({"output_type": "execute_result", "data": {"text/plain": "42"}}, "42"),
        ({"output_type": "error", "ename": "KeyError", "evalue": "'rose'"}, "KeyError: 'rose'"),
        ({"output_type": "stream", "text": "a" * 9_000}, "a" * 2_000),
    ],
)
def test_what_a_cell_wrote_follows_its_code(output, shown):
    (one,) = load("n/x.ipynb", notebook(code("cut()", output))).texts

    assert one.text == f"```python\ncut()\n```\n\n```\n{shown}\n```\n\n"


@pytest.mark.parametrize("output", [None, {}, {"data": {"image/png": "iVBORw0"}}, {"text": 5}])
def test_pictures_and_broken_outputs_are_left_out(output):
    (one,) = load("n/x.ipynb", notebook(code("cut()", output))).texts

    assert one.text == "```python\ncut()\n```\n\n"


def test_the_title_is_its_own_or_the_name_of_the_file():
    titles = [
        load("n/a/x.ipynb", data).texts[0].title
        for data in (notebook(code("1"), title="Roses"), notebook(code("1")))
    ]

    assert titles == ["Roses", "a/x"]


def test_halves_of_characters_are_replaced():
    (one,) = load("n/x.ipynb", notebook(code("a\ud800"), title="b\udfff")).texts

    assert (one.text, one.title) == ("```python\na\ufffd\n```\n\n", "b\ufffd")


def test_cells_without_source_are_left_out_and_named():
    contents = load("n/x.ipynb", notebook(code("cut()"), {"cell_type": "code"}, None, code([5])))

    assert contents.texts[0].text == "```python\ncut()\n```\n\n"
    assert contents.notes == ["cell 2 has no source (likewise 3, 4)"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "is not JSON: is it complete?"),
        (b"[" * 100_000, "is not JSON: is it complete?"),
        (b"[]", "is not a Jupyter notebook of version 4: it has no cells"),
        (b'{"worksheets": []}', "is not a Jupyter notebook of version 4: it has no cells"),
        (notebook(code("")), "has no text"),
        (notebook({}), "cell 1 has no source"),
    ],
)
def test_what_is_no_notebook_is_refused_with_the_reason(data, reason):
    assert refused("n/x.ipynb", data) == reason


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"text/plain": "<IPython.core.display.HTML object>", "text/html": "<p>gull</p>"}, "gull"),
        (
            {"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": "a *b*"},
            "a *b*",
        ),
        ({"text/html": ["<p>gull", "</p>"]}, "gull"),
        ({"text/plain": "a  b", "text/html": "<table><td>a</table>"}, "a  b"),
    ],
)
def test_a_displayed_object_is_its_text(data, shown):
    (one,) = load("n/x.ipynb", notebook(code("cut()", {"data": data}))).texts

    assert one.text == f"```python\ncut()\n```\n\n```\n{shown}\n```\n\n"


def test_an_output_that_is_cut_is_named():
    contents = load("n/x.ipynb", notebook(code("1", {"text": "a" * 3_000})))

    assert contents.notes == ["cell 1 has an output that is cut after 2,000 characters"]
