"""The command that makes tokens."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_server_qdrant.cli.main import main
from mcp_server_qdrant.http.auth.tokens import NamedTokens, parse
from tests.forked import Popen


def run(*arguments):
    done = CliRunner().invoke(main, ["token", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


async def test_the_printed_line_lets_the_printed_token_in(tmp_path):
    code, printed, said = run("ana", "--scope", "write", "--claim", "team=blue")
    token, line = printed.splitlines()
    path = tmp_path / "tokens.yaml"
    path.write_text(line)

    who = await NamedTokens(path, None).caller(token)

    assert code == 0
    assert (who.name, who.scopes, who.claims) == ("ana", {"read", "write"}, {"team": "blue"})
    assert token not in line + said


async def test_a_file_gets_the_hash_and_the_terminal_the_token_alone(path):
    made = [run(who, "--scope", "read", "--file", path)[1].strip() for who in ("ana", "ben")]

    known = NamedTokens(path, None)

    assert [(await known.caller(token)).name for token in made] == ["ana", "ben"]
    assert not any(token in path.read_text() for token in made)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "Missing argument 'NAME'"),
        (["ana"], "Missing option '--scope'"),
        (["ana", "--scope", "root"], "'read', 'write', 'admin'"),
        (["a b", "--scope", "read"], "name: must match"),
        (["ana", "--scope", "read", "--claim", "team"], "A claim is NAME=VALUE."),
        (["ana", "--scope", "read", "--expires", "soon"], "does not match the formats"),
        (
            ["ana", "--scope", "read", "--expires", "2020-01-31"],
            "2020-01-31 00:00 (UTC) is in the past.",
        ),
    ],
)
def test_what_cannot_be_is_said_and_no_token_is_made(arguments, why):
    code, printed, said = run(*arguments)

    assert code == 2
    assert why in said
    assert printed == ""


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    code, printed, said = run("ana", "--scope", "read", "--file", tmp_path / "none" / "t.yaml")

    assert (code, printed) == (2, "")
    assert said == "mcp-server-qdrant: The file cannot be written: No such file or directory.\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.yaml"


def test_tokens_made_at_once_are_all_there(path):
    names = [f"user{number}" for number in range(8)]
    command = [sys.executable, "-P", "-m", "mcp_server_qdrant", "token"]
    given = ("--scope", "read", "--file", str(path))
    started = [
        Popen([*command, name, *given], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for name in names
    ]
    printed = [one.communicate()[0].decode().strip() for one in started]
    known = NamedTokens(path, None)

    assert [one.returncode for one in started] == [0] * 8
    assert [asyncio.run(known.caller(token)).name for token in printed] == names


def test_every_command_of_the_page_on_teams_does_what_it_says(tmp_path):
    page = (Path(__file__).parents[2] / "docs/team.md").read_text()
    commands = re.findall(r"^mcp-server-qdrant token (.*)$", page, re.MULTILINE)

    for command in commands:
        code, _, said = run(*command.replace("~", str(tmp_path)).split())
        assert code == 0, said

    assert [one.name for one in parse((tmp_path / "tokens.yaml").read_text())] == ["ana", "robot"]
