"""The command `token`: creates a token for AUTH_MODE=token."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

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
    help="The tokens file, which gets the token's line. Without it the line is printed.",
)
def token(
    name: str,
    scopes: Sequence[str],
    claims: Sequence[str],
    expires: datetime | None,
    file: Path | None,
) -> None:
    """Create a token for the caller NAME.

    It is shown once; its line in the file has only its hash. To revoke it, delete that line.
    """
    with frame.reporting_errors():
        from mcp_server_qdrant.http.auth import tokens

        secret = tokens.new_token()
        given = {
            "name": name,
            "sha256": tokens.digest(secret),
            "scopes": list(dict.fromkeys(scopes)),
            "claims": dict(map(_split_claim, claims)),
            "expires": expires.isoformat() if expires else None,
        }
        entry = {key: value for key, value in given.items() if value}
        if file:
            tokens.add_token(file, entry)
        else:
            tokens.parse(tokens.entry_line(entry))
    click.echo(f"The token of {name}, which is not shown again:", err=True)
    click.echo(secret)
    if file:
        click.echo(f"Its hash is in {file}.", err=True)
    else:
        click.echo("The line for the file of AUTH_TOKENS_FILE:", err=True)
        click.echo(tokens.entry_line(entry), nl=False)


def _split_claim(claim: str) -> tuple[str, str]:
    name, equals, value = claim.partition("=")
    if not (name and equals):
        raise ConfigError("A claim is NAME=VALUE.")
    return name, value
