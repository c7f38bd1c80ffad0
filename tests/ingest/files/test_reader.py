"""Files are read in a process that may fail: what it costs, what it sees, and what it leaves."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.files import reader as reader_module
from mcp_server_qdrant.ingest.files.reader import MB, Reader
from mcp_server_qdrant.ingest.formats.load import BROKEN, load
from tests.ingest import bad_files

# Python's parser of e-mail takes minutes for these people.
SLOW = b"Subject: x\nTo: " + b"a <a@b.c>, " * 60_000 + b"\n\nlamp\n"
GREEDY = b"<p>x" * 240_000
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader(seconds=2, memory=300 * MB, answer=MB)
    yield made
    made.close()


def pid(reader: Reader) -> int:
    assert reader._process is not None
    return reader._process.pid


def refusal(reader: Reader, path: str, data: bytes) -> UnusableFile:
    with pytest.raises(UnusableFile) as caught:
        reader.load(path, data)
    return caught.value


def wait_until(condition) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def gone(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


@pytest.mark.parametrize("name", ["a.md", "a.txt", "a.jsonl", "README"])
def test_plain_formats_need_no_process(reader, name):
    reader.load(f"n/{name}", b'{"text": "lamp"}')

    assert reader._process is None


def test_texts_come_back_as_they_were_found(reader):
    table = 'title,date,text,tags\nPümp,2026-05-31,lamp,"a,b"\n,x,\U0001f600,\n'
    files = {
        "n/a.csv": table.encode("utf-8-sig"),
        "n/a.py": b"class A:\n    def b(self): ...\n",
        "n/a.html": "<title>Grüße</title><h1>A</h1><p>lamp</p><h2>B</h2>".encode("latin-1"),
        "n/a.eml": b"Subject: x\nDate: Mon, 02 Nov 2026 10:30:00 +0100\n\nlamp\n",
    }

    assert {path: reader.load(path, data) for path, data in files.items()} == {
        path: load(path, data) for path, data in files.items()
    }


def test_one_process_reads_many_files_also_bad_ones(reader):
    reader.load("n/a.html", b"<p>lamp")
    first = pid(reader)

    assert str(refusal(reader, "n/a.docx", b"x")) == BROKEN
    assert reader.load("n/b.html", b"<p>lamp").texts[0].text == "lamp"
    assert pid(reader) == first


@pytest.mark.parametrize(
    ("path", "data", "reason"),
    [
        ("n/a.eml", SLOW, "takes more than 2 s or 306 MB of memory to read, or crashes"),
        ("n/a.html", GREEDY, "takes more than 2 s or 309 MB of memory to read, or crashes"),
        (
            "n/a.csv",
            "ü ".encode() * 3_300 + b"\n" + b"\n".join(b"%d" % n for n in range(150)),
            "holds more than 1 MB of text",
        ),
        ("n/a.xlsx", bad_files.sparse(), "or crashes the process that reads it"),
    ],
)
def test_what_breaks_a_limit_is_the_fault_of_that_file_alone(reader, path, data, reason):
    fault = refusal(reader, path, data)

    assert reason in str(fault)
    assert fault.keep_texts, "what was stored of it stays"
    assert reader.load("n/a.html", b"<p>lamp").texts[0].text == "lamp"


@pytest.mark.process
def test_a_process_that_is_killed_loses_one_file(reader):
    def kill() -> None:
        wait_until(lambda: reader._process is not None)
        os.kill(pid(reader), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    fault = refusal(reader, "n/a.eml", SLOW)
    killer.join()

    assert "crashes the process that reads it" in str(fault)
    assert fault.keep_texts, "what was stored of it stays"
    assert reader.load("n/a.html", b"<p>lamp").texts[0].text == "lamp"


def test_what_a_large_file_leaves_in_memory_is_given_back(reader, monkeypatch):
    monkeypatch.setattr(reader_module, "LARGE", 1_000)
    reader.load("n/a.py", b"# lamp" + b" " * 1_000)

    assert reader._process is None


def test_a_reader_that_is_closed_reads_nothing_more(reader):
    reader.load("n/a.html", b"<p>lamp")
    process = reader._process
    reader.close()

    assert process.returncode is not None
    assert refusal(reader, "n/a.html", b"<p>lamp").keep_texts
    assert reader._process is None


@linux
def test_the_process_sees_no_keys_and_no_sockets(reader, monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", "s3cret")
    reader.load("n/a.html", b"<p>lamp")
    given = Path(f"/proc/{pid(reader)}/environ").read_bytes()
    files = [str(one.readlink()) for one in Path(f"/proc/{pid(reader)}/fd").iterdir()]

    assert {one.partition(b"=")[0] for one in given.split(b"\0") if one} == {b"PYTHONPATH"}
    assert sorted(one.partition(":")[0] for one in files) == ["/dev/null"] * 3 + ["pipe"] * 2


@linux
@pytest.mark.parametrize("then", ["input()", "reader.load('n/a.eml', SLOW)"])
def test_it_ends_with_the_process_that_started_it_also_while_it_reads(then):
    script = f"""
from mcp_server_qdrant.ingest.files.reader import Reader
from tests.ingest.files.test_reader import SLOW
reader = Reader()
reader.load("n/a.html", b"<p>lamp")
print(reader._process.pid, flush=True)
{then}
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as parent:
        worker = int(parent.stdout.readline())
        assert not gone(worker)
        time.sleep(0.5)
        parent.kill()

    began = time.monotonic()
    wait_until(lambda: gone(worker))
    assert time.monotonic() - began < 20, "it would take a minute"


def test_a_process_with_too_much_memory_ends_itself():
    """Where the system does not keep the limit, as on macOS."""
    watch = "from mcp_server_qdrant.ingest.files.reader import _watch; _watch({'memory': 0}, 0)"

    assert subprocess.run([sys.executable, "-c", watch], check=False).returncode == 1
