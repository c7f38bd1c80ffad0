"""Parts of other packages that they promise nobody: each has a test that fails once they change.

Besides those below: fastembed's sessions (test_fastembed.py and test_rerank_fastembed.py of
encoders/: the threads that stop spinning), numpy's booleans as Qdrant Edge knows them
(qdrant/test_engine_parity.py), the files of qdrant-client's local mode (qdrant/test_local_mode.py),
and the models of arguments that the MCP SDK makes of tools (tools/test_boundary.py).
"""

import os
import subprocess
import sys

from mcp.server import MCPServer
from mcp.server.lowlevel import Server

from tests import forked


def printed(code: str) -> str:
    """What Python code prints, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_what_is_left_out_would_be_loaded_otherwise():
    """Where a library no longer loads it, `lean` need not hide it any more."""
    loaded = "print(bool(sys.modules.get('fastembed')))"
    plain = f"import sys, qdrant_client\n{loaded}"
    lean = f"import sys, qdrant_client\n{loaded}"  # after the services, which `forked` imports
    done = forked.run([sys.executable, "-c", lean], env=os.environ, timeout=120)

    assert (printed(plain), done.stdout) == ("True\n", "False\n")


def test_the_sdk_hands_out_the_server_that_it_wraps():
    mcp = MCPServer("x")
    mcp.streamable_http_app()

    assert isinstance(mcp.session_manager.app, Server)
    assert mcp.session_manager.app.name == "x"
