"""EPUB: the chapters of a book in order, read as HTML pages."""

import io
import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import unquote
from zipfile import ZipFile

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.ingest.formats import html
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    Mark,
    as_document,
    choose_title,
    dublin_core,
    fault_notes,
)

PICTURES = ("image/j", "image/p", "image/g", "image/w")  # an SVG may have words


def read(path: str, data: bytes) -> Contents:
    """The text of a book; an unreadable chapter is left out with a note."""
    from lxml import etree

    archive = ZipFile(io.BytesIO(data))
    container = etree.fromstring(archive.read("META-INF/container.xml"))
    names = {_plain(name): name for name in archive.namelist()}
    names |= {name: name for name in archive.namelist()}
    place = _resolve(names, "", container.find(".//{*}rootfile").attrib["full-path"])
    package = archive.read(place)
    about = dublin_core(archive, place)
    text, marks, faults = "", list[Mark](), list[tuple[str, int]]()
    folder = posixpath.dirname(place)
    links = dict.fromkeys(_resolve(names, folder, link) for link in _list_pages(package))
    for number, name in enumerate(links, 1):
        try:
            with contained(lambda _: UnusableFile("cannot be read")):
                (page,) = html.read(name, archive.read(name)).texts
        except UnusableFile as error:
            faults.append((str(error), number))
            continue
        if page.text.strip():
            marks += [
                replace(mark, start=len(text) + mark.start, name=mark.name or page.title)
                for mark in page.marks or (Mark(0, 1, f"chapter {number}"),)
            ]
            text += f"{page.text}\n\n"
    title, sections = choose_title(path, marks, about.get("title", ""))
    return as_document(Loaded(text, title, marks=sections), about, fault_notes("chapter", faults))


def _list_pages(package: bytes) -> Iterator[str]:
    """The links to the pages of a book, in reading order."""
    from lxml import etree

    root = etree.fromstring(package)
    items = {item.get("id"): item for item in root.iterfind(".//{*}manifest/{*}item")}
    for place in root.iterfind(".//{*}spine/{*}itemref"):
        item = items.get(place.get("idref"), {})
        if item.get("href") and not item.get("media-type", "").lower().startswith(PICTURES):
            yield item.get("href")


def _plain(name: str) -> str:
    """A name normalised in case, separators and Unicode form."""
    return unicodedata.normalize("NFC", name).replace("\\", "/").casefold()


def _resolve(names: Mapping[str, str], folder: str, link: str) -> str:
    """The file of a link, relative to a folder or the root; the link may be percent-encoded."""
    for one in (link, whole := re.split("[?#]", link)[0], unquote(whole)):
        for start in (folder, ""):
            path = posixpath.normpath(posixpath.join("/", start, one)).lstrip("/")
            if found := names.get(path) or names.get(_plain(path)):
                return found
    return link
