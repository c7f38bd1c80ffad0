"""EPUB: the chapters of a book in their order, read as pages of HTML."""

import io
import posixpath
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import unquote
from zipfile import ZipFile

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.ingest.formats import html
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    Mark,
    document,
    dublin_core,
    fault_notes,
    titled,
)

PAGES = ("application/xhtml+xml", "text/html")


def read(path: str, data: bytes) -> Contents:
    """The text of a book; a chapter that cannot be read is left out, with a note."""
    from lxml import etree

    archive = ZipFile(io.BytesIO(data))
    container = etree.fromstring(archive.read("META-INF/container.xml"))
    place = container.find(".//{*}rootfile").attrib["full-path"]
    package = archive.read(place)
    about = dublin_core(archive, place)
    text, marks, faults = "", list[Mark](), list[tuple[str, int]]()
    for number, name in enumerate(_names(package, posixpath.dirname(place)), 1):
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
    title, sections = titled(path, marks, about.get("title", ""))
    return document(Loaded(text, title, marks=sections), about, fault_notes("chapter", faults))


def _names(package: bytes, folder: str) -> Iterator[str]:
    """The pages of a book in their order."""
    from lxml import etree

    root = etree.fromstring(package)
    items = {item.get("id"): item for item in root.iterfind(".//{*}manifest/{*}item")}
    for place in root.iterfind(".//{*}spine/{*}itemref"):
        item = items.get(place.get("idref"))
        if item is not None and item.get("media-type") in PAGES:
            yield posixpath.normpath(posixpath.join(folder, unquote(item.attrib["href"])))
