"""The command `token`: makes, replaces, revokes and lists the tokens of AUTH_MODE=token."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.errors import ConfigError

LIST = "list"


def _in_future(_: click.Context, __: click.Parameter, when: datetime | None) -> datetime | None:
    if when and when.replace(tzinfo=UTC) <= datetime.now(UTC):
        raise click.BadParameter(f"{when:%Y-%m-%d %H:%M} (UTC) is in the past.")
    return when


@click.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(["read", "write", "admin"]),
    help="What it may do; write includes read, admin both. Repeatable.",
)
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="NAME=VALUE",
    help="What it says of its caller, such as the tenant. Repeatable.",
)
@click.option(
    "--expires",
    type=click.DateTime(),
    callback=_in_future,
    help="When it ends, in UTC. Default: never.",
)
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of AUTH_TOKENS_FILE. Without it, the line to add to one is printed; to replace, "
    "revoke and list, it is the file that the settings name.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Make a new token for NAME, with the same rights; the old one ends.",
)
@click.option("--revoke", is_flag=True, help="End all tokens of NAME at once.")
@frame.env_file
def token(name: str, file: Path | None, **given: Any) -> None:
    """Make a token for the caller NAME, or `token list` those that there are.

    A token is shown once; what is stored is its hash. A running server follows the file.
    """
    asked = {option for option, value in given.items() if value}
    if name == LIST and asked:
        raise click.UsageError("token list takes no option but --file.")
    if given["revoke"] and asked > {"revoke"}:
        raise click.UsageError("--revoke takes no other option but --file.")
    with frame.ending(at_once=False):
        if name == LIST:
            _list(_named(file))
        elif given["revoke"]:
            _revoke(_named(file), name)
        else:
            entry = _entry(name, given["scopes"], given["claims"], given["expires"])
            if given["replace"]:
                _replace(_named(file), name, entry)
            else:
                _make(file, name, entry)


def _named(file: Path | None) -> Path:
    """The file to change. Raises ConfigError where nobody names it."""
    file = file or frame.load().auth_tokens_file
    if file is None:
        raise ConfigError("Which file? Add --file, or set AUTH_TOKENS_FILE.")
    return file


def _entry(
    name: str, scopes: Sequence[str], claims: Sequence[str], expires: datetime | None
) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name}
    if scopes:
        entry["scopes"] = list(dict.fromkeys(scopes))
    if claims:
        entry["claims"] = dict(map(_claim, claims))
    if expires:
        entry["expires"] = expires.isoformat()
    return entry


def _claim(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError("A claim is NAME=VALUE.")
    return name, value


def _make(file: Path | None, name: str, entry: Mapping[str, Any]) -> None:
    from mcp_server_qdrant.http.auth import tokenfile, tokens

    if "scopes" not in entry:
        raise click.UsageError("Missing option '--scope'.")
    if file and file.exists() and any(one.name == name for one in tokens.read(file)):
        raise ConfigError(f"{name} has a token in {file}: add --replace, or choose another name.")
    secret, entry = _with_secret(entry)
    if file:
        tokenfile.change(file, entry)
    else:
        tokens.parse(tokenfile.line(entry))
    _show(name, secret)
    if file:
        click.echo(f"Its hash is in {file}.", err=True)
    else:
        click.echo("The line for the file of AUTH_TOKENS_FILE:", err=True)
        click.echo(tokenfile.line(entry), nl=False)


def _replace(file: Path, name: str, entry: Mapping[str, Any]) -> None:
    """The newest of the name gives what is not said; the older ones end."""
    from mcp_server_qdrant.http.auth import tokenfile

    old = _of(file, name)[-1]
    if old.expires and "expires" not in entry:
        raise ConfigError(f"The token of {name} has an end: add --expires, the end of the new one.")
    kept: dict[str, Any] = {"scopes": list(old.scopes)}
    if old.claims:
        kept["claims"] = old.claims
    secret, entry = _with_secret({**kept, **entry})
    tokenfile.change(file, entry, without=name)
    _show(name, secret)
    click.echo(f"Its hash is in {file}. The old token has ended.", err=True)


def _revoke(file: Path, name: str) -> None:
    from mcp_server_qdrant.http.auth import tokenfile

    _of(file, name)
    tokenfile.change(file, without=name)
    click.echo(f"{name} has no token in {file} any more.", err=True)


def _list(file: Path) -> None:
    """A line for each token: name, scopes, end in UTC, claims."""
    from mcp_server_qdrant.http.auth import tokens

    now = datetime.now(UTC)
    rows = [("NAME", "SCOPES", "ENDS", "CLAIMS")]
    for one in tokens.read(file):
        end = f"{one.end:%Y-%m-%d %H:%M}" if one.end else "never"
        claims = ", ".join(f"{key}={value}" for key, value in one.claims.items())
        rows.append((one.name, ", ".join(one.scopes), "ended" if one.ended(now) else end, claims))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _of(file: Path, name: str) -> list[Any]:
    """The caller's tokens. Raises ConfigError where there are none."""
    from mcp_server_qdrant.http.auth import tokens

    found = [one for one in tokens.read(file) if one.name == name]
    if not found:
        raise ConfigError(f"{name} has no token in {file}.")
    return found


def _with_secret(entry: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    from mcp_server_qdrant.http.auth import tokens

    secret = tokens.new_token()
    return secret, {"name": entry["name"], "sha256": tokens.digest(secret), **entry}


def _show(name: str, secret: str) -> None:
    click.echo(f"The token of {name}, which is not shown again:", err=True)
    click.echo(secret)
