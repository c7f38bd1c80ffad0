"""The command `init`: from nothing to a client that starts this server, and a first search."""

import asyncio
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

from mcp_server_qdrant.cli import clients, frame, sessions, sources
from mcp_server_qdrant.cli.clients import CLIENTS, HOOKS, RECALLED, Config, McpClient
from mcp_server_qdrant.cli.ingest import once
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import amount, printable
from mcp_server_qdrant.settings import environment
from mcp_server_qdrant.settings.environment import Settings

RECALL_PATH = "QDRANT_RECALL_PATH"
STORED_LATER = "Interrupted; the clients are set up, and their server goes on with the folders."


@click.command()
@click.option(
    "--client",
    "chosen",
    multiple=True,
    type=click.Choice(list(CLIENTS)),
    help="Whose configuration is written. Repeatable.",
)
@click.option(
    "--folder",
    "folders",
    multiple=True,
    metavar="PATH[=COLLECTION]",
    help="A folder that the server keeps in step with a collection. Repeatable.",
)
@click.option(
    "--remove",
    "removed",
    multiple=True,
    metavar="PATH|NAME",
    help="A folder, or a client's sessions, that the server no longer follows. Repeatable.",
)
@click.option(
    "--sessions",
    "told",
    multiple=True,
    type=click.Choice(list(sessions.CLIENTS)),
    help="Whose conversations the server stores and follows. Repeatable; none unless named.",
)
@click.option(
    "--recall/--no-recall",
    default=None,
    help="Whether hooks of Claude Code tell it what is stored, at the start and by prompt.",
)
@click.option("--url", help="A Qdrant server. Default: the settings' engine, else this disk.")
@click.option("--name", default="qdrant", show_default=True, help="The server's name in clients.")
@click.option("--yes", is_flag=True, help="Ask nothing, and write.")
def init(
    chosen: Sequence[str],
    folders: Sequence[str],
    removed: Sequence[str],
    told: Sequence[str],
    url: str | None,
    name: str,
    *,
    recall: bool | None,
    yes: bool,
) -> None:
    """Set this server up in your MCP clients: a few questions, or flags in their place.

    Shows what it is going to write and keeps a copy of what was there. Folders and sessions that a
    client follows already stay. Then it loads the model, reads the folders and searches.
    """
    env_file = click.get_current_context().meta.get(frame.KEY)
    with frame.ending("Interrupted; run it again."):
        settings = frame.load()
        if not yes:
            there = ", ".join(key for key, client in CLIENTS.items() if client.path.exists())
            chosen = chosen or _listed(f"Clients ({', '.join(CLIENTS)})", there, CLIENTS)
            folders = folders or _listed("Folders to search, as PATH or PATH=COLLECTION")
            told = told or _asked_sessions()
            if not (url or settings.qdrant_url):
                url = click.prompt("URL of a Qdrant server; empty: this disk", "", err=True).strip()
        if not chosen:
            raise ConfigError(f"Name a client with --client: {', '.join(CLIENTS)}.")
        if recall is not None and "claude-code" not in chosen:
            raise ConfigError("--recall goes with --client claude-code.")
        first = _variables(folders, url, told)
        settings = environment.load(env_file, first=first)
        if recall:
            place = settings.qdrant_recall_path or settings.cache_path / "recall" / name
            first[RECALL_PATH] = str(place)
        without = RECALL_PATH if recall is False else None
        steps: dict[str, Callable[[], None]] = {
            CLIENTS[one].title: partial(
                _configure, one, name, _command(env_file), first, without, removed, ask=not yes
            )
            for one in dict.fromkeys(chosen)
        }
        if recall is not None:
            command = [*_command(None), "recall", str(place)] if recall else None
            steps[f"hooks of {HOOKS.title}"] = partial(_set_hooks, command, ask=not yes)
        undone = _done(steps)
    with frame.ending(STORED_LATER):
        try:
            asyncio.run(_first_search(settings))
        finally:
            for error in undone.values():
                frame.failed(error)
            if len(steps) > 1 and undone:
                frame.say(f"Not set up: {', '.join(undone)}.")
        if undone:
            raise click.exceptions.Exit(2)


def _done(steps: Mapping[str, Callable[[], None]]) -> dict[str, ConfigError]:
    """Do each of the steps; the errors of those that could not be done."""
    undone = dict[str, ConfigError]()
    for name, step in steps.items():
        try:
            step()
        except ConfigError as error:
            frame.show("")
            undone[name] = error
    return undone


def _listed(question: str, default: str = "", known: Collection[str] = ()) -> list[str]:
    """The answer's parts, some of those that are `known` if any are."""

    def split(text: str) -> list[str]:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if known and not (parts and set(parts) <= {*known}):
            raise click.UsageError(f"Name some of {', '.join(known)}.")
        return parts

    answer = f"{question}, separated by commas"
    return list(click.prompt(answer, default, value_proc=split, err=True))


def _asked_sessions() -> list[str]:
    """The clients whose conversations may be read, each with what that would be."""
    question = "Read and follow {} (without tool output, secrets masked), into the collection {!r}?"
    return [
        name
        for name, kept in sessions.CLIENTS.items()
        if (found := kept.measured())
        and click.confirm(question.format(found, sessions.COLLECTION), err=True)
    ]


def _variables(folders: Sequence[str], url: str | None, told: Sequence[str] = ()) -> dict[str, str]:
    """The settings that the answers make. Raises ConfigError."""
    made = list[dict[str, Any]]()
    for folder in folders:
        named, _, collection = folder.partition("=")
        path = Path(named).expanduser().absolute()
        if not path.is_dir():
            raise ConfigError(f"{path} is not a folder.")
        made.append({"path": str(path), "collection": collection or path.name})
    for name in dict.fromkeys(told):
        kept = sessions.CLIENTS[name]
        if (found := kept.measured()) is None:
            raise ConfigError(f"There is no session of {kept.title} in {kept.path}.")
        click.echo(f"The server will store and follow {found}.")
        made.append(kept.source(name))
    first = {"QDRANT_URL": url, sources.VARIABLE: json.dumps(made) if made else None}
    return {name: value for name, value in first.items() if value}


def _command(env_file: Path | None) -> list[str]:
    """The command for clients: this very installation, whatever their PATH is."""
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
    """Write the entry of one client, which was shown, and of which it is known that it starts."""
    client = CLIENTS[flag]
    was = clients.read_config(client).get(client.section, {}).get(name)
    before = was if isinstance(was, dict) else {}
    if program := clients.other(before):
        raise ConfigError(
            f"{client.title} has another server named {name!r} ({program}): give this one a name "
            "of its own with --name."
        )
    # A client that a desktop starts has not the environment of this shell.
    given = environment.given(click.get_current_context().meta.get(frame.KEY))
    own = {one: text for one, (text, origin) in given.items() if origin == environment.ENVIRONMENT}
    there = clients.texts(before.get("env"))
    env = {one: text for one, text in {**there, **own, **first}.items() if one != without}
    if sources.VARIABLE in env or removed:  # it takes the place of the settings file's
        file = given.get(sources.VARIABLE, (None, ""))[0]
        values = (file, *(one.get(sources.VARIABLE) for one in (there, first)))
        env[sources.VARIABLE] = json.dumps(sources.merged(values, removed))
    entry = {**before, "command": command[0], "args": list(command[1:]), "env": env}
    entry |= {"type": "stdio"} if flag in ("vscode", "claude-code") else {}
    if not env:
        del entry["env"]
    if entry == before:
        click.echo(f"{client.title} starts this server already: {client.path}")
        return
    frame.show(f"Starting the server of {client.title} …")
    try:
        started = clients.start(entry, environment.without_settings())
    except ConfigError as error:
        raise ConfigError(f"Nothing was written: this does not start: {error}") from error
    frame.show("")
    click.echo(f"{client.title} will start {started}.")

    def change(held: Config) -> Config:
        servers = held.get(client.section, {})
        if servers.get(name) != was:
            raise ConfigError(f"{client.path} was changed meanwhile: run this again.")
        return {**held, client.section: {**servers, name: entry}}

    # What was started before is not shown: its arguments may be keys.
    old = {key: one for key, one in before.items() if key not in ("command", "args")}
    _write(client, change, {name: _shown(old)} if old else {}, {name: _shown(entry)}, ask=ask)


def _shown(entry: clients.Entry) -> dict[str, Any]:
    """An entry as it may be printed: of variables and keys that are not ours the names alone."""
    known = ("command", "args", "type")
    ours = {one for names in environment.environment_names().values() for one in names}
    shown = {key: one if key in known else environment.HIDDEN for key, one in entry.items()}
    if "env" in entry:
        env: dict[str, Any] = {
            one: environment.shown(one, text) if one in ours else environment.HIDDEN
            for one, text in clients.texts(entry["env"]).items()
        }
        with suppress(ConfigError):
            if sources.VARIABLE in env:
                env[sources.VARIABLE] = sources.read(env[sources.VARIABLE])
        shown["env"] = env
    return shown


def _set_hooks(command: Sequence[str] | None, *, ask: bool) -> None:
    """Write the hooks that recall into the settings of Claude Code, or take them out."""
    line = shlex.join(command) if command else None

    def change(held: Config) -> Config:
        return clients.with_hooks(held, line)

    held = clients.read_config(HOOKS)
    if change(held) == held:
        click.echo(f"{HOOKS.title} has {'these' if line else 'none of our'} hooks: {HOOKS.path}")
    else:
        shown = dict.fromkeys(RECALLED, line or environment.HIDDEN)
        _write(HOOKS, change, *(({}, shown) if line else (shown, {})), ask=ask)


def _write(
    client: McpClient,
    change: Callable[[Config], Config],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    ask: bool,
) -> None:
    """Change a configuration, and show what changes. Nothing else of it is: it may hold keys."""
    click.echo(f"{client.path}, {client.section}:")
    old, new = (
        json.dumps(one, indent=2, ensure_ascii=False).splitlines() for one in (before, after)
    )
    for line in ndiff(old, new):
        if not line.startswith("?"):
            click.echo(line.rstrip())
    if ask and not click.confirm(f"Write {client.path}?", default=True, err=True):
        return
    backup = clients.write(client, change, datetime.now())
    kept = f"; what was there is in {backup.name}" if backup else ""
    click.echo(f"Written: {client.path}{kept}. Restart {client.title}.")


async def _first_search(settings: Settings) -> None:
    """Load the model, store the folders, and search them."""
    from mcp_server_qdrant.app.upkeep import settle
    from mcp_server_qdrant.ingest.files.state import SyncRequest

    frame.show("Opening the engine …")
    async with frame.opened(settings) as services:
        encoder = services.encoders.default
        modelless = settings.embedding_provider == "none"
        if not modelless and not await frame.loaded(encoder):
            frame.say(f"{encoder.reason} Until it is there, keywords are searched.")
        for source in settings.sync_sources if not settings.qdrant_read_only else ():
            await once(services, SyncRequest.to_keep(source))
            if not source.keep:  # the conversations of all projects are nobody's
                await settle(services.shared.client, source.collection, source.path)
        query = _query(settings)
        page = await services.pipeline.search(SearchRequest(query=query, limit=3))
        click.echo(f"A first search, {query!r}: {amount(len(page.results), 'result')}.")
        for hit in page.results:
            click.echo(f"- {hit.document.collection}: {_line(hit.document.title or '', 70)}")
            click.echo(f"  {_line(hit.passage, 200)}")


def _line(text: str, room: int) -> str:
    """The beginning of a text in one line that a terminal can show."""
    return " ".join(printable(text, " ").split())[:room]


def _query(settings: Settings) -> str:
    """A query that finds something: the name of a file that was stored."""
    for source in settings.sync_sources:
        for path in sorted(source.path.rglob("*.*")):
            if path.is_file() and not path.name.startswith("."):
                return path.stem.replace("-", " ").replace("_", " ")
    return "what was decided last?"
