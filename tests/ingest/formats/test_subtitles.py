"""Subtitles: what is said, by minutes."""

import pytest

from mcp_server_qdrant.ingest.formats.load import load
from tests.ingest.formats.archives import refused

SRT = """1
00:00:01,000 --> 00:00:03,000
<i>Where is</i> the key?

2
00:00:03,000 --> 00:00:04,500
Where is the key?
Ada: {\\an8}In the shed &amp; dry.

3
01:02:03,000 --> 01:02:05,000
3 roses
"""
VTT = """WEBVTT - a talk

NOTE nobody reads this

intro
00:01.000 --> 00:03.000 align:start
<v.loud Ada Lovelace>Hello</v> <00:02.000><c>you</c>

01:01.000 --> 01:02.000
<v Bob>bye
"""


def test_srt_becomes_lines_and_a_section_per_minute():
    (one,) = load("n/talk.srt", SRT.replace("\n", "\r\n").encode("utf-8-sig")).texts

    assert one.text == "Where is the key?\nAda: In the shed & dry.\n3 roses\n"
    assert [(mark.start, mark.level, mark.name) for mark in one.marks] == [
        (0, 0, "00:00"),
        (42, 0, "01:02"),
    ]
    assert one.title == "talk"


def test_voices_of_webvtt_are_the_speakers():
    (one,) = load("n/talk.vtt", VTT.encode()).texts

    assert one.text == "Ada Lovelace: Hello you\nBob: bye\n"
    assert [mark.name for mark in one.marks] == ["00:00", "00:01"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"WEBVTT\n\nno cue", "has no subtitles: no line is a time such as 00:01:02,000 --> "),
        (b"1\n00:00:01,000 --> 00:00:02,000\n\n", "has no text"),
        (b"\0\1", "is binary"),
    ],
)
def test_what_is_no_subtitle_is_refused_with_the_reason(data, reason):
    assert refused("n/x.srt", data).startswith(reason)
