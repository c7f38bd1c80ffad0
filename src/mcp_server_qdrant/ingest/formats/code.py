"""Source code: where classes and functions begin, in most languages, by their first words."""

import re

from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, Mark, decode, name_of

SUFFIXES = (
    ".py .pyi .js .mjs .cjs .jsx .ts .tsx .java .kt .kts .scala .groovy .c .h .cc .cpp .cxx .hpp"
    " .hh .cs .go .rs .swift .m .mm .rb .php .pl .pm .lua .r .jl .dart .ex .exs .erl .hs .ml .fs"
    " .clj .elm .zig .nim .v .sh .bash .zsh .fish .ps1 .sql .css .scss .less .vue .svelte"
    " .proto .graphql .tf .gradle .cmake .yaml .yml .toml .ini .cfg .json .xml"
)

# The words before a name, as Python, JavaScript, Go, Rust, Java, Kotlin, Swift, C#, Ruby, PHP,
# Scala, Elixir and SQL have them. Methods without such a word, as in Java and C, go unseen.
DEFINITION = re.compile(
    r"^(?P<indent>[ \t]*)"
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|final|open|async|pub"
    r"(?:\([a-z]+\))?|unsafe|override|data|sealed|partial|virtual|local)[ \t]+)*"
    r"(?:class|def|defp|defmodule|function\*?|func|fun|fn|interface|struct|enum|trait|impl|module"
    r"|namespace|object|protocol|extension|record|CREATE[ \t]+(?:TABLE|VIEW|FUNCTION))[ \t]+"
    r"(?:\([^)\n]*\)[ \t]*)?(?P<name>[\w$.:<>]+)",
    re.MULTILINE,
)
TAB = "    "


def read(path: str, data: bytes) -> Contents:
    """The text as it is, with its definitions as marks."""
    text = decode(data)
    return Contents([Loaded(text, name_of(path), marks=marks(text))])


def marks(text: str) -> tuple[Mark, ...]:
    """The definitions in order; the deeper one is indented, the deeper it lies."""
    return tuple(
        Mark(found.start(), len(found["indent"].replace("\t", TAB)) + 1, found["name"])
        for found in DEFINITION.finditer(text)
    )
