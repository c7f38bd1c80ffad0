"""Days are those of the person, whichever client of one service asks."""

import pytest

from tests.e2e.raw import RawServer, text_of
from tests.qdrant_server import EITHER_ENGINE

pytestmark = EITHER_ENGINE


@pytest.fixture
def clients(env, tmp_path):
    """Opens a client of the one service in a time zone."""
    opened = []

    def client(zone: str) -> RawServer:
        opened.append(RawServer(env | {"TZ": zone}, tmp_path))
        return opened[-1]

    yield client
    for one in opened:
        one.close()


def test_two_clients_in_two_time_zones_have_days_of_their_own(clients):
    berlin = clients("Europe/Berlin")
    metadata = {"created_at": "2026-11-27T23:30:00Z"}
    berlin.call("qdrant-store", information="The crane is mended.", metadata=metadata)
    berlin.call("qdrant-store", information="A holiday.", metadata={"date": "28.11.2026"})
    los_angeles = clients("America/Los_Angeles")

    def found(client, day):
        page = client.call("qdrant-find", query="crane holiday", since=day, until=day)
        return {one["text"]: one["date"] for one in page["structuredContent"]["results"]}

    holiday = {"A holiday.": "2026-11-28"}
    assert found(berlin, "28.11.2026") == holiday | {"The crane is mended.": "2026-11-28"}
    assert found(los_angeles, "Nov 28, 2026") == holiday
    assert found(los_angeles, "2026-11-27") == {"The crane is mended.": "2026-11-27"}
    refused = berlin.call("qdrant-find", query="crane", since="03/04/2026")
    assert "may be 2026-04-03 or 2026-03-04" in text_of(refused)
