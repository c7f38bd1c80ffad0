"""The command `doctor`: examines all that a find or a store needs, and says what mends it."""

import asyncio
import contextlib
import json
import logging
import os
import re
import shlex
from collections.abc import Iterable, Mapping
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


class Findings:
    """What was looked at, printed as it is found. `fix` mends a problem, or else improves it."""

    def __init__(self, *, quiet: bool) -> None:
        self.all: list[dict[str, Any]] = []
        self.given: Mapping[str, tuple[str, str]] = {}  # each variable with its value and origin
        self._quiet = quiet

    def add(self, check: str, text: str, fix: str | None = None, *, ok: bool = True) -> None:
        """Something that works, unless it is not `ok`."""
        self.all.append({"check": check, "text": text, "fix": fix, "ok": ok})
        frame.show("")
        if not self._quiet:
            click.echo(f"{'ok' if ok else 'PROBLEM':7} {check}: {text}")
            if fix:
                click.echo(f"        -> {fix}")

    def problem(self, check: str, text: str, fix: str) -> None:
        """Something that makes the exit status 1."""
        self.add(check, text, fix, ok=False)

    def mend(self, name: str, value: str | None = None) -> str:
        """The line that gives a setting this value, or takes it away, where it is set."""
        from mcp_server_qdrant.settings.environment import ENVIRONMENT

        _, origin = self.given.get(name, ("", ENVIRONMENT))
        if value is None:
            return f"unset {name}" if origin == ENVIRONMENT else f"Remove {name} from {origin}"
        line = f"{name}={shlex.quote(value)}"
        return f"export {line}" if origin == ENVIRONMENT else f"Write {line} to {origin}"


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
        findings = Findings(quiet=as_json)
        _examine(findings, click.get_current_context().meta.get(frame.KEY))
        if as_json:
            click.echo(json.dumps(findings.all, indent=1, ensure_ascii=False))
        count = sum(not one["ok"] for one in findings.all)
        frame.say(f"{amount(count, 'problem') if count else 'no problems'}.")
        if count:
            raise click.exceptions.Exit(1)


def _examine(findings: Findings, env_file: Path | None) -> None:
    """Look at all, in the order in which one thing needs another."""
    settings = _settings(findings, env_file)
    if settings is not None:
        asyncio.run(_services(findings, settings))
    if find_spec("openTSNE") is None:
        lacking = "A map with regions, on which near means alike, needs the extra 'map'."
        findings.add("extra", lacking, "pip install opentsne scikit-learn")
    _clients(findings)


def _settings(findings: Findings, env_file: Path | None) -> "Settings | None":
    from mcp_server_qdrant.settings import environment

    notes: list[str] = []
    try:
        findings.given = environment.given(env_file)
        settings = environment.load(env_file, notes.append)
    except ConfigError as error:
        findings.problem("settings", str(error), _settings_fix(str(error), findings))
        return None
    for name, (value, origin) in findings.given.items():
        findings.add("settings", f"{name}={environment.shown(name, value)} (from {origin})")
    findings.add("settings", "All others have their default; docs/settings.md lists them.")
    for note in notes:
        findings.add("settings", f"{note}.")
    for source in settings.sync_sources:
        if not source.path.exists():
            fix = f"mkdir -p {shlex.quote(str(source.path))}"
            findings.problem("sync", f"SYNC_SOURCES names {source.path}, which is not there.", fix)
    return settings


def _settings_fix(text: str, findings: Findings) -> str:
    """The line that mends a settings error; nothing is given where the file cannot be used."""
    if found := re.search(r"chmod go-w (.+?)\.?$", text):
        return f"chmod go-w {shlex.quote(found[1])}"
    named = _first_named(text, findings.given)
    return findings.mend(named) if named else "Mend the settings file, or start without it."


def _first_named(text: str, given: Iterable[str]) -> str | None:
    return next((name for name in VARIABLE.findall(text) if name in given), None)


async def _services(findings: Findings, settings: "Settings") -> None:
    """Look through the parts that the server has too, in no tenant's view."""
    scratch = f"doctor-scratch-{os.urandom(6).hex()}"
    allowed = settings.qdrant_collections
    shown = (*allowed, scratch) if allowed else ()
    frame.show("Opening the engine …")
    try:
        async with frame.opened(settings, qdrant_collections=shown, tenant_field=None) as services:
            await _model(findings, services, settings)
            if settings.reranks_by_service:
                await _reranker(findings, services, settings)
            found = await services.catalog.describe()
            await _engine(findings, services, settings)
            for info in found:
                _collection(findings, info, settings)
            await _default(findings, services, settings)
            await _round_trip(findings, services, settings, scratch)
    except QdrantMcpError as error:
        findings.problem("engine", str(error), engine_fix(error, settings, findings))


def engine_fix(error: QdrantMcpError, settings: "Settings", findings: Findings) -> str:
    """The line that mends why the engine cannot be opened or asked."""
    if isinstance(error, KeyRefused):
        return findings.mend("QDRANT_API_KEY", "<the server's key>")
    if isinstance(error, ConfigError) and (named := _first_named(str(error), findings.given)):
        return findings.mend(named)
    if settings.qdrant_url:
        return f"{findings.mend('QDRANT_URL')}  (or start the server there)"
    if "QDRANT_LOCAL_PATH" in findings.given:
        return findings.mend("QDRANT_LOCAL_PATH")
    return findings.mend("QDRANT_LOCAL_PATH", WRITABLE) if UNSTARTED in str(error) else AGAIN


async def _engine(findings: Findings, services: "Services", settings: "Settings") -> None:
    if settings.qdrant_url is None:
        from importlib.metadata import version

        edge = f"Embedded, Qdrant Edge {version('qdrant-edge-py')}, in {settings.local_path}."
        findings.add("engine", edge)
        return
    from mcp_server_qdrant.settings.environment import shown

    about: Any = await services.client.info() if settings.qdrant_url != ":memory:" else None
    said = f"Qdrant {about.version}" if about else "A trial"
    findings.add("engine", f"{said}, at {shown('QDRANT_URL', settings.qdrant_url)}.")


async def _model(findings: Findings, services: "Services", settings: "Settings") -> None:
    if settings.embedding_provider == "none":
        text = "None: EMBEDDING_PROVIDER is none, and keywords are searched."
        findings.add("model", text)
        return
    encoder = services.encoders.default
    await frame.loaded(encoder, MODEL_SECONDS)
    if encoder.state in ("loading", "downloading"):
        findings.add("model", f"{encoder.reason} Keywords are searched meanwhile.")
        return
    try:
        await encoder.encode_query("hello")
    except EncoderUnavailable as error:
        reason = encoder.reason or str(error)
        findings.problem("model", reason, _model_fix(reason, settings, findings))
    else:
        place = settings.embedding_model_path or settings.embedding_provider
        findings.add("model", f"{encoder.name} makes vectors ({place}).")


def _model_fix(reason: str, settings: "Settings", findings: Findings) -> str:
    if settings.embedding_provider != "fastembed":
        return findings.mend("EMBEDDING_SERVICE_URL", "<a service that answers>")
    if near := re.search(r"Did you mean '(.+)'\?", reason):
        return findings.mend("EMBEDDING_MODEL", near[1])
    if settings.embedding_model_path:
        return findings.mend("EMBEDDING_MODEL_PATH")
    if UNSTARTED in reason:
        return findings.mend("QDRANT_CACHE_PATH", WRITABLE)
    line = findings.mend("EMBEDDING_MODEL_PATH", "<folder of the model>")
    return f"{line}  (or connect to the network; EMBEDDING_PROVIDER=none does without a model)"


async def _reranker(findings: Findings, services: "Services", settings: "Settings") -> None:
    """Whether the reranking service answers. A local model is loaded by the first call only."""
    reranker = services.shared.rerank.reranker
    assert reranker is not None
    try:
        await reranker.score("hello", ["hello"], settings.rerank_timeout)
    except RerankerUnavailable as error:
        fix = findings.mend("RERANK_URL" if settings.rerank_url else "RERANK_PROVIDER")
        text = f"{error} Searches keep the order without it."
        findings.problem("reranker", text, f"{fix}  (or see to the service there)")
    else:
        findings.add("reranker", "The service scores texts.")


def _collection(findings: Findings, info: "CollectionInfo", settings: "Settings") -> None:
    """A collection's state. A missing leg costs quality, and may be meant so."""
    name = shlex.quote(info.name)
    legs = " and ".join(info.legs) or "nothing"
    text = f"{info.name}: {amount(info.points, 'point')}, searched by {legs}."
    if info.note:
        text = f"{text} {info.note[0].upper()}{info.note[1:].rstrip('.')}."
    upgrade, fix = f"mcp-server-qdrant upgrade {name}", None
    lost = "accept-loss" in text
    if lost:
        fix = f"mcp-server-qdrant accept-loss {name}"
    elif "bm25" not in info.legs or "upgrade again" in text:
        fix = upgrade
    elif "dense" not in info.legs and settings.embedding_provider != "none":
        fix = f"{upgrade} --model {settings.chosen_model}"
    ok = bool(info.legs) and not lost and "upgrade again" not in text
    findings.add("collection", text, fix, ok=ok)


async def _default(findings: Findings, services: "Services", settings: "Settings") -> None:
    name = settings.collection_name
    if name is None or await services.catalog.exists(name):
        return
    text = f"COLLECTION_NAME={name} does not exist"
    if near := await services.catalog.near(name):
        fix = findings.mend("COLLECTION_NAME", near[0])
        findings.problem("collection", f"{text}, and {near[0]} does.", fix)
    else:
        findings.add("collection", f"{text} yet; the first store makes it.")


async def _round_trip(
    findings: Findings, services: "Services", settings: "Settings", scratch: str
) -> None:
    """Store a text and find it, in a collection that is deleted in any case."""
    from mcp_server_qdrant.core.datatypes import NewDocument
    from mcp_server_qdrant.core.find import SearchRequest

    if settings.qdrant_read_only:
        findings.add(TRIP, "Skipped: QDRANT_READ_ONLY is set.")
        return
    if settings.tenant_field:
        findings.add(TRIP, "Skipped: with TENANT_FIELD, tenants would see the collection.")
        return
    frame.show("Storing and finding a text …")
    text = "The doctor stored this text to find it again."
    try:
        await services.store.store(NewDocument(text), scratch, create=True)
        page = await services.pipeline.search(SearchRequest(query=text, collections=(scratch,)))
        if page.results:
            findings.add(TRIP, "A text was stored and found.")
        else:
            findings.problem(TRIP, " ".join(["A stored text was not found.", *page.notes]), AGAIN)
    except AccessRefused:
        findings.add(TRIP, "Skipped: the engine's key may not write.")
    except EncoderUnavailable:
        findings.add(TRIP, "Skipped: without the model no collection can be made.")
    except QdrantMcpError as error:
        findings.problem(TRIP, str(error), AGAIN)
    finally:
        with contextlib.suppress(UnknownCollection, AccessRefused):  # it was never made
            await services.client.delete_collection(scratch)


def _clients(findings: Findings) -> None:
    """Look at the servers that clients on this machine start, and start them for a test."""
    seen = 0
    for flag, client in clients.CLIENTS.items():
        try:
            read = clients.read_config(client)
        except ConfigError as error:
            fix = f"Mend {client.path}, then: {AGAIN}"
            findings.problem("client", f"{client.title}: {error}", fix)
            continue
        for name, project, entry in clients.entries(client, read):
            seen += clients.other(entry) in (None, clients.ADDRESS)
            where = f"{client.title}, {name!r} in {client.path}"
            where += f" for {project}" if project else ""
            try:
                frame.show(f"Starting the server of {client.title} …")
                findings.add("client", f"{where}: {_tried(entry)}.")
            except ConfigError as error:
                fix = _client_fix(str(error), flag, client, name, project, entry)
                findings.problem("client", f"{where}: {str(error).rstrip('.')}.", fix)
    if not seen:
        text = "No client here is configured to start this server."
        findings.add("client", text, "mcp-server-qdrant init")


def _tried(entry: clients.Entry) -> str:
    """What comes of an entry, which is started where it is known to be this server."""
    from mcp_server_qdrant.settings.environment import without_settings

    program = clients.other(entry)
    if program == clients.ADDRESS:
        return "an address, which is not called from here"
    if program:
        return f"starts another program ({program}), which is not started here"
    if "${" in json.dumps(entry):
        return "has variables that only the client knows; not started"
    return f"starts {clients.start(entry, without_settings())}"


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
