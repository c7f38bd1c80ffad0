"""What is written exactly in a query is found exactly, in the demo's texts, with the real model.

Beside them stand texts that have the pieces of it scattered, and nothing else.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from mcp_server_qdrant.app.opening import open_lazily
from mcp_server_qdrant.app.services import Services
from mcp_server_qdrant.core.datatypes import NewDocument
from mcp_server_qdrant.encoders.bm25 import WORD
from mcp_server_qdrant.ingest.demo import store_demo
from mcp_server_qdrant.settings.environment import Settings
from tests.support import find

pytestmark = pytest.mark.asyncio(loop_scope="module")

COLLECTIONS = ("homelab", "recipes", "meetings")

QUERIES = {  # query -> the text that has it
    "0.18": "homelab/backup-restic",
    "02:40": "homelab/backup-restic",
    "restic-offsite.timer": "homelab/backup-restic",
    "/srv/photos": "homelab/backup-restic",
    "restore into /srv/restore-test": "homelab/backup-restic",
    "max_size": "homelab/reverse-proxy",
    "what happened on 2025-10-18": "homelab/ups",
    "nut-driver@eaton": "homelab/ups",
    "ZFS-8000-9P": "homelab/zfs-pool",
    "v5.18": "homelab/dns-pihole-old",
    "pihole-2026-01.tar.zst": "homelab/dns-pihole-old",
    "10.99.0.0/24": "homelab/vpn-wireguard",
    "from 8.4 to 9.1": "homelab/proxmox-upgrade",
    "LXC-106": "homelab/certificates",
    "push.sh": "homelab/certificates",
    "NET::ERR_CERT_DATE_INVALID": "homelab/certificates",
    "ADS-1700W": "homelab/paperless",
    "PDF/A": "homelab/paperless",
    "10.20.0.10": "homelab/rebuild-from-nothing",
    "KF-5031": "meetings/2025-04-08-outage-review",
}


def scattered(query: str) -> str:
    """The query with its words, and the pieces of each, in the opposite order."""
    return " ".join(reversed(WORD.findall(query)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(
    tmp_path_factory: pytest.TempPathFactory, model_dir: Path
) -> AsyncIterator[Services]:
    folder = tmp_path_factory.mktemp("verbatim")
    settings = Settings(qdrant_local_path=folder / "engine", embedding_model_path=model_dir)
    services = await open_lazily(settings)
    assert await services.encoders.default.ready(60)
    for name in COLLECTIONS:
        await store_demo(services.store, name)
    for query, document in QUERIES.items():
        new = NewDocument(scattered(query), id=f"scattered {query}")
        await services.store.store(new, document.partition("/")[0], create=True)
    yield services
    await services.close()


async def test_what_is_written_exactly_ranks_above_its_pieces(services):
    first = {
        query: (await find(services, query, *COLLECTIONS)).results[0].document.document
        for query in QUERIES
    }

    assert {query: found for query, found in first.items() if found != QUERIES[query]} == {}


async def test_a_quoted_phrase_must_occur_unless_no_text_has_it(services):
    quoted = await find(services, 'film library "Left out on purpose"', *COLLECTIONS)
    nowhere = await find(services, 'film library "on purpose left out"', *COLLECTIONS)
    apart = await find(services, '"Left out on purpose" "KF-5031"', *COLLECTIONS)

    assert [result.document.document for result in quoted.results] == ["homelab/backup-restic"]
    assert nowhere.results[0].document.document == "homelab/backup-restic"
    assert nowhere.notes[0] == "No text found contains 'on purpose left out'."
    assert apart.notes[0] == "No text found contains all of 'left out on purpose', kf-5031."
