"""The texts of hits: documents, titles, and the words in them."""

from collections.abc import Callable, Collection

from mcp_server_qdrant.core.datatypes import Document, Hit, Payload, PointId
from mcp_server_qdrant.search.passage import Excerpt, Part, Tokens, Words, passage

KEPT = 512  # documents: several steps of a search use the same ones


class Texts:
    """Gives the document and title behind a hit whose payload was fetched.

    `read` makes a document of a payload, `reader` what gives the BM25 terms of texts like one.
    """

    def __init__(
        self,
        read: Callable[[str, PointId, Payload | None], Document],
        title: Callable[[Payload | None], str | None],
        reader: Callable[[str], Tokens],
    ) -> None:
        self.reader = reader
        self._read = read
        self._title = title
        self._known: dict[tuple[str, PointId], tuple[Payload | None, Document]] = {}

    def tokens(self, text: str) -> Collection[int]:
        """The BM25 terms of a text."""
        return self.reader(text)(text)

    def document(self, hit: Hit) -> Document:
        """The document of a hit."""
        key = hit.collection, hit.id
        payload, document = self._known.get(key, (None, None))
        if document is None or payload is not hit.payload:
            if len(self._known) >= KEPT:
                self._known.clear()
            document = self._read(hit.collection, hit.id, hit.payload)
            self._known[key] = hit.payload, document
        return document

    def title(self, hit: Hit) -> str | None:
        """The title of a hit, in a fraction of the time of its document."""
        return self._title(hit.payload)

    def passage(self, words: Words, hit: Hit, room: int) -> Excerpt:
        """The sentences of the document's found parts that answer best."""
        return passage([self._part(part) for part in (hit, *hit.parts)], words, room)

    def _part(self, hit: Hit) -> Part:
        document = self.document(hit)
        start, end = document.start, document.end
        placed = start is not None and end == start + len(document.text)
        sections = ((0, document.section or ""), *document.sections)
        return Part(document.text, hit.relevance, start if placed else None, sections)

    def written(self, hit: Hit) -> str:
        """All that is written in a hit: title, section, source and text."""
        document = self.document(hit)
        return "\n".join(filter(None, (document.heading, document.source, document.text)))

    def gist(self, words: Words, hit: Hit, length: int) -> str:
        """Title and text of a hit; of a long text the `length` characters nearest the query."""
        document = self.document(hit)
        text = document.text
        if len(text) > length:
            text = passage([Part(text)], words, length, enough=1.0).text
        return f"{document.title}\n{text}" if document.title else text
