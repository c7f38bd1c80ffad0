"""The log of a host."""

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
def test_a_line_that_finds_no_room_does_not_stop_who_writes_it():
    code = "from mcp_server_qdrant.hosting.log import log; log('x'); log('y'); print('went on')"
    with FULL.open("wb") as full:
        found = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, check=False
        )

    assert found.stdout == b"went on\n"
