"""Archives that cannot be read, for the formats that are some."""

import io
import zipfile

import pytest

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.load import BROKEN, load


def zipped(**members: bytes) -> bytes:
    """An archive, the same at any time: it may be in the name of a test."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def locked() -> bytes:
    """An archive whose entries say that they are encrypted, which no module here can make."""
    data = bytearray(zipped(a=b"text"))
    data[data.index(b"PK\1\2") + 8] |= 1
    return bytes(data)


REFUSED = [
    (b"just text", BROKEN),
    (zipped(a=b"text")[:-10], BROKEN),
    (zipped(a=b"text"), BROKEN),
    (locked(), BROKEN),
]


def refused(path: str, data: bytes) -> str:
    """Why a file is refused."""
    with pytest.raises(UnusableFile) as caught:
        load(path, data)
    return str(caught.value)
