"""What is imported without what a server does not need of it is still all there."""

import json
import subprocess
import sys

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


def test_models_of_the_sdk_are_built_when_they_are_first_used():
    code = (
        "from mcp_server_qdrant.core.lean import import_mcp\nimport_mcp()\n"
        "from mcp.types import Root\nfrom pydantic import BaseModel\n"
        "assert not Root.__pydantic_complete__\n"
        "assert Root(uri='file:///a').model_dump(exclude_none=True)\n"
        "assert Root.__pydantic_complete__\n"
        "assert type('Own', (BaseModel,), {}).__pydantic_complete__\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_method_that_pydantic_has_changed_is_left_alone():
    code = (
        "from pydantic import BaseModel\n"
        "changed = staticmethod(BaseModel.model_rebuild)\nBaseModel.model_rebuild = changed\n"
        "from mcp_server_qdrant.core import lean\n"
        "with lean._unbuilt('qdrant_client.'):\n"
        "    assert BaseModel.__dict__['model_rebuild'] is changed\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
