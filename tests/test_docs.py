"""The pages say what the code does: links, commands, extras, figures, settings, length."""

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from mcp_server_qdrant.cli.main import main
from mcp_server_qdrant.http.limits import Load
from mcp_server_qdrant.http.metrics import Metrics
from mcp_server_qdrant.settings.environment import Settings, environment_names
from tests.cli.conftest import invoke  # noqa: F401

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "benchmarks" / "README.md"]
READ = [README, *(ROOT / "docs").glob("*.md")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
MOST_WORDS = 1_500
# Other people's installers, in documents and in what the code prints.
INSTALLS = re.compile(
    r"\b(?:pip3? install|pipx (?:install|inject|run)|uv tool (?:install|run)|uvx)[ \t]+([^\n`]*)"
)
FIGURE = re.compile(r"nDCG@10 of 0\.|\b\d[\d,.]* (?:ms\b|MB/s|(?:texts|calls)(?:/s| per second))")
# What a setting needs beside it.
COMPANY = {
    "AUTH_TOKEN": {"AUTH_MODE": "token"},
    "AUTH_TOKENS_FILE": {"AUTH_MODE": "token"},
    "AUTH_ISSUER": {"AUTH_MODE": "oauth", "AUTH_AUDIENCE": "here"},
    "TENANT_CLAIM": {"TENANT_FIELD": "tenant"},
    "TENANT_ID": {"TENANT_FIELD": "tenant"},
}


def tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "scripts" / "readme_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(path: Path) -> str:
    return path.read_text("utf-8")


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text_of(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def blocks(path: Path) -> list[tuple[str, str]]:
    """The shell blocks of a page: "not-run" or "", and the lines."""
    return re.findall(r"^```(?:sh|bash)( not-run)?\n(.*?)^```$", text_of(path), re.DOTALL | re.M)


def commands(text: str) -> list[list[str]]:
    """The words behind `mcp-server-qdrant`, of each call in a shell block or a transcript.

    Settings may stand before it.
    """
    lines = [line.removeprefix("$ ") for line in text.replace("\\\n", " ").splitlines()]
    call = re.compile(r"(?:[A-Z_]+=\S+ +)*mcp-server-qdrant(?![:\w-])(.*)")
    calls = map(call.match, lines)
    return [shlex.split(one[1], comments=True) for one in calls if one]


@pytest.mark.parametrize("mark", ["tools", "settings"])
def test_the_tables_of_tools_and_settings_are_those_of_the_code(mark):
    script = tables()

    assert f"<!-- {mark} -->" in script.filled(mark)
    assert script.filled(mark) == script.TABLES[mark].read_text("utf-8")


def test_links_within_the_project_lead_to_files_and_headings_that_there_are():
    faults, seen = [], 0
    for page in PAGES:
        for link, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text_of(page)):
            seen += 1
            target = page.parent / link if link else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                faults.append(f"{page.name}: {link}#{anchor}")

    assert seen > 80
    assert faults == []


def test_every_page_is_named_in_the_readme():
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)", text_of(README)))

    assert {page.name for page in (ROOT / "docs").glob("*.md")} - linked == set()


def test_the_readme_is_short():
    assert len(text_of(README).split()) <= MOST_WORDS


def test_every_command_of_the_pages_is_one_of_this_program():
    found = [
        words
        for page in PAGES
        for text in re.findall(r"^```.*?\n(.*?)^```$", text_of(page), re.DOTALL | re.MULTILINE)
        for words in commands(text)
        if words and not words[0].startswith("-")
    ]
    faults = []
    for words in found:
        try:
            main.commands[words[0]].make_context(words[0], words[1:])
        except (KeyError, click.ClickException) as error:
            faults.append(f"{shlex.join(words)}: {error!r}")

    text = "".join(map(text_of, PAGES))
    inline = set(re.findall(r"`mcp-server-qdrant ([a-z][a-z-]+)", text))
    assert len(found) > 20
    assert faults == []
    assert inline
    assert inline <= main.commands.keys()


def runnable(page: Path) -> list[list[str]]:
    """The calls in blocks that are not marked `not-run`."""
    return [words for marked, text in blocks(page) if not marked for words in commands(text)]


@pytest.mark.parametrize("page", [*filter(runnable, READ)], ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page, invoke, model_dir, tmp_path, monkeypatch):  # noqa: F811
    """One after the other, in a home with notes that are stored."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "shed.md").write_text("# Shed\n\nThe key is under the flower pot.\n")
    (tmp_path / "tickets.csv").write_text(
        "no,subject,body,sent,labels\n1,Door,It sticks.,2026-05-31,door\n"
    )
    labelled = '[{"query": "key", "expect": {"ids": ["notes/shed.md"]}}]'
    (tmp_path / "labelled.json").write_text(labelled)
    env = {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "EMBEDDING_PROVIDER": "fastembed",
        "EMBEDDING_MODEL_PATH": str(model_dir),
    }
    known = "mcp-server-qdrant ingest ~/notes --collection notes"
    for words in [*commands(known), *runnable(page)]:
        paths = [re.sub("^~/", f"{tmp_path}/", word) for word in words]
        monkeypatch.chdir(tmp_path)
        done = invoke(*paths, **env)

        assert done.exit_code == 0, f"{shlex.join(words)}: {done.stderr}"


def installed(line: str) -> list[str]:
    """What an installer's line names, quotes and versions aside."""
    words = line.replace("'", " ").replace('"', " ").split("  #")[0].split()
    return [re.split(r"[\[=<>@]", word)[0] for word in words]


def test_no_printed_or_documented_line_can_install_the_official_server():
    """On PyPI `mcp-server-qdrant` is the official one, and ours may be on no index at all."""
    names = ("src", "scripts", "packaging", "docs", "demo", "deploy", "benchmarks", ".ci")
    files = [path for name in names for path in (ROOT / name).rglob("*") if path.is_file()]
    files += [*PAGES, ROOT / "Dockerfile", ROOT / "compose.yaml", ROOT / ".env.example"]
    lines = [
        (path, match)
        for path in files
        if path.suffix in {".md", ".py", ".sh", ".json", ".yaml", ".html", ".js", ""}
        if "__pycache__" not in path.parts
        for match in INSTALLS.findall(path.read_text("utf-8", errors="replace"))
    ]
    wrong = [
        f"{path.relative_to(ROOT)}: {line}"
        for path, line in lines
        if {"mcp-server-qdrant", PROJECT["name"]} & {*installed(line)}
        and not line.startswith(f"{PROJECT['name']} ")  # of pipx inject: into what
    ]

    assert len(lines) > 8
    assert wrong == []


def test_a_page_with_figures_names_the_scripts_that_make_them():
    silent, missing = [], []
    for page in READ:
        text = text_of(page)
        scripts = re.findall(r"benchmarks/[\w/]+\.py", text)
        missing += [f"{page.name}: {one}" for one in scripts if not (ROOT / one).exists()]
        if FIGURE.search(text) and not scripts and page.name != "internals.md":  # it has limits
            silent.append(page.name)

    assert missing == []
    assert silent == []
    outside = re.sub(r"<!-- transcript -->.*?<!-- /transcript -->", "", text_of(README), flags=re.S)
    assert FIGURE.findall(outside) == [], "the README has no figure but those of its transcript"


def test_the_metrics_and_log_lines_to_alert_on_are_those_of_the_code():
    page = text_of(ROOT / "docs" / "deployment.md")
    metrics = {*re.findall(r"mcp_qdrant_\w+", page)}
    rows = page.split("| line contains |")[1].split("\n\n")[0]
    lines = re.findall(r"`([^`]+)`", "".join(row.split(" | ")[0] for row in rows.splitlines()[2:]))
    code = "".join(map(text_of, sorted((ROOT / "src").rglob("*.py"))))
    parts = [part.strip() for line in lines for part in re.split("…| failed$", line)]

    assert len(metrics) > 4
    assert metrics <= {*re.findall(r"mcp_qdrant_\w+", Metrics(Load()).text("", "", {}).decode())}
    assert len(lines) > 8
    assert [part for part in parts if part not in code] == []


def test_every_setting_has_a_row_a_meaning_and_an_example_that_holds(tmp_path, monkeypatch):
    script, table = tables(), tables().settings_table()
    meanings = script.meanings()
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in ("models/all-MiniLM-L6-v2", "models/reranker"):
        (tmp_path / folder).mkdir(parents=True)
    for field, (name, *_) in environment_names().items():
        info = Settings.model_fields[field]
        value = script.example(name, info)

        assert f"`{name}`" in table
        assert meanings[field]
        assert value != script.shown(info.default), f"{name}: the example is the default"
        with monkeypatch.context() as environment:
            for variable, one in {**COMPANY.get(name, {}), name: value}.items():
                environment.setenv(variable, str(one))
            Settings()
