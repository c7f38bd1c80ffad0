"""Loads the texts of a file by the format that its name implies."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from mcp_server_qdrant.core.errors import Unforeseen, UnusableFile, contained
from mcp_server_qdrant.ingest.formats import (
    cards,
    chats,
    code,
    csv,
    docx,
    epub,
    html,
    jsonl,
    mail,
    markdown,
    mhtml,
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
from mcp_server_qdrant.ingest.formats.base import (
    Contents,
    Loaded,
    content_id,
    decode,
    map_strings,
    replace_spans,
)
from mcp_server_qdrant.ingest.pictures import pictures
from mcp_server_qdrant.ingest.secrets import MASK, is_secret, masked, spans


@dataclass(frozen=True, slots=True)
class Format:
    """A format as docs/files.md calls it, with its reader and file name patterns.

    A file that begins with `magic` has this format under any name. The reader is `read(path, text)`
    or, if `binary`, `read(path, data)`, and raises UnusableFile. `large`: files may be larger,
    because they have many texts or pictures. `plain`: the reader's time and memory are linear in
    the size, so it needs no child process.
    """

    name: str
    read: Callable[..., Contents]
    names: str = ""
    magic: bytes | None = None
    binary: bool = False
    large: bool = False
    plain: bool = False


CONTROLS = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\^_])|[^\n]\x08"
)
BROKEN = "cannot be read: is it complete, and without a password?"
TEXT = Format("any other text", text.read, plain=True)
FORMATS = (  # the first that fits is used
    Format("PDF", pdf.read, "*.pdf", magic=b"%PDF-", binary=True, large=True),
    Format("sessions", sessions.read, sessions.NAMES, binary=True, large=True),
    Format("chat exports", chats.read, chats.NAMES, large=True),
    Format("Markdown", markdown.read, "*.md *.markdown *.mdown *.mdx *.qmd *.rmd", plain=True),
    Format("HTML", html.read, "*.html *.htm *.xhtml", binary=True),
    Format("source code", code.read, code.NAMES),
    Format("JSON lines", jsonl.read, "*.jsonl *.ndjson", binary=True, large=True, plain=True),
    Format("CSV", csv.read, "*.csv *.tsv"),
    Format(
        "spreadsheets",
        sheets.read,
        "*.xlsx *.xlsm *.xlsb *.xltx *.xls *.ods *.ots",
        binary=True,
        large=True,
    ),
    Format("Jupyter notebooks", notebook.read, "*.ipynb"),
    Format("e-mail", mail.read, "*.eml *.emlx *.mbox", binary=True, large=True),
    Format("calendars and contacts", cards.read, "*.ics *.ifb *.vcs *.vcf *.vcard", large=True),
    Format("saved web pages", mhtml.read, "*.mhtml *.mht", binary=True, large=True),
    Format("DOCX", docx.read, "*.docx *.docm *.dotx *.dotm", binary=True, large=True),
    Format("ODT", odt.read, "*.odt *.ott *.odp *.otp *.odg", binary=True, large=True),
    Format("RTF", rtf.read, "*.rtf", large=True),
    Format("PPTX", pptx.read, "*.pptx *.pptm *.ppsx *.ppsm *.potx *.potm", binary=True, large=True),
    Format("EPUB", epub.read, "*.epub", binary=True, large=True),
    Format("subtitles", subtitles.read, "*.srt *.vtt"),
)


def load(path: str, data: bytes, *, mask: bool = True) -> Contents:
    """The texts of a file; `path` begins with the name of its source.

    `mask=False` keeps secrets, except in sessions. Raises UnusableFile saying why there is no text,
    and Unforeseen.
    """
    if not data:
        raise UnusableFile("is empty")
    form = format_of(path, data)
    content, notes = (data, []) if form.binary else decode(data)
    # With a broken file a library may raise any error.
    with contained(lambda fault: UnusableFile(BROKEN) if form.binary else Unforeseen(fault)):
        contents = form.read(path, content)
    contents.notes[:0] = notes
    plain = [text if text.kept else _cut_controls(text) for text in contents.texts]
    bare = [text if text.kept else _cut_pictures(text) for text in plain]
    if bare != plain:
        contents.notes.append("has pictures, or other data in base64 or hex, that were left out")
    contents.texts = [text for text in bare if text.text.strip()]
    if not contents.texts:
        raise UnusableFile(contents.notes[0] if contents.notes else "has no text")
    if mask:
        contents.notes, _ = masked(contents.notes)
        pairs = [_mask(path, text) for text in contents.texts]
        contents.texts = [text for text, _ in pairs]
        contents.masked += sum(count for _, count in pairs)
    return contents


def _cut_controls(text: Loaded) -> Loaded:
    """The text without the colours and overstrikes of terminals, which hide words."""
    return replace_spans(text, [one.span() for one in CONTROLS.finditer(text.text)])


def _cut_pictures(text: Loaded) -> Loaded:
    """The text, its title and its metadata without pictures and other data."""
    title, metadata = map_strings(
        (text.title, text.metadata), lambda one: replace_spans(Loaded(one, ""), pictures(one)).text
    )
    return replace(replace_spans(text, pictures(text.text)), title=title, metadata=metadata)


def _mask(path: str, text: Loaded) -> tuple[Loaded, int]:
    """The text with secrets masked and its marks adjusted, and the number of secrets.

    If the id contains a secret, it is replaced by one derived from the contents.
    """
    named = text.metadata or {}
    found = spans(text.text, [str(named[one]) for one in named if is_secret(one, named[one])])
    given = [text.title, text.metadata, text.tags, text.kept]
    (title, metadata, tags, kept), others = masked(given)
    made, tags = replace_spans(text, found, MASK), tuple(dict.fromkeys(tags))
    marks = tuple(replace(mark, name=masked(mark.name)[0]) for mark in made.marks)
    made = replace(made, title=title, metadata=metadata, marks=marks, tags=tags, kept=kept)
    if masked(text.id)[1]:
        made = replace(made, id=content_id(path, made.text))
    return made, len(found) + others


def format_of(path: str, data: bytes = b"") -> Format:
    """The format of a file, by the beginning of its `data` or by its name."""
    name = PurePosixPath(path.lower()).name
    certain = (one for one in FORMATS if one.magic and data.startswith(one.magic))
    fitting = (one for one in FORMATS if any(fnmatchcase(name, p) for p in one.names.split()))
    return next(certain, next(fitting, TEXT))
