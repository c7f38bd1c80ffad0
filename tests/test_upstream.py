"""Parts of other packages that they promise nobody: each has a test that fails once they change.

Besides those below: fastembed's sessions (test_fastembed.py and test_rerank_fastembed.py of
encoders/: the threads that stop spinning), the frames of multiprocessing (hosting/test_wire.py),
numpy's booleans as Qdrant Edge knows them (qdrant/edge/test_types.py), the files of
qdrant-client's local mode (qdrant/local/test_files.py), what pydantic-settings read from a file
(settings/test_sources.py), and the models of arguments that the MCP SDK makes of tools
(tools/test_schema.py).
"""

import ast
import inspect
import re
import subprocess
import sys

from mcp.server import MCPServer
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from tests.test_architecture import FILES

# What a file uses -> the test here that sees it change.
USED = {}
STANDARD = {"_env_file", "_exit", "_replace"}  # documented all the same
DOTTED = re.compile(r"[a-z]\w*(\.\w+)*\._\w+")


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names() -> set[str]:
    """Every private name that the package itself defines."""
    found = set()
    for text in FILES.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
    return found


def private_names(text: str) -> set[str]:
    """The names in a file that look like somebody's own affair."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.keyword):
            found.add(node.arg or "")
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
            found |= {node.module or ""} if DOTTED.fullmatch(node.module or "") else set()
        elif isinstance(node, ast.Constant) and DOTTED.fullmatch(str(node.value)):
            found.add(node.value)
    return {name for name in found if private(name) or DOTTED.fullmatch(name)}


def told(code: str) -> str:
    """What Python code prints, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_every_private_part_of_another_package_has_its_test():
    own = own_names() | STANDARD
    used = {(path, name) for path, text in FILES.items() for name in private_names(text) - own}

    assert used == set(USED)
    assert set(USED.values()) <= set(globals())


def test_a_private_part_is_seen():
    text = "from a import _b\nimport c\nc.x._d(_e=1)\nwithout('f._g')\nfrom h._i import j"

    assert private_names(text) == {"_b", "_d", "_e", "f._g", "h._i"}


def test_what_is_left_out_would_be_loaded_otherwise():
    """Where a library no longer loads it, `lean` need not hide it any more."""
    loaded = "print(bool(sys.modules.get('fastembed')))"
    plain = f"import sys, qdrant_client\n{loaded}"
    lean = (
        "import sys\nfrom mcp_server_qdrant.app.server import import_services\n"
        f"import_services()\n{loaded}"
    )

    assert (told(plain), told(lean)) == ("True\n", "False\n")


def test_the_sdk_reads_its_input_line_by_line():
    """All that it does with the lines which stand in for its own."""
    source = inspect.getsource(stdio_server)

    assert "async for line in stdin:" in source
    assert "stdin." not in source.replace("sys.stdin.", "")


def test_the_sdk_hands_out_the_server_that_it_wraps():
    mcp = MCPServer("x")
    mcp.streamable_http_app()

    assert isinstance(mcp.session_manager.app, Server)
    assert mcp.session_manager.app.name == "x"
