"""Who may import whom, how long things may be, where an except may be broad (ARCHITECTURE.md)."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath

PACKAGE = "mcp_server_qdrant"
ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / PACKAGE

Layers = Sequence[Mapping[str, tuple[str, ...]]]

# The layers, lowest first: each room with the rooms of lower layers that it may import. What lives
# in a room is the first line of its __init__.py. ARCHITECTURE.md shows this table.
BEHIND = ("core", "qdrant", "encoders")
PARTS = ("qdrant", "encoders", "search", "ingest", "projection")
LAYERS: Layers = (
    {"core": ()},
    {"settings": ("core",), "hosting": ("core",)},
    {"qdrant": ("core", "hosting"), "encoders": ("core", "hosting")},
    {"search": ("core",), **dict.fromkeys(("ingest", "projection"), BEHIND)},
    {"tools": ("core", "qdrant", "search", "ingest", "projection"), "http/auth": ("core",)},
    {"http/page": ("core", "tools")},
    {"http": ("core", "settings", "http/auth", "http/page")},
    {"app": ("core", "settings", "hosting", *PARTS, "tools", "http", "http/page")},
    {"evaluation": ("core", "qdrant", "app")},
    {"cli": ("core", "settings", "ingest", "evaluation", "http/auth", "app")},
)
ROOMS = {room: lower for layer in LAYERS for room, lower in layer.items()}
TOP = {"__main__.py": ("cli",), "__init__.py": ()}

# Files that may import less than their room: other rooms, and files of their own by path.
NARROWER: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("core/context.py", "core/errors.py", "core/lean.py"), ()),
    **dict.fromkeys(("core/models.py", "core/ownership.py"), ()),
    **dict.fromkeys(("core/access.py", "core/deadline.py"), ("core/context.py",)),
    "core/datatypes.py": ("core/models.py",),
    "core/logs.py": ("core/telemetry.py",),
    "core/fields.py": ("core/notation.py",),
    "core/find.py": ("core/datatypes.py", "core/fields.py"),
    "core/maps.py": ("core/datatypes.py", "core/find.py"),
    "core/notation.py": ("core/datatypes.py",),
    **dict.fromkeys(("core/gather.py", "core/tasks.py"), ("core/errors.py",)),
    "core/telemetry.py": ("core/context.py", "core/datatypes.py"),
    "core/writes.py": ("core/datatypes.py", "core/models.py"),
    # Only to name the classes that they are given: no room is imported at run time.
    "tools/services.py": ("core/datatypes.py", "qdrant", "search", "ingest", "projection"),
    "tools/delete.py": ("core", "tools", "ingest/delete.py"),
    "tools/history.py": ("core", "tools", "qdrant/history.py"),
    "tools/*": ("core", "tools"),
    "app/model_host.py": ("core", "hosting", "encoders", "ingest/chunk.py"),
    "app/upkeep.py": ("core", "settings", "encoders", "ingest", "qdrant", "app"),
    "app/ask.py": ("hosting",),
    "app/recall.py": ("core", "hosting", "tools", "app"),
    "app/start.py": ("core", "settings", "encoders/providers.py", "app"),
    **dict.fromkeys(
        ("app/server.py", "app/stdio.py", "app/http.py"),
        ("core", "settings", "tools", "http", "http/page", "app"),
    ),
    "app/*": ("core", "settings", *PARTS, "app"),
}
# Files that only these may import. Steps meet in the table of ranking.py alone.
SHARED_BY_SEARCH = (
    *("algorithm", "engine", "lift", "query", "quotes", "texts"),
    *("words/cache", "words/lexicon", "words/probes", "words/vocabulary"),
)
LOOKING = ("search/pipeline.py", "search/understand.py", "search/elsewhere.py")
ONLY_BY = {
    "core/logs.py": ("cli/*",),
    "search/pipeline.py": ("app/*", "tools/services.py"),
    **dict.fromkeys((f"search/{name}.py" for name in SHARED_BY_SEARCH), ("search/*", "app/*")),
    "search/steps/tags.py": ("search/ranking.py", "search/words/tags.py"),
    "search/steps/group.py": ("search/ranking.py", "search/steps/retire.py"),
    "search/steps/retire.py": ("search/ranking.py", "search/successors.py"),
    "search/ranking.py": (*LOOKING, "search/retrieve.py"),
    "search/successors.py": ("search/retrieve.py",),
    "search/worth.py": ("search/present.py",),
    "search/steps/calibrate.py": ("search/ranking.py", "search/explain.py"),
    "search/steps/*": ("search/ranking.py",),
    "search/doubt.py": ("search/present.py", "search/elsewhere.py", "app/check.py"),
    "search/explain.py": ("search/present.py",),
    "search/payloads.py": (
        *("search/pipeline.py", "search/listing.py"),
        *("search/retrieve.py", "search/successors.py"),
    ),
    "search/rerank.py": ("search/pipeline.py", "app/models.py"),
    "search/*": (*LOOKING, "app/services.py"),
}
OWNERS = {  # third party -> the files that may import it
    "mcp": ("tools/*", "http/*", "app/server.py", "app/stdio.py", "app/http.py"),
    "PIL": ("projection/image.py",),
    "openTSNE": ("projection/regions.py",),
    "click": ("cli/*",),
    "qdrant_client": ("qdrant/*", "app/services.py", "app/upkeep.py", "core/lean.py"),
    "qdrant_edge": ("qdrant/edge/*", "encoders/bm25.py"),
    "fastembed": ("encoders/local/*",),
    "fasttext": ("encoders/language.py",),
    "onnxruntime": ("encoders/local/*",),
    "tokenizers": ("encoders/local/*", "ingest/chunk.py"),  # counts a chunk's tokens
    "httpx": (
        *(
            "core/bounded.py",
            "encoders/remote/*",
            "http/auth/jwks.py",
            "qdrant/upkeep/snapshots.py",
        ),
        "qdrant/server/*",
    ),
    "httptools": ("qdrant/server/connections.py",),
    "jwt": ("http/auth/oauth.py",),
    "orjson": ("qdrant/server/rest.py",),
    "pydantic_settings": ("settings/*",),
    "platformdirs": ("settings/*", "cli/clients.py"),
    "opentelemetry": ("http/tracing.py",),
    "prometheus_client": ("http/metrics.py",),
    "ranx": ("evaluation/metrics.py",),
    "pathspec": ("ingest/files/patterns.py",),
    **dict.fromkeys(("bs4", "markdownify"), ("ingest/formats/html.py",)),
    "charset_normalizer": ("ingest/formats/base.py",),
    "lxml": tuple(f"ingest/formats/{name}.py" for name in ("base", "docx", "epub")),
    "mammoth": ("ingest/formats/docx.py",),
    "pptx": ("ingest/formats/pptx.py",),
    "pypdfium2": ("ingest/formats/pdf.py",),
    "python_calamine": ("ingest/formats/sheets.py",),
    "striprtf": ("ingest/formats/rtf.py",),
    "semantic_text_splitter": ("ingest/chunk.py",),
    "starlette": ("http/*",),
    "watchfiles": ("ingest/files/watch.py",),
    "uvicorn": ("http/serving.py", "http/drain.py"),
    "yaml": ("ingest/formats/markdown.py", "http/auth/token*.py"),
}
BROAD = {
    ("tools/boundary.py", "call"): "whatever happens, the client gets a sentence",
    ("encoders/local/model.py", "_load"): "tokenizers and onnxruntime raise bare Exceptions",
    ("encoders/local/model.py", "running"): "and so they do when a text is read",
    ("core/errors.py", "contained"): "a file's fault is that file's, a task's ends nothing",
    ("qdrant/edge/shards.py", "guarded"): "the engine's panics derive from BaseException",
}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
FILES = {
    file.relative_to(SOURCE).as_posix(): file.read_text(encoding="utf-8")
    for file in sorted(SOURCE.rglob("*.py"))
}
HEAVY = (
    *("qdrant_client", "qdrant_edge", "fastembed", "onnxruntime", "tokenizers", "grpc"),
    *("numpy", "PIL", "jwt", "prometheus_client"),
)
NAMED = re.compile(rf"\b{PACKAGE}((?:\.[A-Za-z_]\w*)+)")

parsed = cache(ast.parse)


def room_of(path: str) -> str:
    """The room that a file lies in: the deepest of the table."""
    folders = (str(one) for one in PurePosixPath(path).parents)
    return next((one for one in folders if one in ROOMS), path.split("/", maxsplit=1)[0])


@cache
def file_of(dotted: str) -> str:
    """The file behind `mcp_server_qdrant.a.b.Name`; of a folder its __init__.py."""
    parts = dotted.split(".")[1:]
    while parts and f"{'/'.join(parts)}.py" not in FILES:
        if "/".join([*parts, "__init__.py"]) in FILES:
            break
        parts.pop()
    path = "/".join(parts)
    return f"{path}.py" if f"{path}.py" in FILES else f"{path}/__init__.py".lstrip("/")


@cache
def imports(text: str) -> tuple[tuple[int, str], ...]:
    """Line and dotted name of everything imported: lazily, for types, or by its name too."""
    found = []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found += [
                (node.lineno, one.value)
                for one in node.args
                if isinstance(one, ast.Constant) and not str(one.value).startswith(PACKAGE)
            ]
    return tuple(found)


@cache
def names(text: str) -> tuple[tuple[int, str], ...]:
    """Line and dotted name of every module of ours that stands in a string, docstrings apart."""
    tree = parsed(text)
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return tuple(
        (node.lineno, match[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
        for match in NAMED.finditer(node.value)
        if match[1].split(".")[1] in {room.split("/")[0] for room in ROOMS}
    )


@cache
def uses(path: str, text: str) -> tuple[tuple[int, str], ...]:
    """Line and file of everything of ours that a file imports or names."""
    ours = [one for one in imports(text) if one[1].split(".")[0] == PACKAGE]
    found = ((line, file_of(dotted)) for line, dotted in (*ours, *names(text)))
    return tuple((line, target) for line, target in found if target != path)


def import_faults(path: str, text: str) -> Iterator[tuple[int, str]]:
    for line, dotted in imports(text):
        third = dotted.split(".")[0]
        if third in OWNERS and not any(fnmatchcase(path, one) for one in OWNERS[third]):
            yield line, f"imports {third}"
        if dotted.startswith("."):
            yield line, "relative import"
        ours = dotted.startswith(PACKAGE) and dotted != f"{PACKAGE}.__version__"
        if ours and file_of(dotted).endswith("__init__.py"):
            yield line, f"imports {dotted}, which is no module"
    for line, dotted in names(text):
        if file_of(dotted).endswith("__init__.py"):
            yield line, f"names {dotted}, which is no module"
    for line, target in uses(path, text):
        if not target.endswith("__init__.py"):
            yield from ((line, fault) for fault in _direction_faults(path, target))


def _direction_faults(path: str, target: str) -> Iterator[str]:
    room, other = room_of(path), room_of(target)
    narrower = (may for one, may in (TOP | NARROWER).items() if fnmatchcase(path, one))
    if not {other, target} & {*next(narrower, (*ROOMS.get(room, ()), room))}:
        yield f"{room} imports {other}" if room != other else f"{path} imports {target}"
        return
    users = next((users for one, users in ONLY_BY.items() if fnmatchcase(target, one)), ("*",))
    if not any(fnmatchcase(path, one) for one in users):
        yield f"imports {target}, which is for {' and '.join(users)}"


def environment_faults(path: str, text: str) -> Iterator[tuple[int, str]]:
    read = {"os.environ", "os.getenv", "os.environb"}
    used = [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.Attribute)
    ]
    for line, name in (*used, *imports(text)):
        if name in read and path != "settings/environment.py":
            yield line, "reads the environment"


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


def broad_places(node: ast.AST, function: str = "") -> Iterator[tuple[int, str]]:
    """Line, and name of the function around it, of each thing that catches everything."""
    for child in ast.iter_child_nodes(node):
        if broad(child):
            yield child.lineno, function
        yield from broad_places(child, child.name if isinstance(child, FUNCTION) else function)


def shape_faults(path: str, text: str) -> Iterator[tuple[int, str]]:
    for line, function in broad_places(parsed(text)):
        if (path, function) not in BROAD:
            yield line, f"excepts everything in {function or 'the module'}"


def layout_faults(path: str, text: str) -> Iterator[tuple[int, str]]:
    *folders, stem = path.removesuffix(".py").split("/")
    if not folders:
        return
    if stem in folders or stem.startswith(
        tuple(f"{one}_" for folder in folders for one in (folder, folder.removesuffix("s")))
    ):
        yield 1, "says its folder again"
    if stem == "__init__":
        body = parsed(text).body
        if len(body) != 1 or not (ast.get_docstring(parsed(text)) or "").strip():
            yield 1, "holds something else than what lives in its folder"


RULES = (import_faults, environment_faults, shape_faults, layout_faults)


def faults(path: str, text: str) -> list[str]:
    """What breaks the rules in one file of the package: file, line, fault."""
    found = {one for rule in RULES for one in rule(path, text)}
    return [f"{path}:{line}: {fault}" for line, fault in sorted(found)]


def table_faults(layers: Layers, paths: set[str]) -> list[str]:
    """Rooms without a place, places without a room, and imports that do not lead down."""
    below: set[str] = set()
    found = []
    for layer in layers:
        for room, lower in layer.items():
            found += [
                f"{room} imports {one} of no lower layer" for one in lower if one not in below
            ]
        below |= layer.keys()
    found += [f"{room} has no folder" for room in below if f"{room}/__init__.py" not in paths]
    tops = {path.split("/")[0] for path in paths if "/" in path}
    return found + [f"{top} is in no layer" for top in sorted(tops - below)]


def circles(graph: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What closes a circle in a graph (node -> node -> where)."""
    found = []
    for start in graph:
        reached, waiting = set[str](), [*graph[start]]
        while waiting:
            if (node := waiting.pop()) not in reached:
                reached.add(node)
                waiting += graph.get(node, ())
        found += [
            f"{graph[node][start]}: {node} uses {start}, which leads back to it"
            for node in sorted(reached)
            if start in graph.get(node, ())
        ]
    return found


def graphs(files: Mapping[str, str]) -> dict[str, dict[str, dict[str, str]]]:
    """Who uses whom, and where: of all files, and in each folder of its files and folders."""
    found: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for path, text in files.items():
        for line, target in uses(path, text):
            if target.endswith("__init__.py"):
                continue
            place, ways, others = f"{path}:{line}", path.split("/"), target.split("/")
            found["files"][path].setdefault(target, place)
            while ways[0] == others[0]:
                ways, others = ways[1:], others[1:]
            folder = path.removesuffix("/".join(ways))
            found[f"folder {folder}"][ways[0]].setdefault(others[0], place)
    return found


def circles_of(files: Mapping[str, str]) -> list[str]:
    return [one for graph in graphs(files).values() for one in circles(graph)]


def meaning(room: str) -> str:
    """The first line of what a room says of itself."""
    told = ast.get_docstring(parsed(FILES[f"{room}/__init__.py"])) or ""
    return told.splitlines()[0]


def table() -> str:
    """The layers as ARCHITECTURE.md shows them, highest first."""
    rows = [
        f"| {number} | `{room}/` | {meaning(room)} | {', '.join(lower) or 'nothing'} |"
        for number, layer in reversed([*enumerate(LAYERS, 1)])
        for room, lower in layer.items()
    ]
    return "\n".join(["| layer | room | what lives there | imports |", "|---|---|---|---|", *rows])


def test_every_file_keeps_the_rules():
    assert [fault for path, text in FILES.items() for fault in faults(path, text)] == []


def test_every_room_has_its_layer_and_imports_only_lower_ones():
    assert table_faults(LAYERS, {*FILES}) == []


def test_there_is_no_circle_of_files_nor_of_folders():
    assert circles_of(FILES) == []


def test_architecture_md_shows_the_layers():
    assert table() in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), f"\n{table()}\n"


def test_what_pyproject_starts_is_there():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]

    assert set(scripts.values()) == {f"{PACKAGE}.__main__:main"}
    assert any(
        isinstance(n, FUNCTION) and n.name == "main" for n in parsed(FILES["__main__.py"]).body
    )


def test_every_exception_to_a_rule_is_used():
    places = {(path, name) for path in FILES for _, name in broad_places(parsed(FILES[path]))}
    patterns = [*NARROWER, *ONLY_BY, *(one for owned in OWNERS.values() for one in owned)]

    assert places == set(BROAD)
    assert [one for one in patterns if not any(fnmatchcase(path, one) for path in FILES)] == []


SETTINGS = f"from {PACKAGE}.settings.environment import Settings"
PLANTS = [  # file, its text, what is told of it
    ("core/new.py", f"import {PACKAGE}.settings.http", "1: core imports settings"),
    (
        "core/errors.py",
        f"import {PACKAGE}.core.datatypes",
        "1: core/errors.py imports core/datatypes.py",
    ),
    ("search/new.py", f"from {PACKAGE}.qdrant import client", "1: search imports qdrant"),
    ("search/new.py", f"\n\n{SETTINGS}", "3: search imports settings"),
    ("search/new.py", f"def f():\n    {SETTINGS}", "2: search imports settings"),
    ("search/new.py", f"if TYPE_CHECKING:\n    {SETTINGS}", "2: search imports settings"),
    ("search/new.py", f"import_module('{PACKAGE}.app.server')", "1: search imports app"),
    ("qdrant/new.py", f"run(['-m', '{PACKAGE}.app.model_host'])", "1: qdrant imports app"),
    ("qdrant/new.py", f"CODE = 'import {PACKAGE}.cli.main; x()'", "1: qdrant imports cli"),
    (
        "app/new.py",
        f"run(['-m', '{PACKAGE}.app.no_host'])",
        f"1: names {PACKAGE}.app.no_host, which is no module",
    ),
    (
        "search/new.py",
        f"from {PACKAGE}.search.words.terms import Terms",
        "1: imports search/words/terms.py, which is for "
        "search/pipeline.py and search/understand.py and search/elsewhere.py and app/services.py",
    ),
    (
        "search/steps/new.py",
        f"from {PACKAGE}.search.steps import boost",
        "1: imports search/steps/boost.py, which is for search/ranking.py",
    ),
    ("http/new.py", f"import {PACKAGE}.core.logs", "1: imports core/logs.py, which is for cli/*"),
    ("ingest/new.py", f"from {PACKAGE}.search import quotes", "1: ingest imports search"),
    ("encoders/new.py", f"import {PACKAGE}.search.quotes", "1: encoders imports search"),
    ("tools/new.py", f"from {PACKAGE}.search.pipeline import P", "1: tools imports search"),
    ("tools/new.py", f"import {PACKAGE}.app.server", "1: tools imports app"),
    (
        "tools/new.py",
        f"from {PACKAGE} import __doc__",
        f"1: imports {PACKAGE}.__doc__, which is no module",
    ),
    ("http/auth/new.py", SETTINGS, "1: http/auth imports settings"),
    ("http/new.py", f"from {PACKAGE}.tools import text", "1: http imports tools"),
    ("app/server.py", f"from {PACKAGE}.cli.main import main", "1: app imports cli"),
    ("app/services.py", f"from {PACKAGE}.tools import text", "1: app imports tools"),
    ("app/upkeep.py", f"from {PACKAGE}.search import pipeline", "1: app imports search"),
    ("app/server.py", f"from {PACKAGE}.qdrant import client", "1: app imports qdrant"),
    ("__main__.py", f"from {PACKAGE}.app import server", "1: __main__.py imports app"),
    ("app/services.py", "from . import tools", "1: relative import"),
    ("cli/main.py", "import mcp.types", "1: imports mcp"),
    ("search/new.py", "def f():\n    from qdrant_client import models", "2: imports qdrant_client"),
    ("app/new.py", "import_module('qdrant_client')", "1: imports qdrant_client"),
    ("encoders/text.py", "from qdrant_edge import Bm25", "1: imports qdrant_edge"),
    ("ingest/store.py", "import tokenizers", "1: imports tokenizers"),
    ("http/serving.py", "import os\nPORT = os.environ['PORT']", "2: reads the environment"),
    ("http/serving.py", "from os import getenv", "1: reads the environment"),
    (
        "http/a.py",
        "def f():\n  try: x\n  except (OSError, Exception): y",
        "3: excepts everything in f",
    ),
    ("http/a.py", "async def f():\n  try: x\n  except: y", "3: excepts everything in f"),
    ("http/a.py", "def f():\n  with suppress(Exception): x", "2: excepts everything in f"),
    ("http/a.py", "try: x\nexcept BaseException: y", "2: excepts everything in the module"),
    ("settings/settings_http.py", "x = 1", "1: says its folder again"),
    ("tools/tool_find.py", "x = 1", "1: says its folder again"),
    ("qdrant/edge/edge.py", "x = 1", "1: says its folder again"),
    ("tools/__init__.py", "x = 1", "1: holds something else than what lives in its folder"),
]
FINE = [  # the same in a docstring, a name that is none, one's own version
    ("search/new.py", f'"""As {PACKAGE}.app.server says."""'),
    ("search/new.py", f"CALLER = '{PACKAGE}.caller'"),
    ("app/new.py", f"from {PACKAGE} import __version__"),
]


def test_each_planted_fault_is_told_with_its_place():
    told = [(path, text, faults(path, text)) for path, text, _ in PLANTS]

    assert told == [(path, text, [f"{path}:{fault}"]) for path, text, fault in PLANTS]
    assert [faults(path, text) for path, text in FINE] == [[] for _ in FINE]


def test_a_planted_circle_is_told_with_its_place():
    plants = {  # at the top, lazily, by name, for types; of files, of folders
        "search/lift.py": f"import {PACKAGE}.search.steps.titles",
        "qdrant/payload.py": f"def f():\n    import {PACKAGE}.qdrant.edge.client",
        "qdrant/edge/wire.py": f"run(['-m', '{PACKAGE}.qdrant.edge.host'])",
        "core/errors.py": f"if TYPE_CHECKING:\n    {SETTINGS}",
        "http/guard.py": f"import {PACKAGE}.app.local_models",
    }

    for path, text in plants.items():
        line = len(text.splitlines())
        assert any(one.startswith(f"{path}:{line}: ") for one in circles_of(FILES | {path: text}))


def test_a_fault_of_the_table_is_told():
    paths = {"a/__init__.py", "b/__init__.py", "d/__init__.py"}
    layers = ({"a": ()}, {"b": ("a",), "c": ("b",)})

    assert table_faults(layers, paths) == [
        "c imports b of no lower layer",
        "c has no folder",
        "d is in no layer",
    ]


def test_importing_the_server_loads_neither_engine_nor_model():
    code = f"import {PACKAGE}.app.server, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}

    assert "mcp" in loaded
    assert loaded.isdisjoint(HEAVY)
