"""Log lines, for people and for machines."""

import json
import logging
import subprocess
import sys
import threading

import pytest

from mcp_server_qdrant.app.logs import TEXT, JsonLines, Router, Sink, TextLines
from mcp_server_qdrant.core.context import within_request

SECRET = "the combination of the safe"


def record(message: str, **more) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "a.b", "levelno": 30, "levelname": "WARNING"})
    made.msg, made.created = message, 1_700_000_000.5
    made.__dict__.update(more)
    return made


def test_a_line_for_machines_is_one_json_object():
    with within_request("r-1"):
        line = JsonLines().format(record("Call\nof ä", fields={"tool": "qdrant-find", "ms": 1.5}))

    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.500+00:00",
        "level": "WARNING",
        "logger": "a.b",
        "message": "Call\nof ä",
        "tool": "qdrant-find",
        "ms": 1.5,
        "request_id": "r-1",
    }


def test_of_an_error_its_kind_and_place_are_told_and_not_what_it_quotes():
    try:
        raise ValueError(SECRET)
    except ValueError:
        line = JsonLines().format(record("A tool failed", exc_info=sys.exc_info()))

    told = json.loads(line)
    assert told["error"] == "ValueError"
    assert told["stack"][0].startswith("test_logs.py:")
    assert SECRET not in line


def test_a_line_for_people_ends_with_its_fields():
    with within_request("r-1"):
        line = TextLines(TEXT).format(record("Call", fields={"tool": "qdrant-find"}))

    assert line.endswith(" WARNING a.b: Call tool=qdrant-find request_id=r-1")


STEERING = "a\nb\r\x1b[2J\x9b1m\u2028\u202e\x7f"


@pytest.mark.parametrize("formatter", [TextLines(TEXT), JsonLines()])
@pytest.mark.parametrize(
    "more",
    [{}, {"fields": {"path": STEERING}}, {"args": (STEERING,)}],
    ids=["text", "field", "arg"],
)
def test_what_a_caller_sent_makes_no_line_and_steers_no_terminal(formatter, more):
    made = record("%s" if "args" in more else f"Call {STEERING}", **more)

    assert formatter.format(made).isprintable()


def test_what_an_error_quotes_looks_like_no_line_of_the_log():
    try:
        raise ValueError(STEERING)
    except ValueError:
        text = TextLines(TEXT).format(record("A tool failed", exc_info=sys.exc_info()))

    _, *rest = text.split("\n")
    assert rest
    assert all(one.isprintable() and one.startswith("  ") for one in rest)


def test_a_value_with_spaces_is_not_taken_for_several_fields():
    line = TextLines(TEXT).format(
        record("Request", fields={"path": '/a" status=200', "status": 404})
    )

    assert line.endswith('Request path="/a\\" status=200" status=404')


FAILING = """
import logging
from mcp_server_qdrant.app import logs
logs.configure_for_command()
logging.getLogger("mcp_server_qdrant.encoders.local.models").warning("no model")
logging.getLogger("mcp_server_qdrant.app.upkeep").warning("no import")
logging.getLogger("mcp_server_qdrant.app.upkeep").info("a detail")
"""


def test_a_command_prints_warnings_but_for_those_that_its_own_error_repeats():
    done = subprocess.run(
        [sys.executable, "-c", FAILING], capture_output=True, text=True, check=True
    )

    assert (done.stdout, done.stderr) == ("", "mcp-server-qdrant: no import\n")


CODE = """
import logging
from mcp_server_qdrant.app import logs
logs.configure("DEBUG", "json")
logging.getLogger("mcp.server").debug("a whole message")
logging.getLogger("ours").debug("a line")
"""


def test_lines_go_to_stderr_and_libraries_that_tell_all_are_kept_from_it():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)

    assert done.stdout == ""
    assert [json.loads(line)["message"] for line in done.stderr.splitlines()] == ["a line"]


def test_a_client_that_connects_while_a_record_finds_no_client_still_gets_it():
    lines: list[str] = []
    sink = Sink("WARNING", "text", lines.append)
    connecting: list[threading.Thread] = []

    def none_yet(who):
        connecting.append(threading.Thread(target=router.catch_up, args=(sink,)))
        connecting[0].start()
        connecting[0].join(0.05)  # as far as it gets
        return []

    router = Router(none_yet)
    router.handle(logging.makeLogRecord({"msg": "The model failed.", "levelno": logging.WARNING}))
    connecting[0].join()

    assert [line.rstrip().endswith("The model failed.") for line in lines] == [True]
