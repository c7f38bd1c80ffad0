"""The command `history`: lists, shows, restores and erases earlier versions of texts."""

import click

from mcp_server_qdrant.cli import frame
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.notation import cite, own_id, plural, without_controls


@click.command()
@click.argument("wanted", required=False, metavar="[ID]")
@click.option("--collection", help="The text's collection, if several have this ID.")
@click.option("--restore", is_flag=True, help="Restore the version.")
@click.option("--erase", is_flag=True, help="Erase it, or all versions of the text, for good.")
@frame.as_command()
async def history(
    wanted: str | None, collection: str | None, *, restore: bool, erase: bool
) -> None:
    """List the earlier versions of the text with this ID, or the newest versions of all texts.

    With ID@TIME, as in the list, show the text of that version.
    """
    if (restore and erase) or (not wanted and (restore or erase)):
        raise click.UsageError("--restore and --erase need an ID, and cannot be combined.")
    from mcp_server_qdrant.app.upkeep import check_writable, erase_traces

    read = frame.load_settings()
    if restore or erase:
        check_writable(read)
    async with frame.open_services(read) as services:
        if wanted and erase:
            erased = await services.history.erase(wanted, collection)
            click.echo(f"{plural(erased, 'version')} erased.")
            if erased:
                click.echo(await erase_traces(services.shared.client))
        elif wanted and (one := await services.history.version(wanted, collection)):
            if restore:
                done = await services.revision.restore(one)
                shown = own_id(done.collection, done.ids[0], done.document)
                click.echo(f"Restored in {cite(done.collection)}: id {cite(shown)}.")
            else:
                click.echo("\n".join(map(without_controls, one.document.text.splitlines())))
        elif restore:
            raise RequestError(f"There is no version {cite(wanted or '')}: give a listed ID@TIME.")
        else:
            found = await services.history.versions(wanted, collection)
            for one in found:
                click.echo(one.summary)
            if not found:
                frame.print_message("No earlier version is kept.")
