"""The texts of hits: documents, titles, and the words in them."""

from collections.abc import Callable, Collection

from mcp_server_qdrant.core.datatypes import Document, Hit, Payload, PointId
from mcp_server_qdrant.core.notation import Identify, point_id
from mcp_server_qdrant.search.quotes import Quote, Tokens, Words, quote

KEPT = 512  # documents: several steps of a search use the same ones


class Texts:
    """Gives the document and title behind a hit whose payload was fetched.

    `read` makes a document of a payload, `reader` what gives the BM25 terms of texts like one;
    `identify` tells where the first part of a text is.
    """

    def __init__(
        self,
        read: Callable[[str, PointId, Payload | None], Document],
        title: Callable[[Payload | None], str | None],
        reader: Callable[[str], Tokens],
        identify: Identify = point_id,
    ) -> None:
        self.reader = reader
        self._read = read
        self._title = title
        self._identify = identify
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

    def first_of(self, collection: str, text: str) -> PointId:
        """The first part of the text of this id."""
        return self._identify(collection, text, 0)

    def title(self, hit: Hit) -> str | None:
        """The title of a hit, in a fraction of the time of its document."""
        return self._title(hit.payload)

    def quote(self, words: Words, hit: Hit, room: int) -> Quote:
        """What is shown of one part, in at most `room` characters."""
        document = self.document(hit)
        sections = ((0, document.section or ""), *document.sections)
        return quote(document.text, sections, words, room, document.title)

    def written(self, hit: Hit) -> str:
        """All that is written in a hit: title, section, source and text."""
        document = self.document(hit)
        return "\n".join(filter(None, (document.heading, document.source, document.text)))

    def gist(self, words: Words, hit: Hit, length: int) -> str:
        """Title and text of a hit; of a long text the `length` characters nearest the query."""
        document = self.document(hit)
        text = document.text
        if len(text) > length:
            text = quote(text, (), words, length).text
        return f"{document.title}\n{text}" if document.title else text
