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

PLAIN = {"core"}
MAY_IMPORT = {
    "core": PLAIN,
    "http/auth": PLAIN | {"http/auth"},
    "settings": PLAIN | {"settings"},
    "hosting": PLAIN | {"hosting"},
    "encoders": PLAIN | {"encoders", "hosting"},
    "search": PLAIN | {"search"},
    "ingest": PLAIN | {"ingest"},
    "qdrant": PLAIN | {"qdrant", "hosting"},
    "projection": PLAIN | {"projection"},
    "evaluation": PLAIN | {"evaluation"},
    "tools": PLAIN | {"tools"},
    "http": PLAIN | {"http", "settings", "http/auth", "http/page"},
    "http/page": PLAIN | {"http/page", "tools"},
    "app": PLAIN
    | {"app", "settings", "hosting", "encoders", "search", "ingest", "qdrant", "projection"}
    | {"tools", "http", "http/page"},
    "cli": PLAIN | {"settings", "app", "evaluation", "ingest", "http/auth", "cli"},
    "__main__": {"cli"},
    "__init__": set[str](),
}
OWNERS = {  # third party -> the files that may import it
    "mcp": ("tools/*", "app/server.py", "app/http.py", "app/stdio.py", "http/*"),
    "PIL": ("projection/image.py",),
    "qdrant_client": ("qdrant/*", "app/services.py", "app/upkeep.py"),
    "qdrant_edge": ("qdrant/*", "encoders/bm25.py"),
    "grpc": ("qdrant/*",),
    "fastembed": ("encoders/*",),
    "onnxruntime": ("encoders/*",),
    "tokenizers": ("encoders/*", "ingest/chunk.py"),  # counts a chunk's tokens
    "httpx": ("encoders/*", "http/auth/jwks.py"),
    "jwt": ("http/auth/oauth.py",),
    "pydantic_settings": ("settings/*",),
    "opentelemetry": ("http/tracing.py",),
    "prometheus_client": ("http/metrics.py",),
    "ranx": ("evaluation/metrics.py",),
    "pathspec": ("ingest/files/patterns.py",),
    "pypdf": ("ingest/formats/pdf.py",),
    "watchfiles": ("ingest/files/watch.py",),
    "uvicorn": ("http/serving.py", "http/drain.py"),
    "yaml": ("ingest/formats/markdown.py", "http/auth/tokens.py"),
}
NOT_STAGES = {  # passage and lift help stages, the others know the words for spelling
    *("__init__", "pipeline", "passage", "lift"),
    *("vocabulary", "lexicon", "cache"),
}
BROAD = {
    (
        "tools/boundary.py",
        "call",
    ): "the tool boundary: whatever happens, the client gets a sentence",
    ("encoders/local/fastembed.py", "_load"): "tokenizers and onnxruntime raise bare Exceptions",
    ("encoders/local/fastembed.py", "_guarded"): "and so they do when a text is encoded",
    ("encoders/local/rerank.py", "_load"): "the same libraries",
    ("encoders/local/rerank.py", "_scores"): "the same libraries",
    (
        "core/errors.py",
        "contained",
    ): "a file's fault is that file's, a background task's ends nothing",
    ("qdrant/edge/shards.py", "guarded"): "the engine's panics derive from BaseException",
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
    for room in ("http/auth", "http/page"):
        if path.startswith(f"{room}/"):
            return room
    return path.split("/", maxsplit=1)[0].removesuffix(".py")


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
        if is_stage(target) and path not in ("search/pipeline.py", "app/services.py"):
            yield "imports a stage"


def environment_faults(path: str, tree: ast.AST) -> Iterator[str]:
    read = {"os.environ", "os.getenv", "os.environb"}
    reads = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    if path != "settings/environment.py" and read & (reads | set(imported(tree))):
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
    ("core/datatypes.py", "import mcp_server_qdrant.settings.http", "core imports settings"),
    ("core/errors.py", "from mcp_server_qdrant.tools.text import x", "core imports tools"),
    ("search/new.py", "from mcp_server_qdrant.qdrant import client", "search imports qdrant"),
    ("search/new.py", "from mcp_server_qdrant.search.words.terms import Terms", "imports a stage"),
    (
        "search/new.py",
        "from mcp_server_qdrant.settings.environment import Settings",
        "search imports settings",
    ),
    ("ingest/new.py", "from mcp_server_qdrant.encoders import text", "ingest imports encoders"),
    ("encoders/new.py", "import mcp_server_qdrant.search.passage", "encoders imports search"),
    (
        "tools/new.py",
        "from mcp_server_qdrant.search.pipeline import Pipeline",
        "tools imports search",
    ),
    ("tools/new.py", "from mcp_server_qdrant import __doc__", "imports the package root"),
    ("tools/new.py", "import mcp_server_qdrant.app.server", "tools imports app"),
    ("app/server.py", "from mcp_server_qdrant.cli.main import main", "app imports cli"),
    ("http/new.py", "from mcp_server_qdrant.tools.text import found", "http imports tools"),
    ("app/services.py", "from . import tools", "relative import"),
    ("cli/main.py", "import mcp.types", "imports mcp"),
    ("search/new.py", "def f():\n    from qdrant_client import models", "imports qdrant_client"),
    ("app/services.py", "import grpc", "imports grpc"),
    ("encoders/text.py", "from qdrant_edge import Bm25", "imports qdrant_edge"),
    ("ingest/store.py", "import tokenizers", "imports tokenizers"),
    (
        "http/auth/new.py",
        "from mcp_server_qdrant.settings.environment import Settings",
        "http/auth imports settings",
    ),
    ("http/auth/bearer.py", "import jwt", "imports jwt"),
    ("qdrant/new.py", "import httpx", "imports httpx"),
    ("http/serving.py", "from pydantic_settings import BaseSettings", "imports pydantic_settings"),
    ("http/serving.py", "import os\nPORT = os.environ['PORT']", "reads the environment"),
    ("http/serving.py", "from os import getenv", "reads the environment"),
    ("http/serving.py", "\n" * MAX_LINES, f"more than {MAX_LINES} lines"),
    ("http/serving.py", "def f():" + "\n    x = 1" * 60, f"f is longer than {MAX_FUNCTION} lines"),
    (
        "http/serving.py",
        "def f():\n  try: x\n  except (OSError, Exception): y",
        "excepts everything in f",
    ),
    ("http/serving.py", "async def f():\n  try: x\n  except: y", "excepts everything in f"),
    ("http/serving.py", "def f():\n  with suppress(Exception): x", "excepts everything in f"),
    ("http/serving.py", "try: x\nexcept BaseException: y", "excepts everything in the module"),
]


@pytest.mark.parametrize(("path", "code", "fault"), PLANTS)
def test_a_planted_fault_is_seen(path: str, code: str, fault: str):
    text = FILES.get(path, "")

    assert faults(path, f"{text}\n{code}\n") == [*faults(path, text), fault]


def test_importing_the_server_loads_neither_engine_nor_model():
    code = f"import {PACKAGE}.app.server, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}

    assert "mcp" in loaded
    assert loaded.isdisjoint(HEAVY)
