"""The version of a Qdrant server."""


def at_least(version: str, least: tuple[int, int]) -> bool:
    """True where the server is of that version or newer."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= least
