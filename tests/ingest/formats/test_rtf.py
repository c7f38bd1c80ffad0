"""RTF: its plain text."""

import pytest

from mcp_server_qdrant.ingest.formats.load import load
from tests.ingest.formats.archives import refused

FILE = rb"""{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Times;}}{\*\generator x;}
\b Roses\b0 : gr\'fc\'dfe, \u8364?5\par In March.}"""


def test_it_becomes_the_text_that_is_seen():
    (one,) = load("n/a/x.rtf", FILE).texts

    assert one.text.strip() == "Roses: grüße, €5\nIn March."
    assert one.title == "a/x"


@pytest.mark.parametrize("data", [rb"{\rtf1 }", rb"{\rtf1" + b"{" * 9_000])
def test_one_without_text_is_refused(data):
    assert refused("n/x.rtf", data) == "has no text"
