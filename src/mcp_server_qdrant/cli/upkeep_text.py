"""The results of upgrades and copies, as sentences."""

from collections.abc import Sequence

from mcp_server_qdrant.core.notation import called
from mcp_server_qdrant.ingest.collections.upgrade import Upgraded


def upgraded(done: Upgraded, model: str | None, seconds: float, mapped: str | None = None) -> str:
    """The result of an upgrade; `mapped` is the collection's model in the settings."""
    got = f"the vectors of {model}" if model else "keywords"
    place = called(done.collection)
    said = [f"{place}: all points had {got} already."]
    if done.points:
        said = [f"{place}: {done.points:,} points got {got} in {seconds:.1f} s."]
    if done.textless:
        have = "has" if done.textless == 1 else "have"
        said.append(f"{done.textless:,} {have} no text to make them of.")
    if done.copied:
        said.append(f"{done.copied} So it was copied, and its name leads to the copy.")
    if done.kept:
        said.append(
            f"Kept for other programs: {_names(done.kept)}; --drop-old removes what is old."
        )
    if done.dropped:
        said.append(f"Removed: {_names(done.dropped)}.")
    if model and mapped and mapped != model:
        said.append(f"COLLECTION_MODELS still names {mapped} for it: change that.")
    return " ".join(said)


def accepted(name: str, lost: int, left: int | None) -> str:
    """The result of accepting a loss."""
    if left is None:
        return f"{name}: forgotten; its data ({lost:,} points) was gone."
    if not lost:
        return f"{name}: no points are missing; it has {left:,}."
    return f"{name}: goes on with {left:,} points, without the {lost:,} that are missing."


def _names(vectors: Sequence[str]) -> str:
    return ", ".join(called(name) if name else "(unnamed)" for name in vectors)


def copied(name: str, written: int, total: int, seconds: float) -> str:
    """The result of a copy."""
    if not written:
        return f"{called(name)}: both hold the same {total:,} points."
    return f"{called(name)}: {written:,} points copied in {seconds:.1f} s; both hold {total:,}."
