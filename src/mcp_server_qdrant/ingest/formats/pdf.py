"""PDF: extracts the text of each page, its form and its annotations with pypdfium2."""

import ctypes
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, Mark, note_unread, readable

HYPHEN = "\ufffe"  # PDFium's mark of a hyphen that divides a word at the end of a line
UNSET = ("", "Off")  # values of empty form fields
TAG = re.compile(r"<[^<>]*>")
PASSWORD = 1 << 13  # form field flag


def read(path: str, data: bytes) -> Contents:
    """The text of all pages, in order. Raises UnusableFile if there is none."""
    import pypdfium2

    document = pypdfium2.PdfDocument(data)
    document.init_forms()
    text, marks = "", list[Mark]()
    for number in range(len(document)):
        page = document[number]
        marks.append(Mark(len(text), 0, f"page {number + 1}"))
        shown = page.get_textpage().get_text_range()
        shown = "\n".join([shown.replace("\r\n", "\n").replace(HYPHEN, ""), *_list_fields(page)])
        text += readable(shown) + "\n\n"
        page.close()
    xfa = document.get_formtype() == pypdfium2.raw.FORMTYPE_XFA_FULL
    notes = note_unread(xfa, "XFA form") + note_unread(
        document.count_attachments(), "attached file"
    )
    if not text.strip():
        raise UnusableFile("has no text: its pages may be pictures")
    given = document.get_metadata_value("Title")
    title = readable(given).strip() or PurePosixPath(path).stem
    return Contents([Loaded(text, title, marks=tuple(marks))], notes)


def _list_fields(page: Any) -> Iterator[str]:
    """The form fields of a page with names and values, and its annotations."""
    from pypdfium2 import raw

    form, texts = page.formenv, dict[str, None]()
    for number in range(raw.FPDFPage_GetAnnotCount(page)):
        note = raw.FPDFPage_GetAnnot(page, number)
        if raw.FPDFAnnot_GetSubtype(note) != raw.FPDF_ANNOT_WIDGET:
            text = _read_string(raw.FPDFAnnot_GetStringValue, note, b"Contents")
            rich = "" if text.strip() else _read_string(raw.FPDFAnnot_GetStringValue, note, b"RC")
            texts[TAG.sub(" ", rich).strip() if rich else text] = None
        elif form and not raw.FPDFAnnot_GetFormFieldFlags(form, note) & PASSWORD:
            options = range(raw.FPDFAnnot_GetOptionCount(form, note))
            chosen = [n for n in options if raw.FPDFAnnot_IsOptionSelected(form, note, n)]
            shown = [_read_string(raw.FPDFAnnot_GetOptionLabel, form, note, n) for n in chosen]
            value = ", ".join(shown) or _read_string(raw.FPDFAnnot_GetFormFieldValue, form, note)
            name = _read_string(raw.FPDFAnnot_GetFormFieldAlternateName, form, note)
            name = name or _read_string(raw.FPDFAnnot_GetFormFieldName, form, note)
            texts["" if value in UNSET else f"{name}: {value}"] = None
        raw.FPDFPage_CloseAnnot(note)
    return filter(str.strip, texts)


def _read_string(get: Callable[..., int], *given: Any) -> str:
    """The UTF-16 string that a PDFium function writes; a first call returns its size."""
    from pypdfium2 import raw

    size = get(*given, None, 0)
    buffer = ctypes.create_string_buffer(size)
    get(*given, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0").replace("\r", "\n")
