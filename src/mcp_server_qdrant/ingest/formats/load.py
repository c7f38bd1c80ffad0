"""Bytes of a file -> the texts in it, by the format that its name tells."""

from collections.abc import Callable
from pathlib import PurePosixPath

from mcp_server_qdrant.core.errors import UnusableFile
from mcp_server_qdrant.ingest.formats.base import Contents, Loaded, decode, name_of

Loader = Callable[[str, bytes], Contents]


def load(path: str, data: bytes) -> Contents:
    """What a file holds; `path` ends with its name and begins with that of its source.

    Raises UnusableFile saying why there is no text to be had.
    """
    if not data:
        raise UnusableFile("is empty")
    contents = loader_of(path, data)(path, data)
    contents.texts = [text for text in contents.texts if text.text.strip()]
    if not contents.texts:
        raise UnusableFile(contents.notes[0] if contents.notes else "has no text")
    return contents


def loader_of(path: str, data: bytes) -> Loader:
    """What reads a file of this name; only a PDF is told by how it begins, too."""
    suffix = PurePosixPath(path).suffix.lower()
    if data.startswith(b"%PDF-"):
        suffix = ".pdf"
    kind = next((kind for kind, suffixes in SUFFIXES.items() if suffix in suffixes), "text")
    return _LOADERS[kind]


def many(path: str) -> bool:
    """Whether a file of this name is a list of texts, or a format larger than its text."""
    suffix = PurePosixPath(path).suffix.lower()
    return suffix in SUFFIXES["jsonl"] | SUFFIXES["pdf"]


def _load_text(path: str, data: bytes) -> Contents:
    return Contents([Loaded(decode(data), PurePosixPath(path).name)])


def _load_code(path: str, data: bytes) -> Contents:
    from mcp_server_qdrant.ingest.formats.code import marks

    text = decode(data)
    return Contents([Loaded(text, name_of(path), marks=marks(text))])


def _load_markdown(path: str, data: bytes) -> Contents:
    from mcp_server_qdrant.ingest.formats.markdown import read

    return read(path, decode(data))


def _load_html(path: str, data: bytes) -> Contents:
    from mcp_server_qdrant.ingest.formats.html import declared, read

    return read(path, decode(data, declared(data)))


def _load_pdf(path: str, data: bytes) -> Contents:
    from mcp_server_qdrant.ingest.formats.pdf import read

    return read(path, data)


def _load_jsonl(path: str, data: bytes) -> Contents:
    from mcp_server_qdrant.ingest.formats.jsonl import read

    return read(path, data)


SUFFIXES: dict[str, frozenset[str]] = {
    kind: frozenset(suffixes.split())
    for kind, suffixes in {
        "markdown": ".md .markdown .mdown .mdx .qmd .rmd",
        "html": ".html .htm .xhtml",
        "pdf": ".pdf",
        "jsonl": ".jsonl .ndjson",
        "code": (
            ".py .pyi .js .mjs .cjs .jsx .ts .tsx .java .kt .kts .scala .groovy .c .h .cc .cpp .cxx"
            " .hpp .hh .cs .go .rs .swift .m .mm .rb .php .pl .pm .lua .r .jl .dart .ex .exs .erl"
            " .hs .ml .fs .clj .elm .zig .nim .v .sh .bash .zsh .fish .ps1 .sql .css .scss .less"
            " .vue .svelte .proto .graphql .tf .gradle .cmake .yaml .yml .toml .ini .cfg .json .xml"
        ),
    }.items()
}
_LOADERS: dict[str, Loader] = {
    "markdown": _load_markdown,
    "html": _load_html,
    "pdf": _load_pdf,
    "jsonl": _load_jsonl,
    "code": _load_code,
    "text": _load_text,
}
