"""The command that makes tokens."""

import pytest
from click.testing import CliRunner

from mcp_server_qdrant.cli.main import main
from mcp_server_qdrant.http.auth.tokens import NamedTokens


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


@pytest.mark.parametrize("name", ["tokens.yaml", "tokens.json"])
async def test_a_file_gets_the_hash_and_the_terminal_the_token_alone(tmp_path, name):
    path = tmp_path / name
    made = [run(who, "--scope", "read", "--file", path)[1].strip() for who in ("ana", "ben")]

    known = NamedTokens(path, None)

    assert [(await known.caller(token)).name for token in made] == ["ana", "ben"]
    assert not any(token in path.read_text() for token in made)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["ana"], "Missing option '--scope'"),
        (["ana", "--scope", "root"], "'read', 'write', 'admin'"),
        (["a b", "--scope", "read"], "name: String should match pattern"),
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
    assert said == "mcp-server-qdrant: AUTH_TOKENS_FILE: two tokens have the same name.\n"


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    code, printed, said = run("ana", "--scope", "read", "--file", tmp_path / "none" / "t.yaml")

    assert (code, printed) == (2, "")
    assert said == "mcp-server-qdrant: The file cannot be written: No such file or directory.\n"


async def test_an_end_is_in_utc(tmp_path):
    path = tmp_path / "tokens.yaml"
    run("ana", "--scope", "read", "--expires", "2100-01-31", "--file", path)

    assert '"expires": "2100-01-31T00:00:00"' in path.read_text()
