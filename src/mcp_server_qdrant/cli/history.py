"""The command `history`: lists, shows, restores and erases earlier versions of texts."""

from typing import TYPE_CHECKING

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.notation import amount, called, own_id, plain

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services
    from mcp_server_qdrant.core.writes import Version


@click.command()
@click.argument("id", required=False)
@click.option("--collection", help="That of the text, where several have one of this ID.")
@click.option("--restore", is_flag=True, help="Bring the version back.")
@click.option("--erase", is_flag=True, help="Erase it, or all versions of the text, for good.")
@frame.runs()
async def history(
    id: str | None,  # noqa: A002
    collection: str | None,
    restore: bool,  # noqa: FBT001
    erase: bool,  # noqa: FBT001
) -> None:
    """List the earlier versions of the text of this ID, by default the newest of all texts.

    An ID@TIME, as the list shows them, is a version: its text is shown.
    """
    if (restore and erase) or (id is None and (restore or erase)):
        raise click.UsageError("--restore and --erase take an ID, and exclude each other.")
    from mcp_server_qdrant.app.upkeep import check_writable

    read = frame.load()
    if restore or erase:
        check_writable(read)
    async with frame.opened(read) as services:
        if id is not None and erase:
            erased = await services.history.erase(id, collection)
            click.echo(f"{amount(erased, 'version')} erased.")
        elif id is not None and (one := await services.history.version(id, collection)):
            if restore:
                await _restore(services, one)
            else:
                _show(one)
        elif restore:
            raise RequestError(f"There is no version {called(id or '')}: give one as it is listed.")
        else:
            found = await services.history.versions(id, collection)
            for one in found:
                click.echo(one.line)
            if not found:
                frame.say("No earlier version is kept.")


def _show(one: "Version") -> None:
    for line in one.document.text.splitlines():
        click.echo(plain(line))


async def _restore(services: "Services", one: "Version") -> None:
    done = await services.revision.restore(one)
    shown = own_id(done.collection, done.ids[0], done.document)
    click.echo(f"Brought back in {called(done.collection)}: id {called(shown)}.")
