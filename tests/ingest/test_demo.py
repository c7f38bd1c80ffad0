"""The demo's collections: there at once, with the vectors that come with them."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import PointId
from mcp_server_qdrant.core.maps import MapRequest
from mcp_server_qdrant.ingest.demo import NAMES, demo_parts, demo_texts
from mcp_server_qdrant.settings.environment import Settings


@pytest.fixture
async def modelless(tmp_path: Path) -> AsyncIterator[Services]:
    """Services whose default model cannot be had."""
    (tmp_path / "empty").mkdir()
    settings = Settings(qdrant_url=":memory:", embedding_model_path=tmp_path / "empty")
    services = await open_lazily(settings)
    yield services
    await services.close()


async def points(services: Services, name: str) -> list:
    found, _ = await services.client.scroll(name, limit=1_000, with_vectors=True)
    return found


async def test_without_a_model_the_demo_has_its_vectors_at_once(modelless):
    for name in NAMES:
        assert await modelless.demo(name) == len(demo_texts(name)) > 10
        found = await points(modelless, name)

        assert len(found) == sum(len(spans) for spans, _ in demo_parts(name, demo_texts(name)))
        assert all(len(one.vector) == 2 for one in found)  # dense and bm25
        assert not [one for one in found if {"pending", "writing"} & one.payload["doc"].keys()]


async def test_a_map_drawn_before_the_marks_are_off_lacks_nothing(modelless, monkeypatch):
    settle, drawn = modelless.store.points.settle, list[int]()

    async def count() -> int:
        modelless.catalog.forget("homelab")
        view = await modelless.projector.view(MapRequest(("homelab",), patience=0.01))
        (panel,) = view.map.panels
        return panel.count

    async def late(collection: str, ids: Sequence[PointId]) -> None:
        drawn.append(await count())
        await settle(collection, ids)

    monkeypatch.setattr(modelless.store.points, "settle", late)
    await modelless.demo("homelab")

    whole = len(await points(modelless, "homelab"))
    assert drawn == [whole]


async def test_loaded_again_the_demo_leaves_what_was_changed(modelless):
    await modelless.demo("recipes")
    before = len(await points(modelless, "recipes"))
    await modelless.client.set_payload(
        "recipes", {"title": "Mine"}, [(await points(modelless, "recipes"))[0].id]
    )
    await modelless.demo("recipes")
    found = await points(modelless, "recipes")

    assert len(found) == before
    assert [one.payload["title"] for one in found].count("Mine") == 1
