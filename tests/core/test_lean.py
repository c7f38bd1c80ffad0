"""What is imported without what a server does not need of it is still all there."""

import json
import subprocess
import sys

import pytest

EAGER = "import qdrant_client\n"
LEAN = (
    "from mcp_server_qdrant.app.server import import_services\n"
    "import_services()\n"
    "heavy = {'fastembed', 'onnxruntime', 'tokenizers', 'huggingface_hub', 'pathspec'}\n"
    "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
)
SCHEMAS = (
    "from pydantic import BaseModel\n"
    "from qdrant_client.http.models import models\n"
    "kinds = [one for _, one in sorted(vars(models).items())\n"
    "         if isinstance(one, type) and issubclass(one, BaseModel) and one is not BaseModel]\n"
    "point = models.PointStruct(id=1, vector={'a': [1.0]}, payload={})\n"
    "nested = models.Filter(must=[models.Filter(should=[models.HasIdCondition(has_id=[1])])])\n"
    "told = [point.model_dump(), nested.model_dump(exclude_none=True)]\n"
    "told += [one.model_json_schema() for one in kinds]\n"
    "print(json.dumps(told, sort_keys=True, default=repr))\n"
)


def told(imports: str) -> list:
    code = f"import json, sys\n{imports}{SCHEMAS}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_every_model_is_the_same_however_it_was_imported():
    eager, lean = told(EAGER), told(LEAN)

    assert len(lean) > 200
    assert lean == eager


def test_the_package_can_be_imported_afterwards():
    code = f"import sys\n{LEAN}import fastembed\nassert fastembed.TextEmbedding"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("transport", "loaded"), [("stdio", False), ("streamable-http", True)])
def test_the_web_server_is_loaded_for_http_alone(transport, loaded):
    code = (
        "import sys\nfrom mcp_server_qdrant.app.start import import_server\n"
        f"server = import_server({transport!r})\n"
        "from mcp_server_qdrant.settings.environment import Settings\n"
        "server.make_server(Settings())\n"
        "assert 'rich' not in sys.modules\n"
        "print('uvicorn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == str(loaded)
