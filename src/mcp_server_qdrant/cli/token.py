"""The command `token`: makes a token for AUTH_MODE=token."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.errors import ConfigError


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
    required=True,
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
    help="Add it to this file of AUTH_TOKENS_FILE. Else the line to add is printed.",
)
@frame.env_file
def token(
    name: str,
    scopes: Sequence[str],
    claims: Sequence[str],
    expires: datetime | None,
    file: Path | None,
) -> None:
    """Make a token for the caller NAME. It is shown once; what is stored is its hash."""
    from mcp_server_qdrant.http.auth import tokens

    secret = tokens.new_token()
    entry: dict[str, Any] = {
        "name": name,
        "sha256": tokens.digest(secret),
        "scopes": list(dict.fromkeys(scopes)),
    }
    with frame.ending(at_once=False):
        if claims:
            entry["claims"] = dict(map(_claim, claims))
        if expires:
            entry["expires"] = expires.isoformat()
        if file:
            tokens.add(file, entry)
        else:
            tokens.parse(tokens.line(entry), as_json=False)
    click.echo(f"The token of {name}, which is not shown again:", err=True)
    click.echo(secret)
    if file:
        click.echo(f"Its hash is in {file}.", err=True)
    else:
        click.echo("The line for the file of AUTH_TOKENS_FILE:", err=True)
        click.echo(tokens.line(entry), nl=False)


def _claim(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError("A claim is NAME=VALUE.")
    return name, value
