"""Texts are found by the day that their caller gave them, however a query writes it."""

from mcp_server_qdrant.core.notation import parse_time
from tests.support import either_engine, find, memory_services, remember, texts

DAYS = {"2026-11-12": "moved house", "2026-11-03": "bought paint", "2025-12-12": "sold a bike"}
GERMAN = "Die Häuser des Dorfes wurden lange vor dem Krieg gebaut."


async def test_a_text_is_found_by_its_day_however_it_is_written(tmp_path):
    async with (
        either_engine("edge", tmp_path) as engine,
        memory_services(engine=engine) as services,
    ):
        for day, text in DAYS.items():
            await remember(services, "diary", text, created_at=parse_time(day))
        await remember(services, "diary", GERMAN, metadata={"date": "2026-03-08"})
        await remember(services, "diary", "stored today, of no day")
        queries = {
            "moved house": (
                *("2026-11-12", "12 November 2026", "November 12, 2026", "12 Nov 2026"),
                *("12.11.2026", "on the 12th of November"),
            ),
            "sold a bike": ("December", "in 2025", "2025-12"),
            GERMAN: ("8. März", "2026-03-08"),
        }
        found = {
            query: texts(await find(services, query, "diary", algorithm="keyword"))[:1]
            for several in queries.values()
            for query in several
        }

    assert found == {query: [text] for text, several in queries.items() for query in several}
