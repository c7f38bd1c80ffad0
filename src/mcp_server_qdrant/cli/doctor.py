"""The command `doctor`: examines all that a find or a store needs, and says what mends it."""

import asyncio
import json
import logging
import os
import re
import shlex
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.cli import clients, frame
from mcp_server_qdrant.core.errors import (
    AccessRefused,
    ConfigError,
    EncoderUnavailable,
    KeyRefused,
    QdrantMcpError,
    RerankerUnavailable,
    UnknownCollection,
)
from mcp_server_qdrant.core.notation import amount

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services
    from mcp_server_qdrant.core.datatypes import CollectionInfo
    from mcp_server_qdrant.settings.environment import Settings

MODEL_SECONDS = 60.0
AGAIN = "mcp-server-qdrant doctor"
TRIP = "round trip"
UNSTARTED = "could not be started"  # a host whose folder cannot be written, as a rule
WRITABLE = "<a folder that you may write>"
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+")

Given = Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `fix` is the line that mends a problem, or else improves it."""

    check: str
    text: str
    fix: str | None = None
    ok: bool = True


def problem(check: str, text: str, fix: str) -> Finding:
    """A finding that makes the exit status 1."""
    return Finding(check, text, fix, ok=False)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@frame.env_file
def doctor(as_json: bool) -> None:  # noqa: FBT001
    """Look at settings, engine, model, collections and clients, and say what mends each problem.

    A text is stored and found in a collection that is deleted again. Ends with 1 where there is a
    problem.
    """
    logging.basicConfig(handlers=[logging.NullHandler()])  # what is logged is found here too
    with frame.ending():
        findings = asyncio.run(_printed(click.get_current_context().meta.get(frame.KEY), as_json))
        if as_json:
            click.echo(json.dumps([asdict(one) for one in findings], indent=1, ensure_ascii=False))
        count = sum(not one.ok for one in findings)
        frame.say(f"{amount(count, 'problem') if count else 'no problems'}.")
        if count:
            raise click.exceptions.Exit(1)


async def _printed(env_file: Path | None, as_json: bool) -> list[Finding]:  # noqa: FBT001
    findings = []
    async for one in examined(env_file):
        findings.append(one)
        frame.show("")
        if not as_json:
            click.echo(f"{'ok' if one.ok else 'PROBLEM':7} {one.check}: {one.text}")
            if one.fix:
                click.echo(f"        -> {one.fix}")
    return findings


async def examined(env_file: Path | None) -> AsyncIterator[Finding]:
    """All findings, in the order in which one thing needs another."""
    from mcp_server_qdrant.settings import environment

    notes: list[str] = []
    given: Given = {}
    try:
        given = environment.given(env_file)
        settings = environment.load(env_file, notes.append)
    except ConfigError as error:
        yield problem("settings", str(error), settings_fix(str(error), given))
    else:
        for name, (value, origin) in given.items():
            yield Finding("settings", f"{name}={environment.shown(name, value)} (from {origin})")
        yield Finding("settings", "All others have their default; docs/settings.md lists them.")
        for note in notes:
            yield Finding("settings", f"{note}.")
        for source in settings.sync_sources:
            if not source.path.exists():
                fix = f"mkdir -p {shlex.quote(str(source.path))}"
                yield problem("sync", f"SYNC_SOURCES names {source.path}, which is not there.", fix)
        async for one in _services(settings, given):
            yield one
    if find_spec("openTSNE") is None:
        lacking = "A map with regions, on which near means alike, needs the extra 'map'."
        yield Finding("extra", lacking, "pip install opentsne scikit-learn")
    for one in _clients():
        yield one


def settings_fix(text: str, given: Given) -> str:
    """The line that mends a settings error; `given` is empty where the file cannot be used."""
    if found := re.search(r"chmod go-w (.+?)\.?$", text):
        return f"chmod go-w {shlex.quote(found[1])}"
    named = _first_named(text, given)
    return _remove(named, given) if named else "Mend the settings file, or start without it."


def _first_named(text: str, given: Mapping[str, Any]) -> str | None:
    return next((name for name in VARIABLE.findall(text) if name in given), None)


def _remove(name: str, given: Given) -> str:
    """The line that takes a setting away, wherever it comes from."""
    file = _file(name, given)
    return f"Remove {name} from {file}" if file else f"unset {name}"


def _set(name: str, value: str, given: Given) -> str:
    line, file = f"{name}={shlex.quote(value)}", _file(name, given)
    return f"Write {line} to {file}" if file else f"export {line}"


def _file(name: str, given: Given) -> str | None:
    """The file that sets a variable; None where the environment does, or nothing."""
    from mcp_server_qdrant.settings.environment import ENVIRONMENT

    origin = given[name][1] if name in given else ENVIRONMENT
    return None if origin == ENVIRONMENT else origin


async def _services(settings: "Settings", given: Given) -> AsyncIterator[Finding]:
    """Findings through the parts that the server has too, of no tenant's view."""
    scratch = f"doctor-scratch-{os.urandom(6).hex()}"
    allowed = settings.qdrant_collections
    shown = (*allowed, scratch) if allowed else ()
    frame.show("Opening the engine …")
    try:
        async with frame.opened(settings, qdrant_collections=shown, tenant_field=None) as services:
            yield await _model(services, settings, given)
            if settings.reranks_by_service:
                yield await _reranker(services, settings, given)
            found = await services.catalog.describe()
            yield await _engine(services, settings)
            for info in found:
                yield _collection(info, settings)
            if missing := await _default(services, settings, given):
                yield missing
            yield await _round_trip(services, settings, scratch)
    except QdrantMcpError as error:
        yield problem("engine", str(error), engine_fix(error, settings, given))


def engine_fix(error: QdrantMcpError, settings: "Settings", given: Given) -> str:
    """The line that mends why the engine cannot be opened or asked."""
    if isinstance(error, KeyRefused):
        return _set("QDRANT_API_KEY", "<the server's key>", given)
    if isinstance(error, ConfigError) and (named := _first_named(str(error), given)):
        return _remove(named, given)
    if settings.qdrant_url:
        return f"{_remove('QDRANT_URL', given)}  (or start the server there)"
    if "QDRANT_LOCAL_PATH" in given:
        return _remove("QDRANT_LOCAL_PATH", given)
    return _set("QDRANT_LOCAL_PATH", WRITABLE, given) if UNSTARTED in str(error) else AGAIN


async def _engine(services: "Services", settings: "Settings") -> Finding:
    if settings.qdrant_url is None:
        from importlib.metadata import version

        edge = f"Embedded, Qdrant Edge {version('qdrant-edge-py')}, in {settings.local_path}."
        return Finding("engine", edge)
    from mcp_server_qdrant.settings.environment import shown

    about: Any = await services.client.info() if settings.qdrant_url != ":memory:" else None
    said = f"Qdrant {about.version}" if about else "A trial"
    return Finding("engine", f"{said}, at {shown('QDRANT_URL', settings.qdrant_url)}.")


async def _model(services: "Services", settings: "Settings", given: Given) -> Finding:
    if settings.embedding_provider == "none":
        return Finding("model", "None: EMBEDDING_PROVIDER is none, and keywords are searched.")
    encoder = services.encoders.default
    await frame.loaded(encoder, MODEL_SECONDS)
    if encoder.state in ("loading", "downloading"):
        return Finding("model", f"{encoder.reason} Keywords are searched meanwhile.")
    try:
        await encoder.encode_query("hello")
    except EncoderUnavailable as error:
        reason = encoder.reason or str(error)
        return problem("model", reason, _model_fix(reason, settings, given))
    place = settings.embedding_model_path or settings.embedding_provider
    return Finding("model", f"{encoder.name} makes vectors ({place}).")


def _model_fix(reason: str, settings: "Settings", given: Given) -> str:
    if settings.embedding_provider != "fastembed":
        return _set("EMBEDDING_SERVICE_URL", "<a service that answers>", given)
    if near := re.search(r"Did you mean '(.+)'\?", reason):
        return _set("EMBEDDING_MODEL", near[1], given)
    if settings.embedding_model_path:
        return _remove("EMBEDDING_MODEL_PATH", given)
    if UNSTARTED in reason:
        return _set("QDRANT_CACHE_PATH", WRITABLE, given)
    line = _set("EMBEDDING_MODEL_PATH", "<folder of the model>", given)
    return f"{line}  (or connect to the network; EMBEDDING_PROVIDER=none does without a model)"


async def _reranker(services: "Services", settings: "Settings", given: Given) -> Finding:
    """Whether the reranking service answers. A local model is loaded by the first call only."""
    reranker = services.shared.rerank.reranker
    assert reranker is not None
    try:
        await reranker.score("hello", ["hello"], settings.rerank_timeout)
    except RerankerUnavailable as error:
        setting = "RERANK_URL" if settings.rerank_url else "RERANK_PROVIDER"
        fix = f"{_remove(setting, given)}  (or see to the service there)"
        return problem("reranker", f"{error} Searches keep the order without it.", fix)
    return Finding("reranker", "The service scores texts.")


def _collection(info: "CollectionInfo", settings: "Settings") -> Finding:
    """A collection's state. A missing leg costs quality, and may be meant so."""
    name = shlex.quote(info.name)
    legs = " and ".join(info.legs) or "nothing"
    text = f"{info.name}: {amount(info.points, 'point')}, searched by {legs}."
    if info.note:
        text = f"{text} {info.note[0].upper()}{info.note[1:].rstrip('.')}."
    if "accept-loss" in text:
        return problem("collection", text, f"mcp-server-qdrant accept-loss {name}")
    upgrade = f"mcp-server-qdrant upgrade {name}"
    if not info.legs or "upgrade again" in text:
        return problem("collection", text, upgrade)
    if "bm25" not in info.legs:
        return Finding("collection", text, upgrade)
    if "dense" not in info.legs and settings.embedding_provider != "none":
        return Finding("collection", text, f"{upgrade} --model {settings.chosen_model}")
    return Finding("collection", text)


async def _default(services: "Services", settings: "Settings", given: Given) -> Finding | None:
    name = settings.collection_name
    if name is None or await services.catalog.exists(name):
        return None
    text = f"COLLECTION_NAME={name} does not exist"
    near = await services.catalog.near(name)
    if not near:
        return Finding("collection", f"{text} yet; the first store makes it.")
    fix = _set("COLLECTION_NAME", near[0], given)
    return problem("collection", f"{text}, and {near[0]} does.", fix)


async def _round_trip(services: "Services", settings: "Settings", scratch: str) -> Finding:
    """Store a text and find it, in a collection that is deleted in any case."""
    if settings.qdrant_read_only:
        return Finding(TRIP, "Skipped: QDRANT_READ_ONLY is set.")
    if settings.tenant_field:
        return Finding(TRIP, "Skipped: with TENANT_FIELD, tenants would see the collection.")
    frame.show("Storing and finding a text …")
    left = None
    try:
        found = await _found_again(services, scratch)
    except AccessRefused:
        found = Finding(TRIP, "Skipped: the engine's key may not write.")
    except EncoderUnavailable:
        found = Finding(TRIP, "Skipped: without the model no collection can be made.")
    except QdrantMcpError as error:
        found = problem(TRIP, str(error), AGAIN)
    finally:
        try:
            await services.client.delete_collection(scratch)
        except (UnknownCollection, AccessRefused):
            pass  # it was never made
        except QdrantMcpError as error:
            left = problem(TRIP, f"{scratch} could not be deleted: {error}", f"Delete {scratch}")
    return left or found


async def _found_again(services: "Services", scratch: str) -> Finding:
    from mcp_server_qdrant.core.datatypes import NewDocument
    from mcp_server_qdrant.core.find import SearchRequest

    text = "The doctor stored this text to find it again."
    await services.store.store(NewDocument(text), scratch, create=True)
    page = await services.pipeline.search(SearchRequest(query=text, collections=(scratch,)))
    if page.results:
        return Finding(TRIP, "A text was stored and found.")
    return problem(TRIP, f"A stored text was not found. {' '.join(page.notes)}".strip(), AGAIN)


def _clients() -> Iterator[Finding]:
    """The servers that clients on this machine are configured to start, started for a test."""
    from mcp_server_qdrant.settings.environment import without_settings

    seen = 0
    for flag, client in clients.clients().items():
        try:
            read = clients.parse(client, clients.text_of(client))
        except ConfigError as error:
            fix = f"Mend {client.path}, then: {AGAIN}"
            yield problem("client", f"{client.title}: {error}", fix)
            continue
        for name, project, entry in clients.entries(client, read):
            where = f"{client.title}, {name!r} in {client.path}"
            where += f" for {project}" if project else ""
            program = clients.other(entry)
            if program is None or program == clients.ADDRESS:
                seen += 1
            if program == clients.ADDRESS:
                yield Finding("client", f"{where}: an address, which is not called from here.")
            elif program:
                other = f"starts another program ({program}), which is not started here"
                yield Finding("client", f"{where}: {other}.")
            elif "${" in json.dumps(entry):
                unknown = "has variables that only the client knows; not started"
                yield Finding("client", f"{where}: {unknown}.")
            else:
                frame.show(f"Starting the server of {client.title} …")
                try:
                    told = clients.start(entry, without_settings())
                    yield Finding("client", f"{where}: starts {told}.")
                except ConfigError as error:
                    fix = _client_fix(str(error), flag, client, name, project, entry)
                    yield problem("client", f"{where}: {str(error).rstrip('.')}.", fix)
    if not seen:
        text = "No client here is configured to start this server."
        yield Finding("client", text, "mcp-server-qdrant init")


def _client_fix(
    fault: str,
    flag: str,
    client: clients.Client,
    name: str,
    project: str | None,
    entry: clients.Entry,
) -> str:
    if wrong := _first_named(fault, clients.texts(entry.get("env"))):
        return f"Remove {wrong} from {client.path}"
    if project:
        return f"cd {shlex.quote(project)} && claude mcp remove {shlex.quote(name)}"
    called = "" if name == "qdrant" else f" --name {shlex.quote(name)}"
    return f"mcp-server-qdrant init --client {flag}{called} --yes"
