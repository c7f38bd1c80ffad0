"""Moves what the DOCX and PPTX libraries skip to where they read it, or reports it in a note."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any
from zipfile import ZipFile

from mcp_server_qdrant.ingest.formats.base import describe, note_unread

EITHER = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
GONE = "//*[local-name()='del' or local-name()='moveFrom'][*]"
HOLDERS = ("{*}fldSimple", "{*}bdo", "{*}dir")
LINKS = ("{*}blip", "{*}imagedata", "{*}hyperlink", "{*}hlinkClick")  # may lead nowhere
NAMED = ("{*}tx", "{*}cat", "{*}strDim")  # parents of the names of series and categories
OTHERS = re.compile(rb'Type="[^"]{1,200}/(?:oleObject|package|aFChunk)"')
# Elements of equations -> templates of their linear form.
FORMS = {
    "sSup": "{e}^{sup}",
    "sSub": "{e}_{sub}",
    "sSubSup": "{e}_{sub}^{sup}",
    "f": "({num})/({den})",
    "rad": "{deg}√({e})",
}


def parse_part(part: bytes) -> Any:
    """The root element of a part; None if it is not XML."""
    from lxml import etree

    try:
        return etree.fromstring(part, etree.XMLParser(huge_tree=True, resolve_entities=False))
    except etree.XMLSyntaxError:
        return None


def settle(root: Any) -> None:
    """Reduce a part to its visible text, in elements that the libraries read.

    The first alternative with words stays, and deleted text is removed. Fields and rubies become
    their text, equations and picture descriptions become text, and a text box follows its
    paragraph.
    """
    for deleted in root.xpath(GONE):
        _replace(deleted)
    for either in list(root.iter(EITHER)):
        _replace(either, next((one for one in either if join_texts(one).strip()), ()))
    for ruby in list(root.iter("{*}ruby")):
        _replace(ruby, [_text(ruby, "".join(map(join_texts, ruby.iterfind("{*}rubyBase"))))])
    _describe(root)
    for holder in list(root.iter(*HOLDERS)):
        _replace(holder, [*holder])
    for equation in list(root.iter("{*}oMath")):
        for paragraph in _around(equation):
            run = paragraph.makeelement(paragraph.tag[:-1] + "r")
            run.append(_text(paragraph, _formula(equation)))
            above = (equation, *equation.iterancestors())  # display equations have a wrapper
            next(one for one in above if one.getparent() is paragraph).addprevious(run)
        _replace(equation)
    for box in reversed(list(root.iter("{*}txbxContent"))):
        for paragraph in _around(box):
            for one in reversed(box):
                paragraph.addnext(one)


def _describe(root: Any) -> None:
    """Put the description of each Word picture next to it."""
    for picture in root.iter("{*}drawing", "{*}pict"):
        about = next(picture.iter("{*}docPr", "{*}shape"), picture)
        if words := describe(about.get("descr") or about.get("alt", "")):
            picture.addprevious(_text(picture, f" {words} "))
    for link in root.iter(*LINKS):
        link.attrib.clear()


def join_texts(element: Any) -> str:
    """All text within an element; tabs and line breaks become spaces."""
    return "".join(one.text or " " for one in element.iter("{*}t", "{*}tab", "{*}br"))


def _around(element: Any) -> list[Any]:
    """A list with the paragraph around an element, or an empty one."""
    return [*islice(element.iterancestors("{*}p"), 1)]


def _text(beside: Any, text: str) -> Any:
    made = beside.makeelement(beside.tag.rpartition("}")[0] + "}t")
    made.text = text
    return made


def _replace(element: Any, others: Iterable[Any] = ()) -> None:
    for one in [*others]:
        element.addprevious(one)
    element.getparent().remove(element)


def _formula(element: Any) -> str:
    name = str(element.tag).rpartition("}")[2]
    if name not in FORMS:
        return (name == "t" and element.text) or "".join(map(_formula, element))
    parts = {str(one.tag).rpartition("}")[2]: _formula(one) for one in element}
    return FORMS[name].format_map(defaultdict(str, parts))


def list_captions(root: Any) -> Iterator[str]:
    """The texts of a chart, of SmartArt or of comments: paragraphs, series, categories."""
    for one in root.iter("{*}p", "{*}v", "{*}pt", "{*}text"):
        if one.tag.endswith("}p"):
            yield join_texts(one)
        elif one.tag.endswith("}text") or next(one.iterancestors(*NAMED), None) is not None:
            yield "".join(one.itertext())


def read_captions(parts: Iterable[bytes]) -> tuple[list[str], int]:
    """(texts of these parts: charts, SmartArt, comments, shapes; number of damaged parts)."""
    roots = [parse_part(part) for part in parts]
    found = (one.strip() for root in roots if root is not None for one in list_captions(root))
    return [*dict.fromkeys(filter(None, found))], roots.count(None)


def note_embedded(archive: ZipFile, folder: str) -> list[str]:
    """A note on embedded files, counted by the links in that folder."""
    links = [one for one in archive.namelist() if one.startswith(folder)]
    return note_unread(
        sum(len(OTHERS.findall(archive.read(one))) for one in links), "embedded file"
    )
