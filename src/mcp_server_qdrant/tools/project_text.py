"""A map in words: what an agent reads of it, in 1,500 bytes at most."""

from collections.abc import Iterable, Mapping

from mcp_server_qdrant.core.maps import Group, Panel, PlacedHit, View
from mcp_server_qdrant.core.notation import called, line, short_id
from mcp_server_qdrant.tools.text import noted

ROOM = 1_480  # bytes
TITLE = 60
GOOD, FAIR = 0.6, 0.3  # of the variance
NAMED = 3
REGIONS = 8


def view(shown: View, axes: int) -> str:
    """Panels, where the query fell, results, notes: as many lines of each as there is room."""
    if not shown.map.panels:
        return _fitting([["No map: there is nothing to draw."], _notes(shown)])
    queries = {one.place.panel: one for one in shown.queries}
    heads, groups, far, regions = [], [], [], []
    for index, panel in enumerate(shown.map.panels):
        heads.append(_head(panel, axes))
        if query := queries.get(index):
            heads.append(f"The query fell nearest to {_near(query.near)}.")
        regions += _regions(panel)
        groups += [_group(group) for group in panel.groups]
        far += [
            f"Far out: {called(one.collection)} (id {short_id(one.id)}), {one.far:.1f} deviations"
            f" · {line(one.title, TITLE)}"
            for one in panel.outliers[:NAMED]
        ]
    results = [_hit(one) for one in shown.hits]
    return _fitting([heads, results[:NAMED], regions, groups, _notes(shown), far, results[NAMED:]])


def _head(panel: Panel, axes: int) -> str:
    names = len(panel.groups)
    what = f"{names} collections" if names > 1 else called(panel.groups[0].collection)
    total = sum(group.total for group in panel.groups)
    drawn = f"{panel.count:,}" if panel.count == total else f"{panel.count:,} of {total:,}"
    return f"Map of {what}, {_points(drawn)}, by {line(panel.model)}. {picture(panel, axes)}"


def picture(panel: Panel, axes: int) -> str:
    """The quality of the axes, in words."""
    share = sum(panel.explained[:axes])
    if share <= 0:
        return "All its points are alike, and lie in one place."
    if share >= GOOD:
        said = "a good picture"
    elif share >= FAIR:
        said = "a fair picture"
    else:
        said = "a rough picture: what lies near on it need not be alike"
    return f"Its {axes} axes show {share:.0%} of the differences, {said}."


def _regions(panel: Panel) -> list[str]:
    """The panel's regions by their words, with the number of drawn points, on one line."""
    named = [f"{line(one.name, TITLE)} ({one.size:,})" for one in panel.regions[:REGIONS]]
    return [f"Regions: {'; '.join(named)}."] if named else []


def _group(group: Group) -> str:
    drawn = len(group.points.ids)
    count = f"{drawn:,}" if drawn == group.total else f"{drawn:,} of {group.total:,}"
    near = f", nearest {_near(group.near)}" if group.near else ""
    return f"- {called(group.collection)}: {_points(count)}, spread {group.spread:.2f}{near}"


def _points(count: str) -> str:
    return "1 point" if count == "1" else f"{count} points"


def _near(near: Mapping[str, float]) -> str:
    return ", ".join(
        f"{called(name)} ({cosine:.2f})" for name, cosine in list(near.items())[:NAMED]
    )


def _hit(one: PlacedHit) -> str:
    title = line(one.title, TITLE)
    place = f"{called(one.collection)} (id {short_id(one.id)})"
    return f"{one.rank}. [{one.relevance:.2f}] {place} · {title}"


def _notes(shown: View) -> list[str]:
    return noted([*shown.map.notes, *shown.notes, *(shown.page.notes if shown.page else ())])


def _fitting(parts: Iterable[list[str]]) -> str:
    """The lines of each part as long as there is room, and how many are left out."""
    kept: list[str] = []
    left, missing = ROOM, 0
    for part in parts:
        for said in part:
            size = len(said.encode()) + 1
            if missing == 0 and size <= left:
                kept.append(said)
                left -= size
            else:
                missing += 1
    if missing:
        kept.append(f"({missing} more)")
    return "\n".join(kept)
