"""What a search that names no collections covers in a project's folder."""

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

    `own` ones belong to the folder or to a parent. `shared` ones are for all projects, except
    texts whose `metadata.project` is one of `others`. Of `sessions`, only texts whose project is
    one of `projects` or not set are searched.
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

    `folders`: the folders of each collection; `around`: the innermost one that contains the place.
    The project of a text is a collection, a folder's name, or a path. A session has the path of its
    working directory, so all paths from the place up to the outermost of `around` count.
    """
    top = min(len(one.parts) for one in around.values())
    starts = (place, Path(os.path.realpath(place)))
    paths = [one for start in starts for one in (start, *start.parents) if len(one.parts) >= top]
    projects = {ALL, *_project_names(around, paths)}
    apart = {name: some for name, some in folders.items() if some and name not in around}
    others = _project_names(apart, [one for some in apart.values() for one in some]) - projects
    free = folders.keys() - around.keys() - apart.keys()
    return Scope(
        (*around,),
        (*sorted({MEMORY, default} & free),),
        (*({SESSIONS} & free),),
        frozenset(projects),
        frozenset(others),
    )


def _project_names(collections: Iterable[str], folders: Iterable[Path]) -> set[str]:
    """The values of `metadata.project` for these projects; engines compare them exactly."""
    known = [*folders]
    names = [*collections, *(one.name for one in known)]
    forms = (str.lower, str.capitalize, str.title, str.upper)
    return {*map(str, known), *names, *(form(name) for form in forms for name in names)}
