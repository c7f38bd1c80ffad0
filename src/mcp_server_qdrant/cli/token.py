"""The command `token`: creates, replaces, revokes and lists the tokens of AUTH_MODE=token."""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.errors import ConfigError

if TYPE_CHECKING:
    from mcp_server_qdrant.http.auth.tokens import TokenEntry


def _in_future(_: click.Context, __: click.Parameter, when: datetime | None) -> datetime | None:
    if when and when.replace(tzinfo=UTC) <= datetime.now(UTC):
        raise click.BadParameter(f"{when:%Y-%m-%d %H:%M} (UTC) is in the past.")
    return when


@click.command()
@click.argument("name", required=False)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(["read", "write", "admin"]),
    help="What the token permits; write includes read, admin both. Repeatable.",
)
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="NAME=VALUE",
    help="A claim about the caller, such as the tenant. Repeatable.",
)
@click.option(
    "--expires",
    type=click.DateTime(),
    callback=_in_future,
    help="When it expires, in UTC. Default: never.",
)
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The tokens file. Without it, a new token's line is printed instead; --replace, --revoke "
    "and --list use AUTH_TOKENS_FILE.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Create a new token for NAME with the same rights; the old one becomes invalid.",
)
@click.option("--revoke", is_flag=True, help="Revoke all tokens of NAME.")
@click.option("--list", "listing", is_flag=True, help="List all tokens.")
def token(name: str | None, file: Path | None, *, listing: bool, **given: Any) -> None:
    """Create a token for the caller NAME.

    A token is shown once; only its hash is stored. A running server notices changes of the file.
    """
    asked = {option for option, value in given.items() if value}
    if listing and (asked or name):
        raise click.UsageError("--list takes no name, and no other option but --file.")
    if not (listing or name):
        raise click.UsageError("Missing argument 'NAME'.")
    if given["revoke"] and asked > {"revoke"}:
        raise click.UsageError("--revoke takes no other option but --file.")
    with frame.ending():
        from mcp_server_qdrant.http.auth import tokens

        known = listing or given["revoke"] or given["replace"]
        place = file or (frame.load().auth_tokens_file if known else None)
        if known and place is None:
            raise ConfigError("Which file? Add --file, or set AUTH_TOKENS_FILE.")
        if name is None:
            _list(tokens.read_tokens(place) if place else ())
            return
        with tokens.editing(place) if place else nullcontext():
            there = tokens.read_tokens(place) if place and place.exists() else ()
            old = next((one for one in reversed(there) if one.name == name), None)
            if known and not old:
                raise ConfigError(f"{name} has no token in {place}.")
            if old and not known:
                raise ConfigError(
                    f"{name} has a token in {place}: add --replace, or choose another name."
                )
            if place and given["revoke"]:
                tokens.change(place, without=name)
                click.echo(f"{name} has no token in {place} any more.", err=True)
                return
            _make(place, name, _rights(given["scopes"], given["claims"], given["expires"], old))
        if old:
            click.echo("The old token has ended.", err=True)


def _rights(
    scopes: Sequence[str],
    claims: Sequence[str],
    expires: datetime | None,
    old: "TokenEntry | None",
) -> dict[str, Any]:
    """The rights in a token's entry; omitted ones come from the `old` token."""
    split = [claim.partition("=") for claim in claims]
    if not all(name and equals for name, equals, _ in split):
        raise ConfigError("A claim is NAME=VALUE.")
    if old and old.expires and not expires:
        raise ConfigError(f"The token of {old.name} expires: add --expires for the new one.")
    said = {
        "scopes": list(dict.fromkeys(scopes)),
        "claims": {name: value for name, _, value in split},
        "expires": expires.isoformat() if expires else None,
    }
    rights = old.model_dump(mode="json", include={"scopes", "claims"}) if old else {}
    rights |= {name: value for name, value in said.items() if value}
    if not rights.get("scopes"):
        raise click.UsageError("Missing option '--scope'.")
    return {name: value for name, value in rights.items() if value}


def _make(file: Path | None, name: str, rights: dict[str, Any]) -> None:
    """Create a token, replacing those of this name, and print it."""
    from mcp_server_qdrant.http.auth import tokens

    secret = tokens.new_token()
    entry = {"name": name, "sha256": tokens.digest(secret), **rights}
    if file:
        tokens.change(file, entry, without=name)
    else:
        tokens.parse(tokens.entry_line(entry))
    click.echo(f"The token of {name}, which is not shown again:", err=True)
    click.echo(secret)
    if file:
        click.echo(f"Its hash is in {file}.", err=True)
    else:
        click.echo("The line for the file of AUTH_TOKENS_FILE:", err=True)
        click.echo(tokens.entry_line(entry), nl=False)


def _list(found: "Sequence[TokenEntry]") -> None:
    """Print a line per token: name, scopes, expiry in UTC, claims."""
    now = datetime.now(UTC)
    rows = [("NAME", "SCOPES", "ENDS", "CLAIMS")]
    for one in found:
        end = f"{one.expires.astimezone(UTC):%Y-%m-%d %H:%M}" if one.expires else "never"
        claims = ", ".join(f"{key}={value}" for key, value in one.claims.items())
        rows.append((one.name, ", ".join(one.scopes), "ended" if one.ended(now) else end, claims))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
