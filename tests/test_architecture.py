"""Who may import whom, how long things may be, where an except may be broad (DESIGN section 4)."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

PACKAGE = "mcp_server_qdrant"
SOURCE = Path(__file__).parent.parent / "src" / PACKAGE
MAX_LINES, MAX_FUNCTION = 400, 60

PLAIN = {
    "access",
    "datatypes",
    "deadline",
    "errors",
    "lean",
    "notation",
    "ownership",
    "tasks",
    "telemetry",
}
# in several files: services_models.py
PARTED = (
    "cli",
    "datatypes",
    "evaluate",
    "http",
    "projection",
    "server",
    "services",
    "settings",
    "upkeep",
)
MAY_IMPORT = {
    "access": set[str](),
    "auth": PLAIN | {"auth"},
    "datatypes": {"datatypes"},
    "deadline": set[str](),
    "errors": set[str](),
    "lean": set[str](),
    "logs": {"telemetry"},
    "notation": {"datatypes"},
    "ownership": set[str](),
    "settings": PLAIN | {"settings"},
    "tasks": {"errors"},
    "hosting": PLAIN | {"hosting"},
    "encoders": PLAIN | {"encoders", "hosting"},
    "search": PLAIN | {"search"},
    "ingest": PLAIN | {"ingest"},
    "qdrant": PLAIN | {"qdrant", "hosting"},
    "model_host": PLAIN | {"hosting", "encoders", "ingest"},
    "projection": PLAIN | {"projection"},
    "services": PLAIN
    | {"services", "settings", "encoders", "search", "ingest", "qdrant", "upkeep", "projection"},
    "telemetry": {"datatypes"},
    "upkeep": PLAIN | {"settings", "services", "encoders", "ingest", "qdrant", "upkeep"},
    "tools": PLAIN | {"tools"},
    "http": PLAIN | {"http", "settings", "auth"},
    "server": PLAIN | {"settings", "services", "tools", "http", "server"},
    "evaluate": PLAIN | {"evaluate"},
    "cli": PLAIN
    | {"settings", "server", "services", "evaluate", "ingest", "logs", "upkeep", "auth", "cli"},
    "__main__": {"cli"},
    "__init__": set[str](),
}
OWNERS = {  # third party -> the files that may import it
    "mcp": (
        "tools.py",
        "tool_*.py",
        "resources.py",
        "server*.py",
        "http.py",
        "http_*.py",
    ),
    "PIL": ("projection_image.py",),
    "qdrant_client": ("qdrant/*", "services.py", "upkeep.py"),
    "qdrant_edge": ("qdrant/*", "encoders/bm25.py"),
    "grpc": ("qdrant/*",),
    "fastembed": ("encoders/*",),
    "onnxruntime": ("encoders/*",),
    "tokenizers": ("encoders/*", "ingest/chunk.py"),  # counts a chunk's tokens
    "httpx": ("encoders/*", "auth/jwks.py"),
    "jwt": ("auth/oauth.py",),
    "pydantic_settings": ("settings.py", "settings_*.py"),
    "opentelemetry": ("http_tracing.py",),
    "prometheus_client": ("http_metrics.py",),
    "ranx": ("evaluate_metrics.py",),
    "pathspec": ("ingest/patterns.py",),
    "pypdf": ("ingest/load_pdf.py",),
    "watchfiles": ("ingest/watch.py",),
    "uvicorn": ("http.py", "http_drain.py"),
    "yaml": ("ingest/load_markdown.py", "auth/tokens.py"),
}
NOT_STAGES = {  # passage and lift help stages, the others know the words for spelling
    *("__init__", "pipeline", "passage", "lift"),
    *("vocabulary", "lexicon", "word_cache"),
}
BROAD = {
    ("tool_boundary.py", "call"): "the tool boundary: whatever happens, the client gets a sentence",
    ("encoders/fastembed.py", "_load"): "tokenizers and onnxruntime raise bare Exceptions",
    ("encoders/fastembed.py", "_guarded"): "and so they do when a text is encoded",
    ("encoders/rerank_fastembed.py", "_load"): "the same libraries",
    ("encoders/rerank_fastembed.py", "_scores"): "the same libraries",
    ("errors.py", "contained"): "a file's fault is that file's, a background task's ends nothing",
    ("qdrant/edge_shards.py", "guarded"): "the engine's panics derive from BaseException",
}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
FILES = {
    file.relative_to(SOURCE).as_posix(): file.read_text(encoding="utf-8")
    for file in sorted(SOURCE.rglob("*.py"))
}
HEAVY = (
    "qdrant_client",
    "qdrant_edge",
    "fastembed",
    "onnxruntime",
    "tokenizers",
    "grpc",
    "numpy",
    "PIL",
    "jwt",
    "prometheus_client",
)


def part(path: str) -> str:
    """The part of the design that a file belongs to."""
    first = path.split("/", maxsplit=1)[0].removesuffix(".py")
    wholes = {"tool": "tools"} | {name: name for name in PARTED}
    for prefix, whole in wholes.items():
        if first.startswith(f"{prefix}_"):
            return whole
    return "server" if first == "resources" else first


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ("." * node.level + f"{node.module}.{alias.name}" for alias in node.names)


def module_file(root: Path, dotted: str) -> str:
    """The file behind `mcp_server_qdrant.a.b.Name`, relative to the package."""
    here = root
    for name in dotted.split(".")[1:]:
        if (here / f"{name}.py").exists():
            return (here / f"{name}.py").relative_to(root).as_posix()
        if not (here / name).is_dir():
            break
        here /= name
    return (here / "__init__.py").relative_to(root).as_posix()


def is_stage(path: str) -> bool:
    return path.startswith("search/") and Path(path).stem not in NOT_STAGES


def import_faults(root: Path, path: str, tree: ast.AST) -> Iterator[str]:
    for name in imported(tree):
        third = name.split(".")[0]
        owners = OWNERS.get(third)
        if owners and not any(fnmatchcase(path, owner) for owner in owners):
            yield f"imports {third}"
        if name.startswith("."):
            yield "relative import"
        if third != PACKAGE:
            continue
        target = module_file(root, name)
        if target == "__init__.py":
            if name != f"{PACKAGE}.__version__":
                yield "imports the package root"
        elif part(target) not in MAY_IMPORT[part(path)]:
            yield f"{part(path)} imports {part(target)}"
        if is_stage(target) and path not in ("search/pipeline.py", "services.py"):
            yield "imports a stage"


def environment_faults(path: str, tree: ast.AST) -> Iterator[str]:
    read = {"os.environ", "os.getenv", "os.environb"}
    reads = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    if path != "settings.py" and read & (reads | set(imported(tree))):
        yield "reads the environment"


def broad(node: ast.AST) -> bool:
    """Whether this catches everything."""
    if isinstance(node, ast.ExceptHandler):
        caught = ast.unparse(node.type) if node.type else "Exception"
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
        caught = ",".join(map(ast.unparse, node.args))
    else:
        return False
    return bool(
        {"Exception", "BaseException"} & set(caught.strip("()").replace(" ", "").split(","))
    )


def broad_places(node: ast.AST, function: str = "") -> Iterator[str]:
    """The name of the function around each thing that catches everything."""
    for child in ast.iter_child_nodes(node):
        if broad(child):
            yield function
        yield from broad_places(child, child.name if isinstance(child, FUNCTION) else function)


def shape_faults(path: str, text: str, tree: ast.AST) -> Iterator[str]:
    if len(text.splitlines()) > MAX_LINES:
        yield f"more than {MAX_LINES} lines"
    for node in ast.walk(tree):
        if isinstance(node, FUNCTION) and node.end_lineno - node.lineno >= MAX_FUNCTION:
            yield f"{node.name} is longer than {MAX_FUNCTION} lines"
    for function in broad_places(tree):
        if (path, function) not in BROAD:
            yield f"excepts everything in {function or 'the module'}"


def faults(path: str, text: str) -> list[str]:
    """What breaks the rules in one file of the package, whose path is relative to it."""
    tree = ast.parse(text)
    return [
        *import_faults(SOURCE, path, tree),
        *environment_faults(path, tree),
        *shape_faults(path, text, tree),
    ]


@pytest.mark.parametrize("path", FILES)
def test_a_file_keeps_the_rules(path: str):
    assert faults(path, FILES[path]) == []


def test_every_part_of_the_package_has_its_rule():
    assert set(map(part, FILES)) == set(MAY_IMPORT)


def test_every_broad_except_that_is_allowed_exists():
    places = {(p, name) for p, text in FILES.items() for name in broad_places(ast.parse(text))}

    assert places == set(BROAD)


PLANTS = [
    ("datatypes.py", "import mcp_server_qdrant.settings", "datatypes imports settings"),
    ("errors.py", "from mcp_server_qdrant.datatypes import Hit", "errors imports datatypes"),
    ("search/new.py", "from mcp_server_qdrant.qdrant import client", "search imports qdrant"),
    ("search/new.py", "from mcp_server_qdrant.search.terms import Terms", "imports a stage"),
    ("search/new.py", "from mcp_server_qdrant.settings import Settings", "search imports settings"),
    ("ingest/new.py", "from mcp_server_qdrant.encoders import text", "ingest imports encoders"),
    ("encoders/new.py", "import mcp_server_qdrant.search.passage", "encoders imports search"),
    ("tools.py", "from mcp_server_qdrant.search.pipeline import Pipeline", "tools imports search"),
    ("tools.py", "from mcp_server_qdrant import __doc__", "imports the package root"),
    ("tool_new.py", "import mcp_server_qdrant.server", "tools imports server"),
    ("server.py", "from mcp_server_qdrant.cli import main", "server imports cli"),
    ("services.py", "from mcp_server_qdrant.tools import Tools", "services imports tools"),
    ("services.py", "from . import tools", "relative import"),
    ("cli.py", "import mcp.types", "imports mcp"),
    ("search/new.py", "def f():\n    from qdrant_client import models", "imports qdrant_client"),
    ("services.py", "import grpc", "imports grpc"),
    ("encoders/text.py", "from qdrant_edge import Bm25", "imports qdrant_edge"),
    ("ingest/store.py", "import tokenizers", "imports tokenizers"),
    ("auth/new.py", "from mcp_server_qdrant.settings import Settings", "auth imports settings"),
    ("http_auth.py", "import jwt", "imports jwt"),
    ("qdrant/new.py", "import httpx", "imports httpx"),
    ("http.py", "from pydantic_settings import BaseSettings", "imports pydantic_settings"),
    ("http.py", "import os\nPORT = os.environ['PORT']", "reads the environment"),
    ("http.py", "from os import getenv", "reads the environment"),
    ("http.py", "\n" * MAX_LINES, f"more than {MAX_LINES} lines"),
    ("http.py", "def f():" + "\n    x = 1" * 60, f"f is longer than {MAX_FUNCTION} lines"),
    ("http.py", "def f():\n  try: x\n  except (OSError, Exception): y", "excepts everything in f"),
    ("http.py", "async def f():\n  try: x\n  except: y", "excepts everything in f"),
    ("http.py", "def f():\n  with suppress(Exception): x", "excepts everything in f"),
    ("http.py", "try: x\nexcept BaseException: y", "excepts everything in the module"),
]


@pytest.mark.parametrize(("path", "code", "fault"), PLANTS)
def test_a_planted_fault_is_seen(path: str, code: str, fault: str):
    text = FILES.get(path, "")

    assert faults(path, f"{text}\n{code}\n") == [*faults(path, text), fault]


def test_importing_the_server_loads_neither_engine_nor_model():
    code = f"import {PACKAGE}.server, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}

    assert "mcp" in loaded
    assert loaded.isdisjoint(HEAVY)
