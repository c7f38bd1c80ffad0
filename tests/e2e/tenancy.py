"""Two worlds over real HTTP: in one, another tenant has stored texts; the other has no such tenant.

Every call of an attacker must have the same answer in both.
"""

import contextlib
import difflib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from mcp.shared.exceptions import MCPError

from mcp_server_qdrant.core.notation import point_ids_of
from mcp_server_qdrant.http.auth.tokens import add_token, digest, new_token
from mcp_server_qdrant.qdrant.client import open_client
from mcp_server_qdrant.qdrant.edge.client import EdgeClient
from tests.e2e.raw import serving
from tests.listening import client_of
from tests.qdrant_server import SERVER, URL

# These words are in blue's texts, titles, tags and names, and never in red's.
SECRETS = ("zebrafish", "quixotic", "obsidian", "marzipan", "blueprint-77")
VAULT, SHARED = "blue-vault", "common"
ENGINES = ["edge", *SERVER]
BLUE_IDS = {
    (name, document): point_ids_of("blue")(name, document, 0)
    for name in (VAULT, SHARED)
    for document in ("plan-1", "plan-2", "note-7", "blueprint-77")
}
BLUE = [
    ("plan-1", "The zebrafish launch plan: quixotic budget of nine million.", "Obsidian plan"),
    ("plan-2", "Marzipan supplier contract, signed in Lisbon by the zebrafish team.", "Marzipan"),
    ("note-7", "The cellar floods in March, says the quixotic plumber.", "Obsidian cellar"),
    ("blueprint-77", "obsidian " * 400, "A long quixotic text"),
]
RED = [
    ("note-7", "The cellar floods in March; the pump is in the shed.", "Cellar"),
    ("lamp", "A lamp in the hallway flickers when it rains.", "Lamp"),
    ("plan-9", "The plan for the garden: lettuce, then tomatoes.", "Garden plan"),
    # All parts differ, since the order of equal points is random.
    ("manual", " ".join(f"Boiler {n} needs {n * n} l of water." for n in range(120)), "Boilers"),
]


@dataclass
class World:
    """A server, and its callers."""

    address: str
    tokens: dict[str, str] = field(default_factory=dict)


def environment(engine: str, folder: Path, model_dir: Path, cache: Path) -> dict[str, str]:
    """The settings of a server over that engine."""
    place = {"QDRANT_LOCAL_PATH": str(folder / "engine")}
    return {
        **({"QDRANT_URL": URL} if engine == "server" and URL else place),
        "QDRANT_CACHE_PATH": str(cache),
        "EMBEDDING_MODEL_PATH": str(model_dir),
    }


@contextlib.asynccontextmanager
async def beneath(env: dict[str, str]) -> Any:
    """The engine of such a server, without a tenant's filter."""
    place = Path(env.get("QDRANT_LOCAL_PATH", "unused"))
    url = env.get("QDRANT_URL")
    client: Any = await (
        open_client(url, timeout=10) if url else EdgeClient.open(place, timeout=10)
    )
    try:
        yield client
    finally:
        await client.close()


async def cleared(env: dict[str, str], names: Iterable[str]) -> None:
    """Delete these collections."""
    async with beneath(env) as client:
        for name in names:
            if await client.collection_exists(name):
                await client.delete_collection(name)


@contextlib.contextmanager
def world(env: dict[str, str], folder: Path) -> Iterator[World]:
    """A server with tokens of two tenants, and of none."""
    file, tokens = folder / "tokens.yaml", {}
    for name, claims in {
        "red": {"tenant": "red"},
        "blue": {"tenant": "blue"},
        "nobody": {},
        "list": {"tenant": ["red", "blue"]},
        "blank": {"tenant": " "},
    }.items():
        tokens[name] = new_token()
        scopes = ["read", "write", "admin"]
        entry = {"name": name, "sha256": digest(tokens[name]), "scopes": scopes}
        add_token(file, entry | {"claims": claims})
    auth = {"AUTH_MODE": "token", "AUTH_TOKENS_FILE": str(file), "TENANT_FIELD": "tenant"}
    with serving(env | auth, "streamable-http", folder) as (address, _):
        yield World(address, tokens)


async def store(world: World, who: str, texts: list[tuple[str, str, str]], name: str) -> None:
    """Store the texts as this tenant."""
    async with client_of(world.address, world.tokens[who]) as client:
        for document, text, title in texts:
            done = await client.call_tool(
                "qdrant-store",
                {
                    "information": text,
                    "id": document,
                    "title": title,
                    "collection_name": name,
                    "tags": [title.split()[0].lower(), "plans"],
                    "metadata": {"project": title.lower(), "number": len(text)},
                },
            )
            assert not done.is_error, done


async def ask(world: World, who: str, calls: list[tuple[str, Any]]) -> list[str]:
    """The server's answers to the calls, without times."""
    answers = []
    async with client_of(world.address, world.tokens[who]) as client:
        for what, given in calls:
            try:
                answer = await _asked(client, what, given)
            except MCPError as error:
                answer = f"error {error}"
            answers.append(plain(answer))
    return answers


async def _asked(client: Any, what: str, given: Any) -> str:
    if what == "read":
        found = await client.read_resource(given)
    elif what == "list":
        found = await client.list_resources()
    else:
        found = await client.call_tool(what, given)
    return found.model_dump_json()


def plain(answer: str) -> str:
    """The answer without times and revisions, and with numbers to six digits."""
    answer = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z?", "TIME", answer)
    answer = re.sub(r"(revision\W+)[0-9a-f]{16}", r"\1VERSION", answer)
    return re.sub(r"\d+\.\d{6,}", lambda found: f"{float(found[0]):.6f}", answer)


LIST = {"name": "qdrant-collections", "arguments": {}}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": LIST}


def post(url: str, token: str, body: Any = CALL, **headers: str) -> tuple[int, str]:
    """Status and text of one request with a token; a GET if `body` is None."""
    accept = "application/json, text/event-stream"
    sent = {"Accept": accept, **headers, "Authorization": f"Bearer {token}"}
    method = "GET" if body is None else "POST"
    answer = httpx.request(method, url, headers=sent, json=body, timeout=60)
    return answer.status_code, answer.text


def leaked(answer: str, calls: list[tuple[str, Any]]) -> list[str]:
    """Blue's words in an answer that the attacker did not send itself."""
    said = json.dumps(calls).lower()
    known = (*SECRETS, VAULT, *BLUE_IDS.values(), "lisbon", "nine million", '"blue"')
    return [one for one in known if one in answer.lower() and one not in said]


def differences(answers: list[str], others: list[str]) -> list[str]:
    """The words that only one of the two answers has.

    The words of a collection are left out: when they are sampled again depends on time.
    """
    found = []
    for pair in zip(answers, others, strict=True):
        one, other = (re.sub(r'(about: |"description":")[^"]*', r"\1", answer) for answer in pair)
        words = difflib.ndiff(re.split(r"[\s,]+", one), re.split(r"[\s,]+", other))
        found += [word for word in words if word[0] in "+-"]
    return found
