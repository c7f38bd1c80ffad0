"""The command `doctor`: checks everything that searching and storing need, and suggests fixes."""

import contextlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_server_qdrant.cli import clients, frame, sources, visit
from mcp_server_qdrant.core.datatypes import CollectionInfo, NewDocument
from mcp_server_qdrant.core.errors import (
    AccessRefused,
    ConfigError,
    EncoderUnavailable,
    EngineUnavailable,
    KeyRefused,
    QdrantMcpError,
    RerankerUnavailable,
    UnknownCollection,
)
from mcp_server_qdrant.core.find import SearchRequest
from mcp_server_qdrant.core.notation import plural
from mcp_server_qdrant.settings import environment
from mcp_server_qdrant.settings.environment import (
    ENVIRONMENT,
    Settings,
    masked_value,
    without_settings,
)
from mcp_server_qdrant.settings.sync import SyncSettings

if TYPE_CHECKING:
    from mcp_server_qdrant.app.services import Services

MODEL_SECONDS = 60.0  # timeout of loading the model
AGAIN = "mcp-server-qdrant doctor"
TRIP = "round trip"
WRITABLE = "<a writable folder>"
STOPPED = "The service that runs the engine stopped during the check."
UNSTARTED = "could not be started"  # usually the cache folder is not writable
Finding = dict[str, Any]
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+")
# Check -> (settings, of which the first that is set may be wrong; fix if none of them is set).
BEHIND = {
    "settings": ((), "Fix the settings file, or start without it."),
    "engine": (("QDRANT_URL", "QDRANT_LOCAL_PATH"), f"export QDRANT_LOCAL_PATH='{WRITABLE}'"),
    "embedding service": (
        (),  # without its address the texts might go to another service
        "Check the service and the network, or set EMBEDDING_SERVICE_URL to one that answers and "
        "EMBEDDING_API_KEY to a key that it accepts.",
    ),
    "model": (
        ("EMBEDDING_MODEL_PATH",),
        "export EMBEDDING_MODEL_PATH='<folder of the model>'  (or connect to the network, or set "
        "EMBEDDING_PROVIDER=none to do without a model)",
    ),
    "reranker": (("RERANK_URL",), ""),
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(*, as_json: bool) -> None:
    """Check settings, engine, model, collections and clients, and suggest a fix for each problem.

    A text is stored and found in a temporary collection. The exit status is 1 if there are
    problems.
    """
    visit.mute()  # the findings say the same as the log
    with frame.reporting_errors():
        examination = Examination((lambda _: None) if as_json else _print_finding)
        examination.run(click.get_current_context().meta.get(frame.KEY))
        if as_json:
            click.echo(json.dumps(examination.findings, indent=1, ensure_ascii=False))
        count = sum(not one["ok"] for one in examination.findings)
        frame.print_message(f"{plural(count, 'problem') if count else 'no problems'}.")
        if count:
            raise click.exceptions.Exit(1)


@click.command(hidden=True)
@frame.as_command()
async def examine() -> None:
    """Do the part of `doctor` that needs the engine; prints each finding as a line of JSON."""
    visit.mute()
    env_file = click.get_current_context().meta.get(frame.KEY)
    examination = Examination(lambda finding: click.echo(json.dumps(finding)))
    examination.given = environment.given_variables(env_file)
    examination.settings = environment.load(env_file)
    await examination.look_through_services()


def _print_finding(finding: Finding) -> None:
    click.echo(f"{'ok' if finding['ok'] else 'PROBLEM':7} {finding['check']}: {finding['text']}")
    if finding["fix"]:
        click.echo(f"        -> {finding['fix']}")


class Examination:
    """Runs the checks and reports the findings."""

    settings: Settings
    services: "Services"

    def __init__(self, tell: Callable[[Finding], None]) -> None:
        self.findings: list[Finding] = []
        self.given: Mapping[str, tuple[str, str]] = {}  # variable -> value, origin
        self._tell = tell

    def run(self, env_file: Path | None) -> None:
        """Run all checks, in the order of their dependencies."""
        if self._read_settings(env_file):
            status = frame.run_at_engine(
                ["examine"], self.look_through_services, self._report_lines
            )
            if status == frame.INTERRUPTED:
                raise click.exceptions.Exit(status)
            if status:
                self._problem("engine", STOPPED, AGAIN)
        self._clients()

    def _add(self, check: str, text: str, fix: str | None = None, *, ok: bool = True) -> None:
        """Add a finding; `fix` repairs a problem, or improves what is `ok`."""
        self._report({"check": check, "text": text, "fix": fix, "ok": ok})

    def _report(self, finding: Finding) -> None:
        self.findings.append(finding)
        frame.show_status("")
        self._tell(finding)

    def _report_lines(self, lines: str) -> bool:
        """Add the findings of `examine` in the service."""
        for line in lines.splitlines():
            self._report(json.loads(line))
        return True

    def _problem(self, check: str, text: str, fix: str) -> None:
        """Add a problem, which makes the exit status 1."""
        self._add(check, text, fix, ok=False)

    def _set(self, name: str, value: str | None = None) -> str:
        """The line that sets a setting, or removes it, at its origin."""
        _, origin = self.given.get(name, ("", ENVIRONMENT))
        if value is None:
            return f"unset {name}" if origin == ENVIRONMENT else f"Remove {name} from {origin}"
        line = f"{name}={shlex.quote(value)}"
        return f"export {line}" if origin == ENVIRONMENT else f"Write {line} to {origin}"

    def _report_error(self, check: str, error: QdrantMcpError, text: str | None = None) -> None:
        """Add an error as a problem, with the fix from its sentence or from BEHIND."""
        said = text or str(error)
        _, tells, command = said.rstrip(".").rpartition(": run ")
        behind, line = BEHIND[check]
        if isinstance(error, KeyRefused):
            line = self._set("QDRANT_API_KEY", "<the server's key>")
        elif near := re.search(r"Did you mean '(.+)'\?", said):
            line = self._set("EMBEDDING_MODEL", near[1])
        elif tells:
            line = command
        elif check == "model" and UNSTARTED in said:
            line = self._set("QDRANT_CACHE_PATH", WRITABLE)
        elif isinstance(error, ConfigError) and (named := _find_named(said, self.given)):
            line = self._set(named)
        elif wrong := next((name for name in behind if name in self.given), None):
            line = f"{self._set(wrong)}  (or repair what it names)"
        self._problem(check, said, line)

    def _read_settings(self, env_file: Path | None) -> bool:
        notes: list[str] = []
        try:
            self.given = environment.given_variables(env_file)
            self.settings = environment.load(env_file, notes.append)
        except ConfigError as error:
            self._report_error("settings", error)
            return False
        for name, (value, origin) in self.given.items():
            self._add("settings", f"{name}={masked_value(name, value)} (from {origin})")
        self._add("settings", "All others have their defaults; docs/settings.md lists them.")
        for note in notes:
            self._add("settings", f"{note}.")
        self._sources(self.settings, "SYNC_SOURCES")
        return True

    def _sources(self, settings: SyncSettings, called: str) -> None:
        """Check that the folders to follow exist."""
        for path in (one.path for one in settings.sync_sources):
            if not path.exists():
                text = f"{called} names {path}, which does not exist: was it moved?"
                self._problem("sync", text, f"mkdir -p {shlex.quote(str(path))}")

    async def look_through_services(self) -> None:
        """Run the checks that need the server's services, for no particular tenant."""
        scratch = f"doctor-scratch-{os.urandom(6).hex()}"
        allowed = self.settings.qdrant_collections
        shown = (*allowed, scratch) if allowed else ()
        frame.show_status("Opening the engine …")
        try:
            async with frame.open_services(
                self.settings, qdrant_collections=shown, tenant_field=None
            ) as self.services:
                await self._check_services(scratch)
        except QdrantMcpError as error:
            self._report_error("engine", error)

    async def _check_services(self, scratch: str) -> None:
        await self._model()
        if self.settings.rerank_url:
            await self._reranker()
        found = await self.services.catalog.describe()
        await self._engine()
        for info in found:
            self._collection(info)
            await self._languages(info)
        await self._default()
        await self._round_trip(scratch)

    async def _engine(self) -> None:
        url, said = self.settings.qdrant_url, "A trial"
        if url is None:
            edge = f"Embedded, Qdrant Edge {version('qdrant-edge-py')}"
            self._add("engine", f"{edge}, in {self.settings.local_path}.")
            return
        if url != ":memory:":
            server: Any = self.services.shared.client
            said = f"Qdrant {(await server.info()).version}"
        self._add("engine", f"{said}, at {masked_value('QDRANT_URL', url)}.")

    async def _model(self) -> None:
        settings, encoder = self.settings, self.services.encoders.default
        if settings.embedding_provider == "none":
            self._add("model", "None: EMBEDDING_PROVIDER is none, so only keywords are searched.")
            return
        await frame.load_model(encoder, MODEL_SECONDS)
        if encoder.state in ("loading", "downloading"):
            self._add("model", f"{encoder.reason} Keywords are searched meanwhile.")
            return
        try:
            await encoder.encode_query("hello")
        except EncoderUnavailable as error:
            local = settings.embedding_provider == "fastembed"
            self._report_error("model" if local else "embedding service", error, encoder.reason)
        else:
            place = settings.embedding_model_path or settings.embedding_provider
            self._add("model", f"{encoder.name} makes vectors ({place}).")

    async def _reranker(self) -> None:
        """Check that the reranker answers; the call loads a local model if need be."""
        rerank = self.services.shared.rerank
        try:
            await rerank.reranker.score("hello", ["hello"], rerank.seconds)
        except RerankerUnavailable as error:
            self._report_error("reranker", error, f"{error} Searches keep the order without it.")
        else:
            self._add("reranker", "The service scores texts.")

    def _collection(self, info: CollectionInfo) -> None:
        """Add a collection's state. A missing leg costs quality, but may be intended."""
        legs = " and ".join(info.legs) or "nothing"
        text = f"{info.name}: {plural(info.points, 'point')}, searched by {legs}."
        if info.note:
            text = f"{text} {info.note[0].upper()}{info.note[1:].rstrip('.')}."
        name = ("-- " if info.name.startswith("-") else "") + shlex.quote(info.name)
        upgrade, model = "mcp-server-qdrant upgrade", self.settings.chosen_model
        if "mcp-server-qdrant rebuild" in text:
            self._problem("collection", text, "mcp-server-qdrant rebuild")
        elif "accept-loss" in text:
            self._problem("collection", text, f"mcp-server-qdrant accept-loss {name}")
        elif not info.legs or "upgrade again" in text:
            self._problem("collection", text, f"{upgrade} {name}")
        elif "bm25" not in info.legs:
            self._add("collection", text, f"{upgrade} {name}")
        elif "dense" not in info.legs and self.settings.embedding_provider != "none":
            self._add("collection", text, f"{upgrade} --model {model} {name}")
        else:
            self._add("collection", text)

    async def _languages(self, info: CollectionInfo) -> None:
        """Add the languages of a collection's texts that the model does not support."""
        target = await self.services.catalog.target(info.name)
        terms = await self.services.pipeline.understanding.terms.weighed("text", [target])
        for language in terms.languages if target.dense else ():
            hint = await self.services.encoders.hint(str(info.model), language, info.name)
            said, _, command = hint.partition(": run ")
            if hint:
                fix = command.partition(", which")[0]
                self._add("language", f"{info.name}: {said}, once all vectors are recomputed.", fix)

    async def _default(self) -> None:
        name, catalog = self.settings.collection_name, self.services.catalog
        if name is None or await catalog.exists(name):
            return
        text = f"COLLECTION_NAME={name} does not exist"
        if near := await catalog.similar_names(name):
            fix = self._set("COLLECTION_NAME", near[0])
            self._problem("collection", f"{text}, and {near[0]} does.", fix)
        else:
            self._add("collection", f"{text} yet; the first store creates it.")

    async def _round_trip(self, scratch: str) -> None:
        """Store and find a text, in a collection that is always deleted afterwards."""
        if self.settings.qdrant_read_only or self.settings.tenant_field:
            self._add(TRIP, "Skipped: QDRANT_READ_ONLY or TENANT_FIELD is set.")
            return
        frame.show_status("Storing and finding a text …")
        text = "The doctor stored this text to find it again."
        request = SearchRequest(query=text, collections=(scratch,))
        try:
            await self.services.store.store(NewDocument(text), scratch, create=True)
            page = await self.services.pipeline.search(request)
            if page.results:
                self._add(TRIP, "A text was stored and found.")
            else:
                said = " ".join(["A stored text was not found.", *page.notes])
                self._problem(TRIP, said, AGAIN)
        except (AccessRefused, EncoderUnavailable) as error:
            self._add(TRIP, f"Skipped: {error}")
        except QdrantMcpError as error:
            self._problem(TRIP, str(error), AGAIN)
        finally:
            with contextlib.suppress(UnknownCollection, AccessRefused):  # it was never created
                await self.services.shared.client.delete_collection(scratch)

    def _clients(self) -> None:
        """Check the entries for this server in clients on this machine, and test-start them."""
        seen = 0
        for flag, client in clients.CLIENTS.items():
            try:
                read = clients.read_config(client)
            except ConfigError as error:
                fix = f"Fix {client.path}, then: {AGAIN}"
                self._problem("client", f"{client.title}: {error}", fix)
                continue
            for name, project, entry in clients.find_entries(client, read):
                seen += clients.other_program(entry) in (None, clients.ADDRESS)
                where = f"{client.title}, {name!r} in {client.path}"
                where += f" for {project}" if project else ""
                init = "mcp-server-qdrant", "init", "--client", flag, "--name", name, "--yes"
                env = clients.as_strings(entry.get("env"))
                frame.show_status(f"Starting the server of {client.title} …")
                try:
                    self._add("client", f"{where}: {_try_entry(entry)}.")
                    if not project:
                        self._check_followed(where, init, env)
                except EngineUnavailable as error:
                    named = " or ".join(one for one in BEHIND["engine"][0] if one in env)
                    fix = f"Check that engine, or change {named or 'it'} in {client.path}"
                    self._problem("client", f"{where}: {error}", fix)
                except ConfigError as error:
                    fix = f"Fix {client.path}, then: {AGAIN}"
                    if wrong := _find_named(str(error), env):
                        fix = f"Remove {wrong} from {client.path}"
                    elif not project:
                        fix = shlex.join(init)
                    self._problem("client", f"{where}: {error}", fix)
        if not seen:
            text = "No client here is configured to start this server."
            self._add("client", text, "mcp-server-qdrant init")

    def _check_followed(self, where: str, init: Sequence[str], env: Mapping[str, str]) -> None:
        """Check that the folders exist that a client's server follows."""
        for place, _ in sources.by_place([env.get(sources.VARIABLE)]):
            if not place.exists():
                fix = shlex.join([*init, "--remove", str(place)])
                self._problem("sync", f"{where}: {place}, which it follows, does not exist.", fix)


def _try_entry(entry: clients.Entry) -> str:
    """The result of testing an entry, which is started only if it is this server."""
    program = clients.other_program(entry)
    if program == clients.ADDRESS:
        return "a URL, which is not tested from here"
    if program:
        return f"starts another program ({program}), which is not started here"
    if "${" in json.dumps(entry, default=str):
        return "has variables that only the client knows, so it was not started"
    return f"starts {clients.try_start(entry, without_settings(), engine=True)}"


def _find_named(text: str, given: Iterable[str]) -> str | None:
    return next((name for name in VARIABLE.findall(text) if name in given), None)
