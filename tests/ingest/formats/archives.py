"""Unreadable archives, for the formats that are archives."""

import io
import zipfile

import pytest

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.load import load


def zipped(**members: bytes) -> bytes:
    """An archive with fixed times, since its bytes may be in a test's name."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def locked() -> bytes:
    """An archive with entries flagged as encrypted; no library here can encrypt."""
    data = bytearray(zipped(a=b"text"))
    data[data.index(b"PK\1\2") + 8] |= 1
    return bytes(data)


BROKEN_ARCHIVES = [b"just text", zipped(a=b"text")[:-10], zipped(a=b"text"), locked()]


def refused(path: str, data: bytes) -> str:
    """The reason why a file is refused."""
    with pytest.raises(UnusableFile) as caught:
        load(path, data)
    return str(caught.value)
