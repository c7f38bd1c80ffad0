"""Standard input as the server reads it."""

import json
import os
import subprocess
import sys

import pytest

from mcp_server_qdrant.app.stdio import mend
from tests import forked


def test_lines_are_utf8_and_other_readers_of_stdin_find_nothing():
    code = (
        "import json, os\nfrom mcp_server_qdrant.app.stdio import _input\n"
        "lines = _input()\nprint(json.dumps([os.read(0, 1).decode(), *lines]))"
    )
    sent = "one\n\nü\n".encode() + b"\xff\n" + b"x" * 200_000 + b"\nlast"
    words, pipes = [sys.executable, "-c", code], dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with forked.Popen(words, env=os.environ, **pipes) as process:
        out, _ = process.communicate(sent, 60)

    assert json.loads(out) == [
        *("", "one\n", "\n", "ü\n", "\ufffd\n", "x" * 200_000 + "\n", "last")
    ]


@pytest.mark.parametrize("line", ['{"a": "\\ud800"}', '{"a": "\\uDFFFx"}'])
def test_a_lone_surrogate_is_marked(line):
    mended = mend(line)

    assert mended.endswith("\n")
    json.loads(mended)["a"].encode()


@pytest.mark.parametrize("line", ['{"a": "\\ud800"', "\\ud800", '["\\ud800", ' + "[" * 100_000])
def test_what_is_no_json_is_left_to_the_sdk(line):
    assert mend(line) == line
