"""Standard input as the server reads it."""

import json
import os
import subprocess
import sys

import pytest

from mcp_server_qdrant.app.session import line_error, mark_surrogates, sound_lines
from tests import forked


def test_lines_are_utf8_and_other_readers_of_stdin_find_nothing():
    code = (
        "import json, os\nfrom mcp_server_qdrant.app.stdio import _streams\n"
        "lines, out = _streams()\nprint(json.dumps([os.read(0, 1).decode(), *lines]), file=out)"
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
    mended = mark_surrogates(line)

    assert mended.endswith("\n")
    json.loads(mended)["a"].encode()


PING = '{"jsonrpc":"2.0","id":7,"method":"ping"}'
NESTED = PING.replace('"ping"', '"ping","params":{"a":%s}')


@pytest.mark.parametrize(
    ("line", "code", "own"),
    [
        ("hello", -32700, None),
        (PING[:-1], -32700, None),
        (PING.replace("ping", "pi\x01ng"), -32700, 7),
        (PING.replace("ping", "pi\tng"), -32700, 7),
        (NESTED % ("[" * 200 + "]" * 200), -32700, 7),
        (NESTED % ("[" * 100_000 + "]" * 100_000), -32700, None),
        (f"[{PING},{PING}]", -32600, None),
        ("[]", -32600, None),
        ("null", -32600, None),
        (PING.replace("7", "null"), -32600, None),
        (PING.replace("7", "1.5"), -32600, None),
        (PING.replace("7", "true"), -32600, None),
        (PING.replace("7", "{}"), -32600, None),
        (PING.replace("2.0", "1.0"), -32600, 7),
        (PING.replace('"ping"', "5"), -32600, 7),
        (PING.replace("}", ',"params":[1]}'), -32600, 7),
        ('{"jsonrpc":"2.0"}', -32600, None),
        ('{"jsonrpc":"2.0","id":7,"result":5}', -32600, None),
        ('{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32700, None),
    ],
)
def test_a_line_that_is_no_message_is_answered_by_an_error(line, code, own):
    answer = json.loads(line_error(line).model_dump_json(by_alias=True, exclude_unset=True))

    assert answer["jsonrpc"] == "2.0"
    assert (answer["id"], answer["error"]["code"]) == (own, code)
    assert answer["error"]["message"].endswith(".")
    assert answer["error"]["message"].startswith("Batches") is line.startswith("[")


@pytest.mark.parametrize(
    "line",
    [
        PING,
        NESTED % ("[" * 190 + "]" * 190),
        '{"jsonrpc":"2.0","method":"notifications/x","params":{"id":null}}',
        '{"jsonrpc":"2.0","id":7,"result":{}}',
        '{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}',
        " \n",
    ],
)
def test_messages_and_blank_lines_go_to_the_sdk(line):
    assert line_error(line) is None


async def test_a_byte_order_mark_before_a_line_is_no_part_of_it():
    async def lines():
        yield f"\ufeff{PING}"
        yield "hello"
        yield PING

    refused = []

    async def refuse(error):
        refused.append(error.error.code)

    assert [line async for line in sound_lines(lines(), (), refuse)] == [PING, PING]
    assert refused == [-32700]


@pytest.mark.parametrize("line", ['{"a": "\\ud800"', "\\ud800", '["\\ud800", ' + "[" * 100_000])
def test_what_is_no_json_is_left_to_the_sdk(line):
    assert mark_surrogates(line) == line
