"""What a search covers in a project's folder, where it names no collections."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MEMORY = "memory"  # what is stored where no collection is named
SESSIONS = "sessions"  # what was said in sessions of coding clients
ALL = "all"  # as the project of a text


@dataclass(frozen=True, slots=True)
class Scope:
    """The collections that are searched by default in a folder.

    `own` ones belong to the folder, or to one above. `shared` ones are for all projects, without
    the texts whose `metadata.project` is one of `others`. Of `sessions`, where there are any, only
    those of the `projects`, or of none, count.
    """

    own: tuple[str, ...]
    shared: tuple[str, ...]
    sessions: tuple[str, ...]
    projects: frozenset[str]
    others: frozenset[str]

    @property
    def names(self) -> tuple[str, ...]:
        """All collections that are searched."""
        return *self.own, *self.shared, *self.sessions


def scope_of(
    place: Path, folders: Mapping[str, Sequence[Path]], around: Mapping[str, Path], default: str
) -> Scope:
    """The scope of a place.

    `folders` are those of each collection, and `around` are those around the place. A text names
    its project by a collection, by a folder's name, or by a path: that of a session is the one it
    ran in, so the paths from the place up to the outermost folder with collections count.
    """
    top = min(len(one.parts) for one in around.values())
    starts = (place, Path(os.path.realpath(place)))
    paths = [one for start in starts for one in (start, *start.parents) if len(one.parts) >= top]
    projects = {ALL, *_called(around, paths)}
    apart = {name: some for name, some in folders.items() if some and name not in around}
    others = _called(apart, [one for some in apart.values() for one in some]) - projects
    free = folders.keys() - around.keys() - apart.keys()
    return Scope(
        (*around,),
        (*sorted({MEMORY, default} & free),),
        (*({SESSIONS} & free),),
        frozenset(projects),
        frozenset(others),
    )


def _called(collections: Iterable[str], folders: Iterable[Path]) -> set[str]:
    """What a text may call these projects; an engine compares capitals, which people vary."""
    known = [*folders]
    names = [*collections, *(one.name for one in known)]
    forms = (str.lower, str.capitalize, str.title, str.upper)
    return {*map(str, known), *names, *(form(name) for form in forms for name in names)}
