"""Bytes of a file -> the texts in it, by the format that its name tells."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from mcp_server_qdrant.core.errors import Unforeseen, UnusableFile, contained
from mcp_server_qdrant.ingest.formats import (
    chats,
    code,
    csv,
    docx,
    epub,
    html,
    jsonl,
    mail,
    markdown,
    notebook,
    odt,
    pdf,
    pptx,
    rtf,
    sessions,
    sheets,
    subtitles,
    text,
)
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, content_id, decode
from mcp_server_qdrant.ingest.secrets import MASK, is_secret, masked, spans, without


@dataclass(frozen=True, slots=True)
class Format:
    """A format as docs/files.md calls it, its reader, and patterns of the names of its files.

    What begins with `magic` has this format under any name. `read(path, text)` raises UnusableFile;
    of a `binary` format it is `read(path, data)`. A file may be `large` where it holds many texts,
    or pictures beside its text. `plain` are those whose readers need no more time and memory than a
    file's size lets expect.
    """

    name: str
    read: Callable[..., Contents]
    names: str = ""
    magic: bytes | None = None
    binary: bool = False
    large: bool = False
    plain: bool = False


BROKEN = "cannot be read: is it complete, and without a password?"
TEXT = Format("any other text", text.read, plain=True)
FORMATS = (  # of several that fit, the first counts
    Format("PDF", pdf.read, "*.pdf", magic=b"%PDF-", binary=True, large=True),
    Format("sessions", sessions.read, sessions.NAMES, binary=True, large=True),
    Format("chat exports", chats.read, chats.NAMES, large=True),
    Format("Markdown", markdown.read, "*.md *.markdown *.mdown *.mdx *.qmd *.rmd", plain=True),
    Format("HTML", html.read, "*.html *.htm *.xhtml", binary=True),
    Format("source code", code.read, code.NAMES),
    Format("JSON lines", jsonl.read, "*.jsonl *.ndjson", binary=True, large=True, plain=True),
    Format("CSV", csv.read, "*.csv *.tsv"),
    Format("spreadsheets", sheets.read, "*.xlsx *.xls *.ods", binary=True, large=True),
    Format("Jupyter notebooks", notebook.read, "*.ipynb"),
    Format("e-mail", mail.read, "*.eml *.mbox", binary=True, large=True),
    Format("DOCX", docx.read, "*.docx", binary=True, large=True),
    Format("ODT", odt.read, "*.odt", binary=True, large=True),
    Format("RTF", rtf.read, "*.rtf", large=True),
    Format("PPTX", pptx.read, "*.pptx", binary=True, large=True),
    Format("EPUB", epub.read, "*.epub", binary=True, large=True),
    Format("subtitles", subtitles.read, "*.srt *.vtt"),
)


def load(path: str, data: bytes, *, mask: bool = True) -> Contents:
    """The texts of a file; `path` ends with its name and begins with that of its source.

    Without `mask` secrets stay where the format lets them. Raises UnusableFile saying why there is
    no text, and Unforeseen.
    """
    if not data:
        raise UnusableFile("is empty")
    form = format_of(path, data)
    content, notes = (data, []) if form.binary else decode(data)
    # Broken files make libraries stumble anywhere, with any error.
    with contained(lambda fault: UnusableFile(BROKEN) if form.binary else Unforeseen(fault)):
        contents = form.read(path, content)
    contents.notes[:0] = notes
    contents.texts = [text for text in contents.texts if text.text.strip()]
    if not contents.texts:
        raise UnusableFile(contents.notes[0] if contents.notes else "has no text")
    if mask:
        contents.notes, _ = masked(contents.notes)
        pairs = [_masked(path, text) for text in contents.texts]
        contents.texts = [text for text, _ in pairs]
        contents.masked += sum(count for _, count in pairs)
    return contents


def _masked(path: str, text: Loaded) -> tuple[Loaded, int]:
    """The text without secrets, its marks where they were, and how many secrets it had.

    One whose id holds a secret is known by its contents.
    """
    named = text.metadata or {}
    found = spans(text.text, [str(named[one]) for one in named if is_secret(one, named[one])])
    (title, metadata, tags), others = masked([text.title, text.metadata, text.tags])
    marks, at, moved, last = [], 0, 0, 0
    for mark in text.marks:
        while at < len(found) and found[at][0] < mark.start:
            start, last = found[at]
            at, moved = at + 1, moved + len(MASK) - (last - start)
        name, _ = masked(mark.name)
        marks.append(replace(mark, start=max(mark.start, last) + moved, name=name))
    whole = without(text.text, found)
    made = replace(text, text=whole, title=title, metadata=metadata, marks=tuple(marks))
    made = replace(made, tags=tuple(dict.fromkeys(tags)))
    if masked(text.id)[1]:
        made = replace(made, id=content_id(path, whole))
    return made, len(found) + others


def format_of(path: str, data: bytes = b"") -> Format:
    """The format of a file of this name, which may begin with `data`."""
    name = PurePosixPath(path.lower()).name
    certain = (one for one in FORMATS if one.magic and data.startswith(one.magic))
    fitting = (one for one in FORMATS if any(fnmatchcase(name, p) for p in one.names.split()))
    return next(certain, next(fitting, TEXT))
