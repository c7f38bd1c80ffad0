"""What is left out of a folder is what git leaves out."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from mcp_server_qdrant.core.datatypes import Selection
from mcp_server_qdrant.ingest.files.walk import Source, walk_all

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

NAMES = (
    *("a", "b", "foo", "docs", "sub", "private.txt", "x.md", "keep.md", "README.md"),
    *("logs.log", "x", "y", "a b", "é.md", "[x]", "x!y", "ü"),
)
PIECES = (
    *("*", "**", "***", "?", "a", "b", "foo", "docs", "sub", "keep.md", "*.md", "*.txt", "x.*"),
    *("[ab]*", "[!a]*", "[^b]", "[a-c]", "[z-a]", "foo[", "[]x]*", "[[:alpha:]]*", "x[!a]y"),
    *("a*b", "a**b", "*o*", "*[!.]md", r"\!x", r"\[x\]", r"\a", "b\\", "!", "é*"),
)
LINES = ("", "# a", "/", "!/", "//", "/*", "*", "!*/", "!/*/", "**/", "/**", r"\#a", "  ", "a//b")


def line(chance: random.Random) -> str:
    if chance.random() < 0.15:
        return chance.choice(LINES)
    path = "/".join(chance.choice(PIECES) for _ in range(chance.choice((1, 1, 1, 2, 3))))
    before = chance.choice(("", "", "!")) + chance.choice(("", "", "/"))
    end = chance.choice(("", "", "", " ", "\r", "\t"))
    return before + path + chance.choice(("", "", "/")) + end


def grow(chance: random.Random, folder: Path, depth: int = 0) -> None:
    for name in chance.sample(NAMES, chance.randint(2, 7)):
        if depth < 3 and "." not in name and chance.random() < 0.7:
            (folder / name).mkdir()
            grow(chance, folder / name, depth + 1)
        else:
            (folder / name).write_text("x")
    if not depth or chance.random() < 0.25:
        rules = "\n".join(line(chance) for _ in range(chance.randint(1, 5)))
        (folder / ".gitignore").write_bytes(rules.encode())


def of_git(folder: Path) -> list[str]:
    """What git would add, but for hidden files."""
    asked = ["git", "-c", "core.excludesFile=", "ls-files", "-z", "--others", "--exclude-standard"]
    found = subprocess.run(asked, cwd=folder, capture_output=True, check=True).stdout.decode()
    return sorted(one for one in found.split("\0") if one and not Path(one).name.startswith("."))


def ours(folder: Path) -> list[str]:
    seen = walk_all([Source("n", folder, folder=True)], Selection())
    return sorted(one.path.removeprefix("n/") for one in seen.files)


def repository(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_random_rules_leave_out_what_git_leaves_out(tmp_path, first):
    for seed in range(first, first + 25):
        folder = repository(tmp_path / str(seed))
        grow(random.Random(seed), folder)

        assert ours(folder) == of_git(folder), f"seed {seed}"


WRITTEN = {
    "only Markdown": ("*\n!*/\n!*.md", {}),
    "only one folder": ("/*\n!/docs/", {}),
    "nothing comes back out of a folder that is left out": ("docs/\n!docs/keep.md", {}),
    "all in a folder but one": ("docs/*\n!docs/keep.md", {}),
    "a folder below decides for itself": ("*.md", {"docs": "!*.md\nprivate.txt"}),
    "not the one that is left out": ("docs", {"docs": "!*"}),
    "a class of characters is never a slash": ("docs[!a]x.md", {}),
    "an escaped slash is one": (r"docs\/x.md", {}),
    "folders below": ("docs/**/", {}),
    "an editor's byte order mark": ("\ufeff*.md", {}),
    "line ends of Windows": ("*.md\r\n!keep.md\r\ndocs/\r\n", {}),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_rules_as_people_write_them(tmp_path, name):
    rules, below = WRITTEN[name]
    folder = repository(tmp_path)
    for place in ("", "docs", "docs/deep", "sub"):
        (folder / place).mkdir(exist_ok=True)
        for file in ("x.md", "keep.md", "private.txt"):
            (folder / place / file).write_text("x")
    for place, text in {"": rules, **below}.items():
        (folder / place / ".gitignore").write_bytes(text.encode())

    assert ours(folder) == of_git(folder)
