"""DOCX: extracts paragraphs, lists, tables, text boxes and notes with mammoth."""

import io
import zlib
from collections.abc import Iterable
from html import escape
from zipfile import BadZipFile, ZipFile

from mcp_server_qdrant.ingest.formats import html
from mcp_server_qdrant.ingest.formats.base import Contents, as_document, dublin_core, note_unread
from mcp_server_qdrant.ingest.formats.office import list_captions, note_embedded, parse_part, settle

# The title is a level above the headings.
HEADINGS = "p[style-name='Title'] => h1:fresh\n" + "\n".join(
    f"p[style-name='Heading {level}'] => h{level + 1}:fresh" for level in range(1, 6)
)
READ = ("document", "footnotes", "endnotes")  # parts that mammoth reads
# Other parts with texts -> the prefix of their texts.
BESIDE = {"hdr": "", "ftr": "", "comments": "Comment: ", "chartSpace": "", "dataModel": ""}


def read(path: str, data: bytes) -> Contents:
    """The text as Markdown, with its headings; that of other parts follows at the end."""
    import mammoth

    archive = ZipFile(io.BytesIO(data))
    about = dublin_core(archive, "docProps/core.xml")
    settled, beside, broken = _rearrange(archive)
    made = mammoth.convert_to_html(settled, style_map=HEADINGS, convert_image=lambda _: [])
    page = html.parse_page(made.value + "".join(f"<p>{escape(one)}</p>" for one in beside))
    for link in page.select("a[href*=note-ref]"):  # back from a note to its reference
        link.decompose()
    text = html.load_page(path, page, about.get("title", ""))
    left_out = note_unread(broken, "damaged part") + note_embedded(archive, "word/_rels/")
    return as_document(text, about, left_out)


def _rearrange(archive: ZipFile) -> tuple[io.BytesIO, Iterable[str], int]:
    """(document rearranged for mammoth, texts of other parts, number of damaged parts).

    If mammoth needs a damaged part, it fails later.
    """
    from lxml import etree

    made, beside, broken = io.BytesIO(), dict[str, None](), 0
    with ZipFile(made, "w") as settled:
        for name in dict.fromkeys(archive.namelist()):
            if not name.endswith((".xml", ".rels")):
                continue
            try:
                part = archive.read(name)
            except (BadZipFile, zlib.error):
                part = b""
            root = parse_part(part)
            kind = etree.QName(root).localname if root is not None else ""
            broken += root is None
            if kind in (*READ, *BESIDE):
                settle(root)
            elif kind == "styles":  # mammoth needs only the names; the rest is slow
                etree.strip_elements(root, "{*}latentStyles", "{*}rPr", "{*}tblStylePr")
            if kind in (*READ, "styles"):
                part = etree.tostring(root)
            elif kind in BESIDE:
                named = (one.strip() for one in list_captions(root))
                beside |= {BESIDE[kind] + one: None for one in named if any(map(str.isalpha, one))}
            settled.writestr(name, part)
    return made, beside, broken
