"""Named tokens and their file."""

import contextlib
import json
import logging
import os
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_server_qdrant.core.context import Caller
from mcp_server_qdrant.core.errors import ConfigError, Unauthorized, VerifierUnavailable
from mcp_server_qdrant.http.auth.tokens import (
    NamedTokens,
    add_token,
    digest,
    entry_line,
    new_token,
    parse,
)

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
ANA, BEN = "mqd_" + "a" * 43, "mqd_" + "b" * 43


def entry(token, name="ana", **fields):
    return {"name": name, "sha256": digest(token), "scopes": ["read"]} | fields


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tokens.yaml"
    path.write_text(entry_line(entry(ANA, claims={"team": "blue"})) + entry_line(entry(BEN, "ben")))
    return path


def verifier(path, single=None):
    return NamedTokens(path, single, lambda: NOW)


async def refused(known, token):
    with pytest.raises(Unauthorized) as caught:
        await known.caller(token)
    assert token not in str(caught.value)
    return str(caught.value)


async def test_each_token_has_its_name_scopes_and_claims(file):
    known = verifier(file)

    assert await known.caller(ANA) == Caller("ana", frozenset({"read"}), {"team": "blue"})
    assert await known.caller(BEN) == Caller("ben", frozenset({"read"}), {})


async def test_another_token_is_not_known_nor_is_a_hash_a_token(file):
    known = verifier(file)

    for wrong in (ANA[:-1], ANA + "a", ANA.upper(), digest(ANA), new_token()):
        assert await refused(known, wrong) == "The token is not known here."


async def test_the_token_of_the_environment_may_do_everything(file):
    known = verifier(file, "a-single-long-token")

    assert (await known.caller("a-single-long-token")).scopes == {"read", "write", "admin"}
    assert (await known.caller(ANA)).name == "ana"
    assert (await verifier(None, "a-single-long-token").caller("a-single-long-token")).claims == {}


@pytest.mark.parametrize(
    ("expires", "over"),
    [
        ("2026-05-01T12:00:01", False),
        ("2026-05-01T12:00:00", True),
        ("2026-05-01", True),
        ("2026-05-02", False),
        ("2026-05-01T13:30:00+02:00", True),
        ("2026-05-01T13:30:00+01:00", False),
    ],
)
async def test_a_token_ends_when_it_says_in_utc_unless_it_names_a_zone(tmp_path, expires, over):
    for name in ("t.json", "t.yaml"):
        path = tmp_path / name
        path.write_text(json.dumps([entry(ANA, expires=expires)]))
        known = verifier(path)
        if over:
            assert await refused(known, ANA) == "The token has expired."
        else:
            assert (await known.caller(ANA)).name == "ana"


async def test_dates_of_yaml_need_no_quotes(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(
        f"- name: ana\n  sha256: {digest(ANA)}\n  scopes: [read]\n  expires: 2026-05-01\n"
    )

    assert await refused(verifier(path), ANA) == "The token has expired."


async def test_a_file_of_the_same_size_and_time_counts_at_once(file):
    before = file.stat()
    known = verifier(file)
    changed = file.read_text().replace(digest(ANA), digest(new_token()))

    file.write_text(changed)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    after = file.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    await refused(known, ANA)


@pytest.mark.parametrize("broken", ["- {", "- name: mqd_secret\n", "42", "\xff", "open", None])
async def test_while_the_file_is_lost_or_broken_none_of_its_tokens_counts(file, caplog, broken):
    sound = file.read_bytes()
    known = verifier(file, "a-single-long-token")
    if broken is None:
        file.unlink()
    elif broken == "open":
        file.chmod(0o666)
    else:
        file.write_bytes(broken.encode("latin-1"))

    with caplog.at_level(logging.DEBUG):
        for token in (ANA, BEN, new_token()):
            with pytest.raises(VerifierUnavailable, match="the operator has to fix the file"):
                await known.caller(token)
    assert (await known.caller("a-single-long-token")).name == "(AUTH_TOKEN)"
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("AUTH_TOKENS_FILE")
    assert "mqd_" not in caplog.text

    file.write_bytes(sound)
    file.chmod(0o600)
    assert (await known.caller(ANA)).name == "ana"


ODD_SCALARS = ["!!bool abc", "!!int ''", "!!timestamp abc", "2026-02-30", "9" * 9_000]
NO_TIMES = ["true", ".inf", ".nan", "99999999999999999999"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- [", "is not valid YAML."),
        *((f"- {scalar}", "is not valid YAML.") for scalar in ODD_SCALARS),
        ("{? " * 50_000, "is not valid YAML."),
        ("a: &a {<<: *a, b: *a}", "it must be a list of tokens."),
        *(
            (
                entry_line(entry(ANA)).replace("}", f', "expires": {when}}}'),
                "must be a date and time",
            )
            for when in NO_TIMES
        ),
        ("tokens: 1", "it must be a list of tokens."),
        (ANA, "it must be a list of tokens."),
        (f"- {ANA}", "token 1 must be a mapping with name, sha256, scopes"),
        (entry_line({"name": "ana"}), "token 1: sha256: is required."),
        (entry_line(entry(ANA, name="a b")), "token 1: name: must match ^"),
        (entry_line(entry(ANA, name="(AUTH_TOKEN)")), "token 1: name: must match ^"),
        (entry_line(entry(ANA) | {"sha256": ANA}), "token 1: sha256: must match ^"),
        (
            entry_line(entry(ANA)) + entry_line(entry(BEN, "b", scopes=[])),
            "token 2: scopes: must not be empty",
        ),
        (entry_line(entry(ANA, scopes=["root"])), "token 1: scopes: must be 'read', 'write' or"),
        (
            entry_line(entry(ANA) | {"token": ANA}),
            "token 1 has another key than name, sha256, scopes, claims, expires.",
        ),
        (entry_line(entry(ANA) | {ANA: 1}), "token 1 has another key than name, sha256,"),
        (entry_line(entry(ANA, expires="soon")), "token 1: expires: must be a date and time"),
        (entry_line(entry(ANA)) + entry_line(entry(ANA, "b")), "two tokens have the same sha256."),
    ],
)
def test_a_wrong_file_is_one_sentence_without_its_contents(text, fault):
    with pytest.raises(ConfigError) as caught:
        parse(text)

    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "mqd_" not in str(caught.value)


@given(st.text(alphabet="-{}[]:, \n'\"&*!?|>%@#0123456789name:sha256", max_size=60))
def test_what_stands_in_a_file_by_chance_is_no_token_and_no_crash(text):
    found = "()"
    with contextlib.suppress(ConfigError):
        found = str(parse(text))

    assert found == "()"


def test_an_empty_file_holds_no_tokens():
    assert parse("") == parse("[]") == ()


def test_a_missing_file_is_an_error_at_start(tmp_path):
    with pytest.raises(ConfigError, match=r"^AUTH_TOKENS_FILE cannot be read: No such file"):
        NamedTokens(tmp_path / "none.yaml", None)


def test_tokens_are_added_to_a_file_that_only_its_owner_reads(tmp_path):
    path = tmp_path / "t.yaml"
    for one in (entry(ANA), entry(BEN, "ben")):
        add_token(path, one)

    assert [one.name for one in parse(path.read_text())] == ["ana", "ben"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert ANA not in path.read_text()


def test_what_stands_in_a_file_stays_when_a_token_is_added(tmp_path):
    path = tmp_path / "t.yaml"
    before = f"# the team\n- name: ana  # in Oslo\n  sha256: {digest(ANA)}\n  scopes: [read]"
    path.write_text(before)

    add_token(path, entry(BEN, "ben"))

    assert path.read_text() == f"{before}\n{entry_line(entry(BEN, 'ben'))}"


@pytest.mark.parametrize(
    "text",
    [
        "[{",
        entry_line(entry(ANA)),  # the same token twice
        json.dumps([entry(BEN, "ben")], indent=1),
    ],
)
def test_a_file_that_would_be_wrong_is_left_as_it_is(tmp_path, text):
    path = tmp_path / "t.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError):
        add_token(path, entry(ANA))

    assert path.read_text() == text


async def test_a_token_of_the_file_has_the_scopes_of_the_file_though_it_is_auth_token_too(file):
    assert (await verifier(file, ANA).caller(ANA)).name == "ana"
