"""A command inside the service is what it is in its own process."""

import asyncio
import io
import json
import logging
import signal
import sys
import threading
from pathlib import Path

import click
import pytest

from mcp_server_qdrant.cli import frame, hosted, visit
from mcp_server_qdrant.cli import main as cli_main
from mcp_server_qdrant.cli.main import main
from mcp_server_qdrant.core.context import in_folder
from mcp_server_qdrant.core.errors import RequestError
from tests.cli.visitor import Visitor

LEAN = {"QDRANT_URL": ":memory:", "EMBEDDING_PROVIDER": "none"}
PATIENCE = 60  # seconds


async def until_interrupted():
    """Wait for the interrupt. Raises TimeoutError if it is lost, so that a test fails and ends."""
    async with asyncio.timeout(PATIENCE):
        await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def streams(monkeypatch):
    """Streams are afterwards what they were."""
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))


@pytest.fixture
def command(monkeypatch):
    """Has the service know one command, `sync`, which does this."""

    def known(work):
        group = click.Group(commands={"sync": click.command("sync")(work)})
        monkeypatch.setattr(cli_main, "main", group)

    return known


def test_what_is_printed_in_tasks_and_threads_goes_to_the_visitor_alone(command, capsys):
    @frame.as_command()
    async def work():
        click.echo("echoed")
        print("printed")
        await asyncio.create_task(asyncio.to_thread(click.echo, "in a thread"))
        frame.print_message("said")
        sys.stdout.flush()

    command(work)
    done = Visitor().run("sync")
    click.echo("the service's own")

    assert done == (0, "echoed\nprinted\nin a thread\n", "mcp-server-qdrant: said\n")
    assert capsys.readouterr() == ("the service's own\n", "")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_line_that_changes_is_shown_on_the_terminal_of_the_visitor(command, terminal):
    def work():
        frame.show_status("10%")
        click.echo(f"{sys.stdout.isatty()} {sys.stderr.isatty()}")

    command(work)
    done = Visitor(terminal=terminal).run("sync")

    assert done == (0, f"{terminal} {terminal}\n", "\r\x1b[K10%" if terminal else "")


def test_colours_are_for_terminals(command):
    command(lambda: click.echo(click.style("red", "red")))

    assert Visitor(terminal=True).run("sync")[1] == "\x1b[31mred\x1b[0m\n"
    assert Visitor().run("sync")[1] == "red\n"


def test_two_at_once_do_not_mix_their_outputs(command):
    both = threading.Barrier(2, timeout=30)

    @frame.as_command()
    async def work():
        for number in range(20):
            both.wait()
            click.echo(f"{visit.folder()} {number}")
            await asyncio.to_thread(frame.print_message, str(visit.folder()))

    command(work)
    two = [Visitor(Path(name)) for name in ("/a", "/b")]
    for thread in [one.start("sync") for one in two]:
        thread.join()

    for one in two:
        assert one.out == "".join(f"{one.folder} {number}\n" for number in range(20))
        assert one.err == f"mcp-server-qdrant: {one.folder}\n" * 20


def test_an_interrupt_cancels_the_work_and_says_that_it_goes_on(command):
    tidied = []

    @frame.as_command(frame.GOES_ON)
    async def work():
        click.echo("begun")
        try:
            await until_interrupted()
        finally:
            tidied.append(True)

    command(work)
    one = Visitor(seen=lambda text: one.visit.interrupt() if text == "begun\n" else None)
    done = one.run("sync")

    assert done == (130, "begun\n", f"mcp-server-qdrant: {frame.GOES_ON}\n")
    assert tidied


def test_work_that_ends_in_order_when_it_is_cancelled_is_no_failure(command):
    @frame.as_command()
    async def work():
        click.echo("Watching")
        try:
            await until_interrupted()
        except asyncio.CancelledError:
            click.echo("Done.")

    command(work)
    one = Visitor(seen=lambda text: one.visit.interrupt() if "Watching" in text else None)

    assert one.run("sync") == (0, "Watching\nDone.\n", "")


def test_an_interrupt_before_the_work_has_begun_is_not_lost(command):
    @frame.as_command()
    async def work():
        await until_interrupted()

    def begun():
        click.get_current_context()
        one.visit.interrupt()
        work()

    command(begun)
    one = Visitor()

    assert one.run("sync") == (130, "", "mcp-server-qdrant: Interrupted.\n")


def test_what_is_no_coroutine_is_interrupted_where_it_prints(command):
    def work():
        with frame.reporting_errors():
            click.echo("first")
            click.echo("second")
            raise AssertionError

    command(work)
    one = Visitor(seen=lambda text: one.visit.interrupt() if text == "first\n" else None)

    assert one.run("sync") == (130, "first\n", "mcp-server-qdrant: Interrupted.\n")


def test_an_interrupt_that_nobody_expects_is_what_click_makes_of_it(command):
    def work():
        one.visit.interrupt()
        click.echo("never")

    command(work)
    one = Visitor()

    assert one.run("sync") == (1, "", "\nAborted!\n")


def failing(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (click.exceptions.Exit(7), 7, ""),
        (click.ClickException("It is wrong."), 1, "Error: It is wrong.\n"),
        (SystemExit(3), 3, ""),
        (SystemExit(None), 0, ""),
        (click.Abort(), 1, "Aborted!\n"),
    ],
)
def test_the_end_of_a_command_is_its_status_and_sentence(command, error, status, said):
    command(failing(error))

    assert Visitor().run("sync") == (status, "", said)


def test_an_error_of_ours_is_one_sentence(command):
    command(frame.reporting_errors()(failing(RequestError("There is none."))))

    assert Visitor().run("sync") == (2, "", "mcp-server-qdrant: There is none.\n")


def test_an_error_that_nobody_foresaw_is_shown_and_ends_with_1(command):
    command(failing(ZeroDivisionError("no")))
    status, out, err = Visitor().run("sync")

    assert (status, out) == (1, "")
    assert err.startswith("Traceback")
    assert err.endswith("ZeroDivisionError: no\n")


@pytest.mark.parametrize(
    ("words", "columns"),
    [(["history", "--no-such"], 80), (["sync"], 60), (["describe", "x"], 200), (["ingest"], 20)],
)
def test_wrong_usage_reads_as_in_a_process_of_its_own(words, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    own = io.StringIO()
    with pytest.raises(click.UsageError) as wrong:
        main.main(words, "mcp-server-qdrant", standalone_mode=False)
    wrong.value.show(own)

    assert Visitor(columns=columns).run(*words) == (2, "", own.getvalue())


@pytest.mark.parametrize("words", [[], ["init"], ["token", "ana"], ["--version"]])
def test_what_is_the_business_of_a_process_of_its_own_is_refused(words):
    status, out, err = Visitor(variables=LEAN).run(*words)

    assert (status, out) == (2, "")
    assert "not run by a service" in err


def test_paths_are_from_the_folder_of_the_visitor(tmp_path):
    (tmp_path / "key.md").write_text("The key is under the flower pot.")
    words = ("ingest", ".", "--collection", "notes", "--dry-run")
    status, out, err = Visitor(tmp_path, LEAN).run(*words)

    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "notes (dry run): 1 new, 0 changed, 0 removed, 0 unchanged, 0 not read.",
        f"  + {tmp_path.name}/key.md",
    ]


def test_without_a_folder_a_relative_path_is_told():
    status, _, err = Visitor(None, LEAN).run("backup", "saved")

    assert status == 2
    assert "give absolute paths" in err
    assert visit.folder() == Path.cwd()
    with in_folder(Path("/elsewhere")):
        assert visit.folder() == Path.cwd(), "no command runs here"


def test_settings_are_from_the_variables_and_the_file_of_the_visitor(tmp_path):
    (tmp_path / "any.env").write_text("QDRANT_READ_ONLY=true")
    words = ("describe", "--env-file", "any.env", "notes", "Letters")
    first = Visitor(tmp_path, LEAN).run(*words)
    second = Visitor(tmp_path, LEAN | {"FASTMCP_PORT": "x"}).run("history")

    assert first[0] == 2
    assert "QDRANT_READ_ONLY is set" in first[2]
    assert second[0] == 2
    assert second[2].startswith("mcp-server-qdrant: FASTMCP_PORT: ")


def test_a_command_leaves_signals_and_the_folder_of_the_service_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    (tmp_path / "queries.json").write_text(json.dumps([{"query": "a", "expect": {"ids": ["a"]}}]))
    status, _, err = Visitor(tmp_path, LEAN).run("eval", "--queries", "queries.json")

    assert (status, err) == (2, "mcp-server-qdrant: There is no collection yet.\n")
    assert signal.getsignal(signal.SIGINT) is before
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize("quiet", [True, False])
def test_the_log_of_a_command_goes_to_its_visitor_unless_it_is_muted(command, quiet):
    logger = logging.getLogger("tests.visit")
    logger.propagate = False
    handler = visit.VisitLog()
    handler.setFormatter(logging.Formatter("mcp-server-qdrant: %(message)s"))
    logger.addHandler(handler)

    def work():
        if quiet:
            visit.mute()
        logger.warning("Something is slow")

    command(work)
    try:
        logger.warning("Of the service")
        said = Visitor().run("sync")[2]
    finally:
        logger.removeHandler(handler)

    assert said == ("" if quiet else "mcp-server-qdrant: Something is slow\n")


async def served(lines, tell, work, command) -> int:
    """The exit status of a command that is asked for over a connection."""
    command(work)
    visit.install_streams()
    hello = {"argv": ["sync"], "terminal": {"out": False, "err": False, "columns": 80}}
    return await hosted.serve_command(cli_main.main, hello, lines, tell)


async def test_a_connection_brings_the_interrupts(command):
    lines, said = asyncio.StreamReader(), []
    loop = asyncio.get_running_loop()

    def tell(**one):
        said.append(one)
        if one.get("out") == "moss\n":
            loop.call_soon_threadsafe(lines.feed_data, b'!{"interrupt": true}\n')

    @frame.as_command()
    async def work():
        click.echo("moss")
        await until_interrupted()

    assert await served(lines, tell, work, command) == 130
    assert said[-1] == {"say": "mcp-server-qdrant: Interrupted.\n"}


async def test_the_end_of_the_connection_is_an_interrupt(command):
    lines, ended = asyncio.StreamReader(), threading.Event()
    loop = asyncio.get_running_loop()

    @frame.as_command()
    async def work():
        loop.call_soon_threadsafe(lines.feed_eof)
        try:
            await until_interrupted()
        finally:
            ended.set()

    assert await served(lines, lambda **_: None, work, command) == 130
    assert ended.is_set()


async def test_a_service_that_ends_interrupts_its_commands(command):
    begun, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @frame.as_command()
    async def work():
        loop.call_soon_threadsafe(begun.set)
        try:
            await until_interrupted()
        finally:
            ended.set()

    serving = asyncio.ensure_future(served(asyncio.StreamReader(), lambda **_: None, work, command))
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
    serving.cancel()
    await asyncio.wait([serving])

    assert await asyncio.to_thread(ended.wait, 30)
