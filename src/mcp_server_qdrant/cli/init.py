"""The command `init`: configures clients to start this server, and does a first search."""

import json
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from difflib import ndiff
from functools import partial
from pathlib import Path
from typing import Any

import click

from mcp_server_qdrant.cli import agents, clients, frame, sessions, sources, visit
from mcp_server_qdrant.cli.clients import CLIENTS, HOOKS, Config, McpClient
from mcp_server_qdrant.cli.ingest import sync_once
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import plural, printable
from mcp_server_qdrant.settings import environment
from mcp_server_qdrant.settings.environment import Settings

RECALL_PATH = "QDRANT_RECALL_PATH"
STORED_LATER = "Interrupted; the clients are set up, and the server continues with the folders."


@click.command()
@click.option(
    "--client",
    "chosen",
    multiple=True,
    type=click.Choice(list(CLIENTS)),
    help="The client to configure. Repeatable.",
)
@click.option(
    "--folder",
    "folders",
    multiple=True,
    metavar="PATH[=COLLECTION]",
    help="A folder that the server syncs into a collection. Repeatable.",
)
@click.option(
    "--remove",
    "removed",
    multiple=True,
    metavar="PATH|NAME",
    help="A folder or a client's sessions to stop following, or a file to take our block out of. "
    "Repeatable.",
)
@click.option(
    "--sessions",
    "told",
    multiple=True,
    type=click.Choice(list(sessions.CLIENTS)),
    help="A client whose conversations, or memory, the server follows. Repeatable. Default: none.",
)
@click.option(
    "--recall/--no-recall",
    default=None,
    help="Add or remove hooks that show agents stored texts at the start and with each prompt.",
)
@click.option(
    "--agents-file",
    "files",
    multiple=True,
    metavar="FILE",
    help="A CLAUDE.md or AGENTS.md to get a block on when to search and store. Repeatable.",
)
@click.option("--url", help="A Qdrant server. Default: the engine of the settings, else this disk.")
@click.option("--name", default="qdrant", show_default=True, help="The server's name in clients.")
@click.option("--yes", is_flag=True, help="Write without asking.")
def init(
    chosen: Sequence[str],
    folders: Sequence[str],
    removed: Sequence[str],
    told: Sequence[str],
    files: Sequence[str],
    url: str | None,
    name: str,
    *,
    recall: bool | None,
    yes: bool,
) -> None:
    """Configure your MCP clients for this server, by a few questions or with flags.

    Shows each change and keeps a copy of the old file. Folders and sessions that a client already
    follows stay. Then it loads the model, reads the folders and searches.
    """
    env_file = click.get_current_context().meta.get(frame.KEY)
    with frame.reporting_errors("Interrupted; run it again."):
        settings = frame.load_settings()
        others = _write_blocks(files, removed, ask=not yes)
        named = files or len(others) < len(removed)
        if named and not any((chosen, folders, others, told, url, recall is not None)):
            return
        if not yes:
            there = ", ".join(key for key, client in CLIENTS.items() if client.path.exists())
            chosen = chosen or _ask_list(f"Clients ({', '.join(CLIENTS)})", there, CLIENTS)
            folders = folders or _ask_list("Folders to search, as PATH or PATH=COLLECTION")
            told = told or _ask_sessions()
            if not (url or settings.qdrant_url):
                url = click.prompt("URL of a Qdrant server; empty: this disk", "", err=True).strip()
        if not chosen:
            raise ConfigError(f"Name a client with --client: {', '.join(CLIENTS)}.")
        first = _variables(folders, url, told)
        settings = environment.load(env_file, overrides=first)
        place = settings.qdrant_recall_path or settings.cache_path / "recall" / name
        if recall:
            first[RECALL_PATH] = str(place)
        without = RECALL_PATH if recall is False else None
        steps = _hook_steps(chosen, place, recall=recall, ask=not yes) | {
            CLIENTS[one].title: partial(
                _configure, one, name, _command(env_file), first, without, others, ask=not yes
            )
            for one in dict.fromkeys(chosen)
        }
        undone = _run_steps(steps)
    with frame.reporting_errors(STORED_LATER):
        try:
            _search_first(settings, first)
        finally:
            for error in undone.values():
                frame.print_error(error)
            if len(steps) > 1 and undone:
                frame.print_message(f"Not set up: {', '.join(undone)}.")
        if undone:
            raise click.exceptions.Exit(2)


def _run_steps(steps: Mapping[str, Callable[[], None]]) -> dict[str, ConfigError]:
    """Run all steps; returns the errors of those that failed."""
    undone = dict[str, ConfigError]()
    for name, step in steps.items():
        try:
            step()
        except ConfigError as error:
            frame.show_status("")
            undone[name] = error
    return undone


def _ask_list(question: str, default: str = "", known: Collection[str] = ()) -> list[str]:
    """Ask for a comma-separated list; if `known` is given, only of those."""

    def split(text: str) -> list[str]:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if known and not (parts and set(parts) <= {*known}):
            raise click.UsageError(f"Choose from {', '.join(known)}.")
        return parts

    answer = f"{question}, separated by commas"
    return list(click.prompt(answer, default, value_proc=split, err=True))


def _ask_sessions() -> list[str]:
    """Ask for each client with conversations whether they may be read; returns their names."""
    question = "Read and follow {} (without tool output, secrets masked), into the collection {!r}?"
    return [
        name
        for name, kept in sessions.CLIENTS.items()
        if (found := kept.describe_size())
        and click.confirm(question.format(found, kept.collection), err=True)
    ]


def _variables(folders: Sequence[str], url: str | None, told: Sequence[str] = ()) -> dict[str, str]:
    """The settings for these answers. Raises ConfigError."""
    made = list[dict[str, Any]]()
    for folder in folders:
        named, _, collection = folder.partition("=")
        path = Path(named).expanduser().absolute()
        if not path.is_dir():
            raise ConfigError(f"{path} is not a folder.")
        made.append({"path": str(path), "collection": collection or path.name})
    for name in dict.fromkeys(told):
        kept = sessions.CLIENTS[name]
        if (found := kept.describe_size()) is None:
            raise ConfigError(f"There is no {kept.noun} of {kept.title} in {kept.path}.")
        click.echo(f"The server will store and follow {found}.")
        made.append(kept.source(name))
    first = {"QDRANT_URL": url, sources.VARIABLE: json.dumps(made) if made else None}
    return {name: value for name, value in first.items() if value}


def _command(env_file: Path | None) -> list[str]:
    """The command for clients: this installation, independent of their PATH."""
    named = ["--env-file", str(env_file.absolute())] if env_file else []
    return [sys.executable, "-P", "-m", "mcp_server_qdrant", *named]


def _configure(
    flag: str,
    name: str,
    command: Sequence[str],
    first: Mapping[str, str],
    without: str | None,
    removed: Sequence[str],
    *,
    ask: bool,
) -> None:
    """Test that the new entry of a client starts, show it, and write it."""
    client = CLIENTS[flag]
    was = clients.read_config(client).get(client.section, {}).get(name)
    before = was if isinstance(was, dict) else {}
    if program := clients.other_program(before):
        raise ConfigError(
            f"{client.title} has another server named {name!r} ({program}): give this one a name "
            "of its own with --name."
        )
    # A client started from a desktop does not have the environment of this shell.
    given = environment.given_variables(click.get_current_context().meta.get(frame.KEY))
    own = {one: text for one, (text, origin) in given.items() if origin == environment.ENVIRONMENT}
    there = clients.as_strings(before.get("env"))
    env = {one: text for one, text in {**there, **own, **first}.items() if one != without}
    if sources.VARIABLE in env or removed:  # it overrides the settings file
        file = given.get(sources.VARIABLE, (None, ""))[0]
        values = (file, *(one.get(sources.VARIABLE) for one in (there, first)))
        followed = sources.merge(values, removed)
        env[sources.VARIABLE] = json.dumps(followed)
        if not followed and file is None:
            del env[sources.VARIABLE]
    entry = {**before, "command": command[0], "args": list(command[1:]), "env": env}
    entry |= {"type": "stdio"} if flag in ("vscode", "claude-code") else {}
    if not env:
        del entry["env"]
    if entry == before:
        click.echo(f"{client.title} starts this server already: {client.path}")
        return
    frame.show_status(f"Starting the server of {client.title} …")
    try:
        started = clients.try_start(entry, environment.without_settings())
    except ConfigError as error:
        raise ConfigError(f"Nothing was written, because this does not start: {error}") from error
    frame.show_status("")
    click.echo(f"{client.title} will start {started}.")

    def change(held: Config) -> Config:
        servers = held.get(client.section, {})
        if servers.get(name) != was:
            raise ConfigError(f"{client.path} was changed meanwhile: run this again.")
        return {**held, client.section: {**servers, name: entry}}

    # An old command is shown only if it stays, because its arguments may be keys.
    hidden = [key for key in ("command", "args") if before.get(key) != entry[key]]
    old = {key: one for key, one in before.items() if key not in hidden}
    was_shown = _json_lines({name: _hide_values(old)} if old else {})
    then, write = f"Restart {client.title}.", partial(clients.write, client, change)
    new = _json_lines({name: _hide_values(entry)})
    _write(client.path, f", {client.section}", was_shown, new, write, then, ask=ask)


def _hide_values(entry: clients.Entry) -> dict[str, Any]:
    """An entry for printing, with the values of foreign variables and keys hidden."""
    known = ("command", "args", "type")
    ours = {one for names in environment.environment_names().values() for one in names}
    shown = {key: one if key in known else environment.HIDDEN for key, one in entry.items()}
    if "env" in entry:
        env: dict[str, Any] = {
            one: environment.masked_value(one, text) if one in ours else environment.HIDDEN
            for one, text in clients.as_strings(entry["env"]).items()
        }
        with suppress(ConfigError):
            if sources.VARIABLE in env:
                env[sources.VARIABLE] = sources.parse(env[sources.VARIABLE])
        shown["env"] = env
    return shown


def _hook_steps(
    chosen: Collection[str], place: Path, *, recall: bool | None, ask: bool
) -> dict[str, Callable[[], None]]:
    """The steps that add recall hooks for that place to these clients, or remove them."""
    steps = dict[str, Callable[[], None]]()
    if recall is not None and not HOOKS.keys() & chosen:
        raise ConfigError(f"--recall needs --client {', '.join(HOOKS)}.")
    for flag, file in HOOKS.items() if recall is not None else ():
        line = shlex.join([*_command(None), "recall", str(place), flag]) if recall else None
        if flag in chosen:
            steps[f"hooks of {file.title}"] = partial(_set_hooks, file, line, ask=ask)
    return steps


def _set_hooks(file: McpClient, line: str | None, *, ask: bool) -> None:
    """Add the recall hooks to the file of a client, or remove them."""

    def change(held: Config) -> Config:
        return clients.with_hooks(file, held, line)

    held = clients.read_config(file)
    if change(held) == held:
        click.echo(f"{file.title} has {'these' if line else 'none of our'} hooks: {file.path}")
        return
    shown = _json_lines({}), _json_lines(dict.fromkeys(file.events, line or environment.HIDDEN))
    old, new = shown if line else shown[::-1]
    write = partial(clients.write, file, change)
    then = f"Restart {file.title}. {file.then if line else ''}"
    _write(file.path, f", {file.section}", old, new, write, then, ask=ask)


def _write_blocks(files: Sequence[str], removed: Sequence[str], *, ask: bool) -> list[str]:
    """Write our block to `files` and remove it from those `removed`.

    Returns the removed ones that had no block.
    """
    others = list[str]()
    for one, new in (*((one, agents.BLOCK) for one in files), *((one, "") for one in removed)):
        path = Path(one).expanduser().absolute()
        if (not new and not path.is_file()) or (held := agents.block_of(path)) == new == "":
            others.append(one)
        elif held == new:
            click.echo(f"{path} has this block already.")
        elif not path.parent.is_dir():
            raise ConfigError(f"{path.parent} is not a folder.")
        else:
            write = partial(clients.rewrite, path, partial(agents.with_block, new=new))
            _write(path, "", held.splitlines(), new.splitlines(), write, ask=ask)
    return others


def _json_lines(shown: Mapping[str, Any]) -> list[str]:
    return json.dumps(shown, indent=2, ensure_ascii=False).splitlines()


def _write(
    path: Path,
    part: str,
    old: Sequence[str],
    new: Sequence[str],
    write: Callable[[datetime], Path | None],
    then: str = "",
    *,
    ask: bool,
) -> None:
    """Show a change and write it if confirmed. The rest of the file is not shown: it may have keys.

    `then` is printed after writing.
    """
    click.echo(f"{path}{part}:")
    for line in ndiff(old, new):
        if not line.startswith("?"):
            click.echo(line.rstrip())
    if ask and not click.confirm(f"Write {path}?", default=True, err=True):
        return
    backup = write(datetime.now())
    done = "Written" if path.exists() else "Deleted, because nothing else was in it"
    kept = f"; the old file is {backup.name}" if backup else ""
    click.echo(f"{done}: {path}{kept}. {then}".rstrip())


def _search_first(settings: Settings, first: Mapping[str, str]) -> None:
    """Do the first search in the process that has the engine."""
    if "QDRANT_URL" in first:  # the service would use the environment's engine
        visit.run(_first_search(settings))
    elif status := frame.run_at_engine(
        ["first-search", json.dumps(first)], lambda: _first_search(settings)
    ):
        raise click.exceptions.Exit(status)


@click.command(hidden=True)
@click.argument("first")
@frame.as_command(STORED_LATER)
async def first_search(first: str) -> None:
    """Do the last part of `init`, with its new settings as a JSON object."""
    env_file = click.get_current_context().meta.get(frame.KEY)
    await _first_search(environment.load(env_file, overrides=json.loads(first)))


async def _first_search(settings: Settings) -> None:
    """Load the model, store the folders, and search them."""
    from mcp_server_qdrant.app.upkeep import assign_folder
    from mcp_server_qdrant.ingest.files.state import SyncRequest

    frame.show_status("Opening the engine …")
    async with frame.open_services(settings) as services:
        encoder = services.encoders.default
        modelless = settings.embedding_provider == "none"
        if not modelless and not await frame.load_model(encoder):
            frame.print_message(f"{encoder.reason} Until then, searches use keywords only.")
        for source in settings.sync_sources if not settings.qdrant_read_only else ():
            await sync_once(services, SyncRequest.to_keep(source))
            # Conversations and memory of all projects belong to no folder.
            if not (source.keep or source.name in sessions.CLIENTS):
                await assign_folder(services.shared.client, source.collection, source.path)
        query = _choose_query(settings)
        page = await services.pipeline.search(SearchRequest(query=query, limit=3))
        click.echo(f"A first search, {query!r}: {plural(len(page.results), 'result')}.")
        for hit in page.results:
            click.echo(f"- {hit.document.collection}: {_shorten(hit.document.title or '', 70)}")
            click.echo(f"  {_shorten(hit.passage, 200)}")


def _shorten(text: str, room: int) -> str:
    """The beginning of a text as one printable line."""
    return " ".join(printable(text, " ").split())[:room]


def _choose_query(settings: Settings) -> str:
    """A query that should find something: the name of a stored file, Markdown if there is some."""
    for source in settings.sync_sources:
        for path in sorted(source.path.rglob("*.*"), key=lambda one: (one.suffix != ".md", one)):
            if path.is_file() and not path.name.startswith("."):
                return path.stem.replace("-", " ").replace("_", " ")
    return "what was decided last?"
