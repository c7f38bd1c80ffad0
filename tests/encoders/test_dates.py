"""The words of a day."""

from datetime import date

import pytest

from mcp_server_qdrant.encoders.dates import MONTHS, words_of


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("english", "2026-03-08 2026-03 8 March Mar 2026"),
        ("german", "2026-03-08 2026-03 8 März  2026"),
        ("klingon", "2026-03-08 2026-03 8 March Mar 2026"),
    ],
)
def test_a_day_is_written_in_numbers_and_words(language, expected):
    assert words_of(date(2026, 3, 8), language) == expected


def test_each_language_has_twelve_months():
    assert {len(set(months)) for months in MONTHS.values()} == {12}
