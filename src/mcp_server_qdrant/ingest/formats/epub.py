"""EPUB: the chapters of a book in their order, read as pages of HTML."""

import posixpath
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from mcp_server_qdrant.core.errors import UnusableFile, contained
from mcp_server_qdrant.core.notation import moment
from mcp_server_qdrant.ingest.formats import html
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Faults,
    Loaded,
    Mark,
    Patience,
    readable,
    titled,
    unzipped,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element
    from zipfile import ZipFile

PAGES = ("application/xhtml+xml", "text/html")
SECONDS = 300


def read(path: str, data: bytes) -> Contents:
    """The text of a book; a chapter that cannot be read is left out, with a note."""
    archive = unzipped(data)
    with contained(lambda _: UnusableFile("is not an EPUB that can be read")):
        package, names = _package(archive)
        about = {
            key: " ".join(readable(package.findtext(f".//{{*}}metadata/{{*}}{key}") or "").split())
            for key in ("title", "creator", "date", "language")
        }
    text, marks, faults, in_time = "", list[Mark](), Faults("chapter"), Patience(SECONDS)
    for number, name in enumerate(names, 1):
        in_time.check()
        try:
            with contained(lambda _: UnusableFile("cannot be read")):
                (page,) = html.read(name, archive.read(name)).texts
        except UnusableFile as error:
            faults.add(str(error), number)
            continue
        if page.text.strip():
            marks += [
                replace(mark, start=len(text) + mark.start, name=mark.name or page.title)
                for mark in page.marks or (Mark(0, 1, f"chapter {number}"),)
            ]
            text += f"{page.text.rstrip()}\n\n"
    title, sections = titled(path, marks, about["title"])
    metadata = {key: about[key] for key in ("creator", "language") if about[key]}
    book = Loaded(
        text,
        title,
        metadata=metadata or None,
        created_at=moment(about["date"]),
        marks=sections,
        markdown=True,
    )
    return Contents([book], faults.notes())


def _package(archive: "ZipFile") -> tuple["Element", list[str]]:
    """What the book says of itself, and the names of its pages in their order."""
    root = _xml(archive, "META-INF/container.xml").find(".//{*}rootfile")
    if root is None:
        raise UnusableFile("is not an EPUB that can be read")
    name = root.attrib["full-path"]
    package = _xml(archive, name)
    return package, list(_names(package, posixpath.dirname(name)))


def _names(package: "Element", folder: str) -> Iterator[str]:
    items = {item.get("id"): item for item in package.iterfind(".//{*}manifest/{*}item")}
    for place in package.iterfind(".//{*}spine/{*}itemref"):
        item = items.get(place.get("idref"))
        if item is not None and item.get("media-type") in PAGES:
            yield posixpath.normpath(posixpath.join(folder, unquote(item.attrib["href"])))


def _xml(archive: "ZipFile", name: str) -> "Element":
    from xml.etree.ElementTree import fromstring

    return fromstring(archive.read(name))  # noqa: S314 - expat bounds how far entities grow
