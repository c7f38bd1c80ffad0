"""Subtitles (SRT and WebVTT): what is said, with speakers; each minute is a section."""

import re
from html import unescape
from pathlib import PurePosixPath

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, Mark

CUE = re.compile(
    r"^[ \t]*(?:(?P<hours>\d+):)?(?P<minutes>\d\d?):\d\d[.,]\d{1,3}[ \t]*-->[^\n]*\n"
    r"(?P<text>(?:[ \t]*\S[^\n]*(?:\n|\Z))*)",
    re.MULTILINE,
)
VOICE = re.compile(r"<v(?:\.[^\s<>]{0,99})?[ \t]{1,9}([^<>]{1,200})>")
TAG = re.compile(r"</?[a-z\d][^<>]*>|\{\\[^{}]*\}", re.IGNORECASE)


def read(path: str, text: str) -> Contents:
    """The spoken lines, without immediate repetitions. Raises UnusableFile."""
    cues = list(CUE.finditer(text.replace("\r\n", "\n")))
    if not cues:
        raise UnusableFile("has no subtitles: no line is a time such as 00:01:02,000 --> 00:01:04")
    said, marks = "\n", list[Mark]()
    for cue in cues:
        for line in cue["text"].splitlines():
            shown = unescape(TAG.sub("", VOICE.sub(r"\1: ", line))).strip()
            if not shown or said.endswith(f"\n{shown}\n"):
                continue
            now = f"{int(cue['hours'] or 0):02}:{int(cue['minutes']):02}"
            if not marks or marks[-1].name != now:
                marks.append(Mark(len(said) - 1, 0, now))
            said += f"{shown}\n"
    return Contents([Loaded(said[1:], PurePosixPath(path).stem, marks=tuple(marks))])
