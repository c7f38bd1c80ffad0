"""Deceptive or broken files, each with what the summary says about it.

Those that one reader alone refuses are in the tests of the formats.
"""

import io
import json
import os
import socket
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from mcp_server_qdrant.ingest.formats.load import BROKEN

LIMIT = 1_000_000
ROOT = os.geteuid() == 0

# Contents, and what the summary says: a reason, or "" if the file is stored.
Kind = tuple[Callable[[Path], object], str]


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.txt"), "text")
    return out.getvalue()


def _office(part: str, kind: str, **members: str) -> bytes:
    """An Office file: its first part, and others."""
    out = io.BytesIO()
    kinds = f"{OPEN}/package/2006/content-types"
    kind = f"application/vnd.openxmlformats-officedocument.{kind}.main+xml"
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {
            "[Content_Types].xml": f'<Types xmlns="{kinds}"><Override PartName="/{part}"'
            f' ContentType="{kind}"/></Types>',
            "_rels/.rels": _links("officeDocument", part),
            **members,
        }.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return out.getvalue()


def _links(kind: str, target: str) -> str:
    return (
        f'<Relationships xmlns="{RELATIONS.replace("officeDocument", "package")}">'
        f'<Relationship Id="r" Type="{RELATIONS}/{kind}" Target="{target}"/></Relationships>'
    )


def grid() -> bytes:
    """A DOCX of 800 bytes with a cell as wide as a hundred million columns."""
    span = '<w:tcPr><w:gridSpan w:val="100000000"/></w:tcPr>'
    cell = f"<w:tc>{span}<w:p><w:r><w:t>lamp</w:t></w:r></w:p></w:tc>"
    body = f"<w:tbl><w:tblGrid><w:gridCol/></w:tblGrid><w:tr>{cell}</w:tr></w:tbl>"
    text = f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    return _office("d.xml", "wordprocessingml.document", **{"d.xml": text})


def sparse() -> bytes:
    """An XLSX of 1 KB with two cells, and room for 17,000,000,000 between them."""
    spaces = f'xmlns="{SHEET}" xmlns:r="{RELATIONS}"'
    book = '<sheets><sheet name="S" sheetId="1" r:id="r"/></sheets>'
    rows = "".join(f'<row r="{n}"><c r="{c}{n}"><v>1</v></c></row>' for n, c in ((1, "A"), LAST))
    return _office(
        "xl/workbook.xml",
        "spreadsheetml.sheet",
        **{
            "xl/workbook.xml": f"<workbook {spaces}>{book}</workbook>",
            "xl/_rels/workbook.xml.rels": _links("worksheet", "worksheets/s.xml"),
            "xl/worksheets/s.xml": f"<worksheet {spaces}><sheetData>{rows}</sheetData></worksheet>",
        },
    )


def _rows(*rows: object) -> bytes:
    return b"\n".join(json.dumps(row).encode() for row in rows)


def _of(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _locked(path: Path) -> None:
    path.write_text("secret")
    path.chmod(0)


def _locked_folder(path: Path) -> None:
    path.mkdir()
    (path / "below.md").write_text("text")
    path.chmod(0)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket address has room only for a short path
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


OPEN = "http://schemas.openxmlformats.org"
WORD = f"{OPEN}/wordprocessingml/2006/main"
SHEET = f"{OPEN}/spreadsheetml/2006/main"
RELATIONS = f"{OPEN}/officeDocument/2006/relationships"
LAST = 1_048_576, "XFD"
BOMB = "---\na: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" + "".join(
    f"{one}: &{one} [{','.join([f'*{before}'] * 10)}]\n"
    for before, one in zip("bcd", "cde", strict=True)
)
FILES: dict[str, Kind] = {
    "one-line.txt": (_of(b"a" * 50_000_000), "has 50,000,000 bytes, more than"),
    "archive.md": (_of(_zip()), "is binary"),
    "cut-short.pdf": (_of(b"%PDF-1.7\n1 0 obj\n<</Type /Cat"), BROKEN),
    "some-lines.jsonl": (_of(b'{"id": "good", "text": "lamp"}\n[1]\n{"text": 5}\n'), ""),
    "twice.jsonl": (_of(_rows({"id": "good", "text": "another"})), ""),
    "broken.docx": (_of(_zip()[:-9]), BROKEN),
    "grid.docx": (_of(grid()), ""),
    "sparse.xlsx": (_of(sparse()), "crashes the process that reads it"),
    "columns.csv": (_of(b",".join(b"%x" % n for n in range(100_000)) + b"\nlamp"), ""),
    "front-matter.md": (_of(b"---\ntitle: a: b\n---\nlamp"), ""),
    "bomb.md": (_of(f"{BOMB}---\nlamp".encode()), ""),
    "new\nline\x1b.txt": (_of(b"lamp"), ""),
    "n" * 250 + ".md": (_of(b"# lamp"), ""),
    "loop": (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    "folder": (lambda path: path.symlink_to("."), "is a link to a folder"),
    "passwd.md": (lambda path: path.symlink_to("/etc/passwd"), "is a link out of the folder"),
    "pipe.md": (os.mkfifo, "is not a regular file"),
    "socket": (_socket, "is not a regular file"),
    "locked.md": (_locked, "" if ROOT else "cannot be read: Permission denied"),
}
if sys.platform == "linux":
    FILES["memory.txt"] = (lambda path: path.symlink_to("/proc/self/mem"), "is a link out of the")
    FILES[os.fsdecode(b"\xff.md")] = (_of(b"lamp"), "its name is not UTF-8")
if not ROOT:
    FILES["locked-folder"] = (_locked_folder, "cannot be opened: Permission denied")


def make(folder: Path) -> dict[str, str]:
    """Write all files; name -> what the summary says."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (write, _) in FILES.items():
        write(folder / name)
    return {name: reason for name, (_, reason) in FILES.items()}
