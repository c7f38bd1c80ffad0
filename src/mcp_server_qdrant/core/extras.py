"""The extras of this package, and how one is added to the installation that runs.

On PyPI `mcp-server-qdrant` is the official server, which must not be installed over this one. So
an extra is added by the names of its packages.
"""

import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "qdrant-collections-mcp"
NEEDED_BY = {
    "map": "A map with regions, on which near means alike,",
}
BUNDLED = "the bundle cannot have extras, an installation with pipx can"

_REQUIREMENT = re.compile(r"""([\w.-]+)[^;]*;\s*extra\s*==\s*["'](\w+)["']""")


def packages(extra: str) -> list[str]:
    """The packages that an extra consists of."""
    found = map(_REQUIREMENT.fullmatch, requires(DISTRIBUTION) or ())
    return sorted(one[1] for one in found if one and one[2] == extra)


def missing() -> list[str]:
    """The extras that are not installed."""

    def here(package: str) -> bool:
        try:
            version(package)
        except PackageNotFoundError:
            return False
        return True

    return [extra for extra in NEEDED_BY if not all(map(here, packages(extra)))]


def lacking(extra: str) -> str:
    """The sentence to a person who misses what an extra does."""
    return f"{NEEDED_BY[extra]} needs the extra {extra!r}: {adding(extra)}."


def adding(extra: str, prefix: Path | None = None) -> str:
    """The command that adds an extra to the environment in `prefix`, by default this one.

    For the bundle a clause that says why there is none.
    """
    prefix = prefix or Path(sys.prefix)
    names = packages(extra)
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx inject {prefix.name} {' '.join(names)}"
    if (prefix / "uv-receipt.toml").exists():
        wanted = " ".join(f"--with {name}" for name in names)
        return f"uv tool install {wanted} ./{DISTRIBUTION}"
    if (prefix.parent / "manifest.json").exists():
        return BUNDLED
    pip = "python -m pip" if find_spec("pip") else "uv pip"
    return f"{pip} install {' '.join(names)}"
