"""The table of embedding providers: a new one is its file, its row, its test and a line of docs."""

from pathlib import Path

import pytest

from mcp_server_qdrant.app.models import open_encoders
from mcp_server_qdrant.app.services import wire
from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.encoders.providers import PROVIDERS, Provider, check_provider
from tests.support import find, make_settings, memory_engine, remember, states, texts

ROOT = Path(__file__).parent.parent.parent
ACME = """
from mcp_server_qdrant.encoders.encoder import Encoder
from tests.support import dense


class AcmeEncoder(Encoder):
    def __init__(self, model, api_key):
        self.name, self.key = model, api_key

    async def encode_query(self, text):
        return tuple(dense(text))

    async def encode_documents(self, texts):
        return [dense(text) for text in texts]

    async def known_size(self):
        return 64
"""


def test_an_unknown_provider_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"^EMBEDDING_PROVIDER is 'acme'; .*auto, fastembed, "):
        check_provider("acme")
    with pytest.raises(ConfigError, match="EMBEDDING_PROVIDER is 'acme'"):
        open_encoders(make_settings(embedding_provider="acme"))


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_is_in_its_file_the_table_and_the_docs_alone(name):
    module, _, kind = PROVIDERS[name].encoder.partition(":")
    package = ROOT / "src" / "mcp_server_qdrant"
    naming = {
        str(file.relative_to(package).with_suffix("")).replace("/", ".")
        for file in package.rglob("*.py")
        if kind in file.read_text(encoding="utf-8")
    }

    assert naming == {module.removeprefix("mcp_server_qdrant."), "encoders.providers"}
    assert f"\n| `{name}` |" in (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ({"embedding_provider": "acme"}, "Bag"),
        ({"collection_models": "notes=acme:Bag"}, "acme:Bag"),
    ],
)
async def test_a_file_and_a_row_make_a_provider(tmp_path, monkeypatch, provider, model):
    """Settings, choice of the model, metadata, storing and searching need nothing else."""
    (tmp_path / "acme_provider.py").write_text(ACME)
    monkeypatch.syspath_prepend(tmp_path)
    row = Provider("acme_provider:AcmeEncoder", ("model", "api_key"))
    monkeypatch.setitem(PROVIDERS, "acme", row)
    settings = make_settings(
        **{"embedding_model": "Bag", "cache_dir": tmp_path, "qdrant_read_only": True} | provider
    )
    async with memory_engine() as engine:
        services = wire(settings, engine, open_encoders(settings))  # type: ignore[arg-type]
        try:
            await remember(services, "notes", "roses need sun", "moss likes shade")
            page = await find(services, "roses need sun", "notes", algorithm="semantic")
            (info,) = await services.catalog.describe()
            stored = (await engine.get_collection("notes")).config.metadata
        finally:
            await services.close()

    assert texts(page)[0] == "roses need sun"
    assert states(page) == {"notes": "ok"}
    assert info.model == model
    assert (stored["embedding_provider"], stored["embedding_model"]) == ("acme", "Bag")
