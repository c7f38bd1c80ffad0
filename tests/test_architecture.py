"""Layers, owners of third parties, and no circles (ARCHITECTURE.md)."""

import ast
import re
import subprocess
import sys
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
    {"qdrant": ("core",), "encoders": ("core",)},
    {"search": ("core", "qdrant"), **dict.fromkeys(("ingest", "projection"), BEHIND)},
    {"tools": ("core", "qdrant", "search", "ingest", "projection"), "http/auth": ("core",)},
    {"http/page": ("core", "tools")},
    {"http": ("core", "settings", "http/auth", "http/page")},
    {"app": ("core", "settings", "hosting", *PARTS, "tools", "http", "http/page")},
    {"evaluation": ("core", "app")},
    {"cli": ("core", "settings", "hosting", "ingest", "evaluation", "http/auth", "app")},
)
ROOMS = {room: lower for layer in LAYERS for room, lower in layer.items()}
TOP = {"__main__.py": ("cli", "hosting"), "__init__.py": ()}
OWNERS = {  # third party -> the files that may import it
    "mcp": ("tools/*", "http/*", "app/*"),
    "click": ("cli/*",),
    "fastembed": ("encoders/local/*",),
    "fasttext": ("encoders/*",),
    "httptools": ("qdrant/server/*",),
    "httpx": ("core/*", "encoders/remote/*", "http/auth/*", "qdrant/*"),
    "jwt": ("http/auth/*",),
    "onnxruntime": ("encoders/local/*",),
    "openTSNE": ("projection/*",),
    "stopwordsiso": ("encoders/*",),
    "orjson": ("qdrant/server/*",),
    "pathspec": ("ingest/files/patterns.py",),
    "platformdirs": ("settings/*", "cli/*", "hosting/reach.py"),
    "prometheus_client": ("http/*",),
    "pydantic_settings": ("settings/*",),
    "qdrant_client": ("qdrant/*", "app/*", "core/lean.py"),
    "qdrant_edge": ("qdrant/edge/*", "encoders/bm25.py"),
    "re2": ("ingest/files/patterns.py",),
    "semantic_text_splitter": ("encoders/chunk.py",),
    "starlette": ("http/*",),
    "tomlkit": ("cli/*",),
    "tokenizers": ("encoders/local/*", "encoders/chunk.py"),  # counts a chunk's tokens
    "uvicorn": ("http/*",),
    "watchfiles": ("ingest/*",),
    "yaml": ("ingest/formats/*", "http/auth/*"),
    **dict.fromkeys(
        (
            *("bs4", "charset_normalizer", "lxml", "mammoth", "markdownify"),
            *("pptx", "pypdfium2", "python_calamine", "striprtf"),
        ),
        ("ingest/formats/*",),
    ),
}
FILES = {
    file.relative_to(SOURCE).as_posix(): file.read_text(encoding="utf-8")
    for file in sorted(SOURCE.rglob("*.py"))
}
HEAVY = (
    *("qdrant_client", "qdrant_edge", "fastembed", "onnxruntime", "tokenizers", "grpc"),
    *("numpy", "jwt", "prometheus_client"),
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
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
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


def file_faults(path: str, text: str) -> Iterator[tuple[int, str]]:
    for line, dotted in imports(text):
        third = dotted.split(".")[0]
        if third in OWNERS and not any(fnmatchcase(path, one) for one in OWNERS[third]):
            yield line, f"imports {third}"
    for line, dotted in (*imports(text), *names(text)):
        ours = dotted.startswith(f"{PACKAGE}.") and dotted != f"{PACKAGE}.__version__"
        if ours and file_of(dotted).endswith("__init__.py"):
            yield line, f"imports {dotted}, which is no module"
    room = room_of(path)
    for line, target in uses(path, text):
        other = room_of(target)
        if not target.endswith("__init__.py") and other not in (
            TOP.get(path) or (*ROOMS[room], room)
        ):
            yield line, f"{room} imports {other}"


def faults(path: str, text: str) -> list[str]:
    """What breaks the rules in one file of the package: file, line, fault."""
    return [f"{path}:{line}: {fault}" for line, fault in sorted(set(file_faults(path, text)))]


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


SETTINGS = f"from {PACKAGE}.settings.environment import Settings"
PLANTS = [  # file, its text, what is told of it
    ("core/new.py", f"import {PACKAGE}.settings.http", "1: core imports settings"),
    ("search/new.py", f"def f():\n    {SETTINGS}", "2: search imports settings"),
    ("search/new.py", f"if TYPE_CHECKING:\n    {SETTINGS}", "2: search imports settings"),
    ("search/new.py", f"import_module('{PACKAGE}.app.server')", "1: search imports app"),
    ("qdrant/new.py", f"run(['-m', '{PACKAGE}.app.stdio'])", "1: qdrant imports app"),
    ("qdrant/new.py", f"CODE = 'import {PACKAGE}.cli.main; x()'", "1: qdrant imports cli"),
    (
        "app/new.py",
        f"run(['-m', '{PACKAGE}.app.no_host'])",
        f"1: imports {PACKAGE}.app.no_host, which is no module",
    ),
    ("ingest/new.py", f"from {PACKAGE}.search import present", "1: ingest imports search"),
    ("http/new.py", f"from {PACKAGE}.tools import find", "1: http imports tools"),
    ("__main__.py", f"from {PACKAGE}.app import server", "1: __main__.py imports app"),
    ("cli/main.py", "import mcp.types", "1: imports mcp"),
    ("search/new.py", "def f():\n    from qdrant_client import models", "2: imports qdrant_client"),
    ("search/new.py", "import_module('qdrant_client')", "1: imports qdrant_client"),
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
    plants = {  # lazily, by name, for types
        "qdrant/new.py": f"def f():\n    import {PACKAGE}.app.server",
        "hosting/new.py": f"run(['-m', '{PACKAGE}.app.server'])",
        "core/errors.py": f"if TYPE_CHECKING:\n    {SETTINGS}",
    }

    for path, text in plants.items():
        back = {"app/server.py": f"import {PACKAGE}.{path[:-3].replace('/', '.')}"}
        line = len(text.splitlines())
        file_of.cache_clear()
        found = circles_of(FILES | {path: text} | back)
        assert any(one.startswith(f"{path}:{line}: ") for one in found)


def test_a_fault_of_the_table_is_told():
    paths = {"a/__init__.py", "b/__init__.py", "d/__init__.py"}
    layers = ({"a": ()}, {"b": ("a",), "c": ("b",)})

    assert table_faults(layers, paths) == [
        "c imports b of no lower layer",
        "c has no folder",
        "d is in no layer",
    ]


def loaded_by(code: str) -> set[str]:
    """The packages that are loaded once this has run."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{code}; import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_the_server_loads_neither_engine_nor_model():
    loaded = loaded_by(f"import {PACKAGE}.app.server")

    assert "mcp" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_commands_open_the_services_without_mcp_and_the_web_server():
    loaded = loaded_by(f"from {PACKAGE}.app.opening import import_services; import_services()")

    assert "qdrant_client" in loaded
    assert loaded.isdisjoint({"mcp", "starlette", "uvicorn"})
