"""The files that are wanted, and the texts that rows of their tables become."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

PARTS = ("text", "title", "id", "date", "tags")
COLUMN = re.compile(r"\{([^{}]+)\}")
EXAMPLE = "title={name}"


@dataclass(frozen=True)
class RowTemplate:
    """Pairs of a part of a text and its template, in which `{column}` stands for a cell."""

    parts: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "RowTemplate":
        r"""The template of these parts; `\n` begins a new line. Raises ValueError."""
        for part, template in given.items():
            if part not in PARTS:
                raise ValueError(f"a text has no part {part!r}: there are {', '.join(PARTS)}")
            if not isinstance(template, str) or not COLUMN.search(template):
                raise ValueError(f"{part} names no column: write one in braces, as in {EXAMPLE}")
            if re.search("[{}]", COLUMN.sub("", template)):
                raise ValueError(f"{part} has a brace without its partner: {template}")
        return cls(tuple((part, text.replace("\\n", "\n")) for part, text in given.items()))

    @cached_property
    def columns(self) -> dict[str, None]:
        """The columns that it names, in their order."""
        return dict.fromkeys(name for _, text in self.parts for name in COLUMN.findall(text))

    @cached_property
    def digest(self) -> str:
        """A short name of this template among others."""
        return sha256(repr(self.parts).encode()).hexdigest()[:8]

    def filled(self, cells: Mapping[str, str]) -> dict[str, str]:
        """The parts of a row; one whose cells are all blank is left out."""
        return {
            part: COLUMN.sub(lambda found: cells.get(found[1], "").strip(), text).strip()
            for part, text in self.parts
            if any(cells.get(name, "").strip() for name in COLUMN.findall(text))
        }


@dataclass(frozen=True, slots=True)
class Selection:
    """Which files are wanted: patterns as in .gitignore, relative to the folder that was given.

    `follow_links`: links are read wherever they lead, and so are linked folders. `rows` says what
    is wanted of the rows of tables.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    follow_links: bool = False
    rows: RowTemplate | None = None
