"""The words by which people ask for a day, in the language of its text: 2023-05-08, 8 May 2023."""

from datetime import date

from mcp_server_qdrant.core.bm25 import ENGLISH

MONTHS = {
    language: months
    for language, *months in map(
        str.split,
        """\
danish januar februar marts april maj juni juli august september oktober november december
dutch januari februari maart april mei juni juli augustus september oktober november december
english January February March April May June July August September October November December
french janvier février mars avril mai juin juillet août septembre octobre novembre décembre
german Januar Februar März April Mai Juni Juli August September Oktober November Dezember
italian gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre \
novembre dicembre
norwegian januar februar mars april mai juni juli august september oktober november desember
portuguese janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro
russian января февраля марта апреля мая июня июля августа сентября октября ноября декабря
spanish enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
swedish januari februari mars april maj juni juli augusti september oktober november december
""".splitlines(),
    )
}


def words_of(day: date, language: str) -> str:
    """A day as numbers and in words; in English where the months of the language are not known."""
    months = MONTHS.get(language, MONTHS[ENGLISH])
    month = months[day.month - 1]
    short = month[:3] if months is MONTHS[ENGLISH] else ""
    return f"{day} {day:%Y-%m} {day.day} {month} {short} {day.year}"
