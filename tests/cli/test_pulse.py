"""A command that takes long prints signs of life where no terminal shows how far it is."""

import asyncio
import io
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar

import click
import pytest
from click.testing import CliRunner

from mcp_server_qdrant.cli import frame, ingest, pulse
from mcp_server_qdrant.cli.pulse import Pulse
from mcp_server_qdrant.ingest.files.state import Report
from tests.support import Clock


def beat(*steps: tuple[float, Callable[[Pulse], None]], last: float = 0.0) -> list[float]:
    """Run a pulse; after so many seconds each step is done. The times of its waits."""
    clock, waits = Clock(), list[float]()
    todo = [*steps]
    end = clock.now + sum(seconds for seconds, _ in steps) + last

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        due = clock.now + seconds
        while todo and clock.now + todo[0][0] <= due:
            passed, do = todo.pop(0)
            clock.now += passed
            do(made)
        if todo:
            passed, do = todo[0]
            todo[0] = (passed - (due - clock.now), do)
        clock.now = max(clock.now, due)
        return clock.now > end

    made = Pulse("rebuild", wait, clock)
    made.beat()
    return waits


def test_a_line_is_printed_every_ten_seconds_while_one_step_goes_on(capsys):
    beat(last=35.0)

    assert capsys.readouterr().err.splitlines() == [
        *("rebuild, 10 s so far", "rebuild, 20 s so far", "rebuild, 30 s so far")
    ]


def test_the_line_says_what_was_shown_last(capsys):
    beat((4.0, lambda one: one.tell("notes: 40%")), (10.0, lambda one: one.tell("")), last=10.0)

    assert capsys.readouterr().err.splitlines() == [
        *("notes: 40%, 10 s so far", "rebuild, 20 s so far")
    ]


def test_a_command_that_ends_before_prints_nothing(capsys):
    beat(last=9.0)

    assert capsys.readouterr().err == ""


def test_the_seconds_count_from_the_line_that_was_printed(capsys):
    beat((8.0, lambda one: one.tell("notes: 10 %", printed=True)), last=9.0)
    assert capsys.readouterr().err == ""
    beat((8.0, lambda one: one.tell("notes: 10 %", printed=True)), last=11.0)
    assert capsys.readouterr().err == "notes: 10 %, 18 s so far\n"


def test_nothing_is_printed_while_nothing_goes_on(capsys):
    beat((5.0, Pulse.rest), last=300.0)
    assert capsys.readouterr().err == ""
    beat((5.0, Pulse.rest), (300.0, lambda one: one.tell("Storing: 2%")), last=12.0)
    assert capsys.readouterr().err == "Storing: 2%, 10 s so far\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_no_thread(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    before = threading.active_count()
    with pulse.beating("upgrade"):
        assert threading.active_count() == before


def test_a_command_that_is_part_of_another_has_none():
    before = threading.active_count()
    with pulse.beating(""):
        assert threading.active_count() == before


def test_the_thread_of_a_command_prints_in_its_context_and_ends_with_it(monkeypatch, capsys):
    whose = ContextVar("whose", default="nobody")
    whose.set("visitor")
    printed, seen = threading.Event(), list[str]()

    def note(_: Pulse) -> None:
        seen.append(whose.get())
        printed.set()

    monkeypatch.setattr(Pulse, "beat", note)
    before = threading.active_count()
    with pulse.beating("upgrade"):
        assert printed.wait(60)

    assert seen == ["visitor"]
    assert threading.active_count() == before


@pytest.mark.parametrize("text", ["", "notes: 40 of 90"])
def test_every_command_has_a_pulse_that_tells_what_it_shows(monkeypatch, text):
    monkeypatch.setattr(pulse, "SECONDS", 0.0)
    wanted = threading.Event()
    echo = click.echo

    def heard(message: object = None, **how: bool) -> None:
        if str(message).startswith(f"{text or 'long'}, "):
            wanted.set()
        echo(message, **how)

    monkeypatch.setattr(pulse.click, "echo", heard)

    @click.command("long")
    @frame.runs()
    async def work() -> None:
        if text:
            frame.show(text)
        assert wanted.wait(60)

    assert CliRunner().invoke(work).exit_code == 0


async def test_ingest_tells_how_far_it_is_and_rests_after_it(monkeypatch):
    told = asyncio.Queue[str]()
    monkeypatch.setattr(pulse, "tell", told.put_nowait)
    monkeypatch.setattr(pulse, "rest", lambda: told.put_nowait("(rest)"))
    monkeypatch.setattr(ingest, "SHOW_SECONDS", 0.0)
    report = Report()
    showing = asyncio.ensure_future(ingest._show(report))
    assert await told.get() == "Looking for files …"
    report.phase, report.size, report.sizes = "Storing", 2, 8
    while await told.get() != "Storing: 25%":
        pass
    showing.cancel()
    await asyncio.wait([showing])
    rest = [told.get_nowait() for _ in range(told.qsize())]

    assert rest[-2:] == ["", "(rest)"]
