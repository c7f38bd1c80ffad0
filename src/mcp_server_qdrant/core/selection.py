"""The files of a folder that are wanted."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Selection:
    """Patterns as in .gitignore, relative to the folder that was given."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
