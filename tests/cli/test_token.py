"""The command that makes tokens."""

import asyncio
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_server_qdrant.cli.main import main
from mcp_server_qdrant.core.disk import locked
from mcp_server_qdrant.core.errors import Unauthorized
from mcp_server_qdrant.http.auth import tokens
from mcp_server_qdrant.http.auth.tokens import NamedTokens, read_tokens
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


def test_a_name_that_is_taken_is_refused(tmp_path):
    path = tmp_path / "tokens.yaml"
    run("ana", "--scope", "read", "--file", path)
    before = path.read_text()

    code, printed, said = run("ana", "--scope", "admin", "--file", path)

    assert (code, printed, path.read_text()) == (2, "", before)
    assert said == (
        f"mcp-server-qdrant: ana has a token in {path}: add --replace, or choose another name.\n"
    )


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    code, printed, said = run("ana", "--scope", "read", "--file", tmp_path / "none" / "t.yaml")

    assert (code, printed) == (2, "")
    assert said == "mcp-server-qdrant: The file cannot be written: No such file or directory.\n"


def callers(path, *secrets):
    """Who may call with each of these tokens now."""
    known = NamedTokens(path, None)

    async def asked(token):
        try:
            return (await known.caller(token)).name
        except Unauthorized:
            return None

    return [asyncio.run(asked(token)) for token in secrets]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.yaml"


def made(path, *arguments):
    code, printed, said = run(*arguments, "--file", path)
    assert code == 0, said
    return printed.strip()


def test_tokens_made_at_once_are_all_there_and_one_name_is_given_once(path):
    names = [*(f"user{number}" for number in range(8)), "twin", "twin"]
    command = [sys.executable, "-P", "-m", "mcp_server_qdrant", "token"]
    given = ("--scope", "read", "--file", str(path))
    started = [
        Popen([*command, name, *given], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for name in names
    ]
    printed = [one.communicate()[0].decode().strip() for one in started]

    assert sorted(one.returncode for one in started) == [0] * 9 + [2]
    assert [*path.parent.iterdir()] == [path]
    assert callers(path, *filter(None, printed)) == [
        name for name, token in zip(names, printed, strict=True) if token
    ]


def test_a_file_that_somebody_else_changes_for_long_is_one_sentence(path, monkeypatch):
    monkeypatch.setattr(tokens, "locked", partial(locked, seconds=0.01))
    with locked(path):
        code, printed, said = run("ana", "--scope", "read", "--file", path)

    assert (code, printed, path.exists()) == (2, "", False)
    assert "The file cannot be written: another process is changing it." in said


def test_a_token_is_replaced_by_one_with_the_same_rights(path):
    old = made(path, "ana", "--scope", "write", "--claim", "tenant=blue")
    other = made(path, "ben", "--scope", "read")

    new = made(path, "ana", "--replace")

    assert callers(path, old, new, other) == [None, "ana", "ben"]
    after = NamedTokens(path, None)
    who = asyncio.run(after.caller(new))
    assert (who.scopes, who.claims) == ({"read", "write"}, {"tenant": "blue"})


def test_the_successor_of_a_token_with_an_end_needs_one_too(path):
    made(path, "ana", "--scope", "read", "--expires", "2100-01-31")

    code, printed, said = run("ana", "--replace", "--file", path)

    assert (code, printed) == (2, "")
    assert "add --expires for the new one" in said
    assert made(path, "ana", "--replace", "--expires", "2101-01-31")


def test_a_revoked_token_ends_and_the_others_stay(path):
    first, other = (made(path, name, "--scope", "read") for name in ("ana", "ben"))

    assert made(path, "ana", "--revoke") == ""

    assert callers(path, first, other) == [None, "ben"]


def test_all_tokens_are_listed_without_their_hashes(path):
    made(path, "ana", "--scope", "write", "--claim", "tenant=blue")
    made(path, "ben", "--scope", "read", "--expires", "2100-01-31T12:00:00")
    text = path.read_text()
    path.write_text(text.replace("2100-01-31", "2020-01-31"))
    made(path, "eva", "--scope", "read", "--expires", "2100-01-31T12:00:00")
    path.write_text(path.read_text().replace("2100-01-31T12:00:00", "2100-01-31T12:00:00+02:00"))

    assert run("--list", "--file", path)[1].splitlines() == [
        "NAME  SCOPES  ENDS              CLAIMS",
        "ana   write   never             tenant=blue",
        "ben   read    ended",
        "eva   read    2100-01-31 10:00",
    ]


def test_the_settings_name_the_file(path, monkeypatch):
    made(path, "ana", "--scope", "read")
    assert "Add --file, or set AUTH_TOKENS_FILE" in run("--list")[2]
    monkeypatch.setenv("AUTH_TOKENS_FILE", str(path))
    monkeypatch.setenv("AUTH_MODE", "token")

    assert "ana" in run("--list")[1]
    assert run("ana", "--revoke")[0] == 0
    assert read_tokens(path) == ()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["bob", "--replace"], "bob has no token in"),
        (["bob", "--revoke"], "bob has no token in"),
        (["ana", "--revoke", "--replace"], "--revoke takes no other option but --file"),
        (["ana", "--revoke", "--scope", "read"], "--revoke takes no other option but --file"),
        (["--list", "--scope", "read"], "--list takes no name, and no other option but --file"),
        (["--list", "ana"], "--list takes no name, and no other option but --file"),
        ([], "Missing argument 'NAME'"),
        (["list", "--revoke"], "list has no token in"),
    ],
)
def test_what_cannot_be_changed_is_said_and_the_file_stays(path, arguments, why):
    made(path, "ana", "--scope", "read")
    before = path.read_text()

    code, printed, said = run(*arguments, "--file", path)

    assert (code, printed, path.read_text()) == (2, "", before)
    assert why in said


def test_every_command_of_the_page_on_tokens_does_what_it_says(tmp_path):
    page = (Path(__file__).parents[2] / "docs/tokens.md").read_text()
    commands = re.findall(r"^mcp-server-qdrant token (.*)$", page, re.MULTILINE)
    shown = re.search(r"^```\n(NAME.*?)```", page, re.MULTILINE | re.DOTALL)[1]

    for command in commands:
        code, printed, said = run(*command.replace("~", str(tmp_path)).split())
        assert code == 0, said
        assert "--list" not in command or printed == shown

    assert len(commands) == 7
    assert [one.name for one in read_tokens(tmp_path / "tokens.yaml")] == ["robot"]
