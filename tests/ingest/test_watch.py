"""Changes below a folder are told of."""

import asyncio

from mcp_server_qdrant.ingest.walk import sources
from mcp_server_qdrant.ingest.watch import changes


async def test_a_change_made_after_the_first_step_is_told_of(tmp_path):
    bursts = changes(sources([tmp_path]))
    change = asyncio.ensure_future(anext(bursts))
    await asyncio.sleep(0)
    (tmp_path / "a.md").write_text("new")

    async with asyncio.timeout(30):
        assert await change is None
    await bursts.aclose()
