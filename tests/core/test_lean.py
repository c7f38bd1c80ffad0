"""What is imported without what a server does not need of it is still all there."""

import os
import sys

from tests import forked

LEAN = (
    "from mcp_server_qdrant.app.opening import import_services\n"
    "import_services()\n"
    "heavy = {'fastembed', 'onnxruntime', 'tokenizers', 'huggingface_hub'}\n"
    "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
)


def test_the_package_can_be_imported_afterwards():
    code = f"import sys\n{LEAN}import fastembed\nassert fastembed.TextEmbedding"
    done = forked.run([sys.executable, "-c", code], env=os.environ, timeout=120)

    assert (done.returncode, done.stderr) == (0, "")
