"""Which file settings are read from, what paths in it mean, and what a person is told of it."""

import json
import sys
from pathlib import Path

import pytest

from mcp_server_qdrant.core.errors import ConfigError
from mcp_server_qdrant.settings.environment import Settings, environment_names, load

SHARED = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
RELATIVE = "is relative to the folder that the server happens to be started in: write an absolute"
PATHS = [
    "QDRANT_LOCAL_PATH",
    "QDRANT_CACHE_PATH",
    "FASTEMBED_CACHE_PATH",
    "EMBEDDING_MODEL_PATH",
    "QDRANT_FOLDER",
    "QDRANT_RECALL_PATH",
    "QDRANT_DAILY_BACKUP",
    "AUTH_TOKENS_FILE",
]


@pytest.fixture(autouse=True)
def clean(no_settings, monkeypatch, tmp_path):
    """Started in an empty folder, with nothing set; the user's own folders are empty."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)


def put(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    path.write_text("\n".join(lines))
    path.chmod(0o600)
    return path


def told(file: Path | None = None) -> tuple[Settings, list[str]]:
    said: list[str] = []
    return load(file, said.append), said


class TestFile:
    def test_the_one_that_is_named_is_read_and_the_environment_wins(self, monkeypatch, tmp_path):
        file = put(tmp_path / "any.env", "FASTMCP_PORT=1", "COLLECTION_NAME=notes", "UNKNOWN=x")
        monkeypatch.setenv("FASTMCP_SERVER_PORT", "2")
        settings, said = told(file)

        assert (settings.fastmcp_port, settings.collection_name) == (2, "notes")
        assert said == []

    def test_one_may_be_named_as_seen_from_where_the_command_is_called(self, tmp_path):
        put(tmp_path / "here" / "any.env", "COLLECTION_NAME=notes")

        assert load(Path("any.env")).collection_name == "notes"
        assert load(Path("../here/any.env")).collection_name == "notes"

    def test_else_the_one_in_the_users_own_folder_is_read(self, tmp_path):
        put(tmp_path / "config" / "mcp-server-qdrant" / ".env", "COLLECTION_NAME=notes")

        assert load().collection_name == "notes"
        assert load(put(tmp_path / "other", "FASTMCP_PORT=1")).collection_name is None

    def test_without_any_the_environment_alone_is_read(self):
        assert load() == Settings()

    @pytest.mark.parametrize("kind", ["CONFIG", "DATA", "CACHE"])
    def test_nothing_that_lies_where_the_server_starts_is_read(self, monkeypatch, kind):
        monkeypatch.setenv("HOME", ".")
        monkeypatch.setenv(f"XDG_{kind}_HOME", ".")
        for place in (".env", "mcp-server-qdrant/.env", ".config/mcp-server-qdrant/.env"):
            put(Path(place), "COLLECTION_NAME=notes", "QDRANT_SEARCH_LIMIT=nonsense")

        settings = load()

        assert settings.collection_name is None
        assert settings.local_path.is_absolute()
        assert settings.cache_path.is_absolute()

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("none", "The settings file .*/none cannot be read: No such file or directory."),
            ("folder", "The settings file .*/folder cannot be read: Is a directory."),
            ("binary", "The settings could not be read: .*"),
        ],
    )
    def test_one_that_cannot_be_read_is_a_sentence(self, tmp_path, name, sentence):
        (tmp_path / "folder").mkdir()
        put(tmp_path / "binary").write_bytes(b"COLLECTION_NAME=\xff")
        with pytest.raises(ConfigError, match=f"^{sentence}$"):
            load(tmp_path / name)

    @SHARED
    def test_one_that_others_may_write_is_refused(self, tmp_path):
        own = put(tmp_path / "config" / "mcp-server-qdrant" / ".env", "COLLECTION_NAME=notes")
        for file, named in ((own, None), (put(tmp_path / "any.env"), tmp_path / "any.env")):
            file.chmod(0o660)
            with pytest.raises(ConfigError) as caught:
                load(named)

            assert str(caught.value) == (
                f"The settings file {file} is not read: others can write to it: "
                f"run chmod go-w {file}."
            )


class TestLeftAlone:
    def test_a_file_that_lies_about_is_named_with_the_flag_that_reads_it(self):
        path = put(Path.cwd() / ".env", "A=1", "export Qdrant_Url=http://s3cret")
        settings, (sentence,) = told()

        assert settings.qdrant_url is None
        assert sentence == (
            f"{path} is not read, since the folder may be untrusted: if its settings are "
            f"yours, start with --env-file {path}"
        )

    def test_it_is_told_before_a_wrong_setting_is(self, monkeypatch):
        put(Path(".env"), "AUTH_TOKEN=x")
        monkeypatch.setenv("AUTH_MODE", "token")
        said = []
        with pytest.raises(ConfigError):
            load(None, said.append)

        assert len(said) == 1

    def test_nothing_is_said_where_it_is_the_one_that_is_named(self):
        path = put(Path(".env"), "COLLECTION_NAME=notes")
        link = Path("link")
        link.symlink_to(path)

        assert told(path)[1] == told(link)[1] == []

    @pytest.mark.parametrize("text", ["", "OTHER=QDRANT_URL", "# QDRANT_URL=x", "QDRANT_URL", "\0"])
    def test_nothing_is_said_of_one_for_other_programs(self, text):
        put(Path(".env"), text)

        assert told()[1] == []

    @pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "binary", "huge"])
    def test_nothing_that_lies_there_does_harm(self, kind):
        import os

        path = Path(".env")
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "loop":
            path.symlink_to(path)
        elif kind == "binary":
            path.write_bytes(bytes(range(256)) * 100)
        else:
            with path.open("wb") as file:
                file.truncate(1 << 40)

        assert told()[1] == []

    def test_a_folder_of_a_strange_name_is_told_in_one_line(self, monkeypatch, tmp_path):
        strange = tmp_path / "a\nmcp-server-qdrant: all is well\x1b[2J\u202e"
        put(strange / ".env", "QDRANT_URL=x")
        monkeypatch.chdir(strange)
        (sentence,) = told()[1]

        assert sentence.isprintable()

    def test_a_folder_that_is_gone_is_no_fault(self, monkeypatch, tmp_path):
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()

        assert told()[1] == []


class TestPaths:
    def test_every_path_is_looked_at(self):
        named = {n for n, info in Settings.model_fields.items() if "Path" in str(info.annotation)}

        assert {environment_names()[name][0] for name in named} == {*PATHS, "QDRANT_FOLLOW_ROOTS"}

    @pytest.mark.parametrize("variable", PATHS)
    @pytest.mark.parametrize("value", ["data", "../here/data"])
    def test_a_relative_one_in_the_environment_is_refused(self, monkeypatch, variable, value):
        Path("data").mkdir()
        monkeypatch.setenv(variable, value)
        with pytest.raises(ConfigError) as caught:
            load()

        assert str(caught.value) == f"{variable}: {value} {RELATIVE} path, or one from ~/."

    @pytest.mark.parametrize("variable", PATHS)
    def test_in_a_file_too(self, tmp_path, variable):
        with pytest.raises(ConfigError, match=f"^{variable}: data {RELATIVE}"):
            load(put(tmp_path / "any.env", f"{variable}=data"))

    @pytest.mark.parametrize("variable", PATHS)
    def test_the_home_folder_may_be_written_as_in_a_shell(self, monkeypatch, tmp_path, variable):
        folder = tmp_path / "home" / "data"
        folder.mkdir(parents=True)
        monkeypatch.setenv("AUTH_MODE", "token" if variable == "AUTH_TOKENS_FILE" else "none")
        file = put(tmp_path / "any.env", f"{variable}=~/data")
        field = next(name for name, names in environment_names().items() if variable in names)
        from_file = getattr(load(file), field)
        monkeypatch.setenv(variable, "~/data")

        assert from_file == getattr(load(), field) == folder

    def test_the_home_of_nobody_is_no_folder(self, monkeypatch, tmp_path):
        with pytest.raises(ConfigError, match="cannot be read: No such file"):
            load(Path("~nobody-of-this-name/any.env"))
        monkeypatch.setenv("QDRANT_LOCAL_PATH", "~nobody-of-this-name/data")
        with pytest.raises(ConfigError, match=RELATIVE):
            load()

    def test_each_of_several_paths_likewise(self, monkeypatch):
        monkeypatch.setenv("QDRANT_FOLLOW_ROOTS", "/notes, docs")
        with pytest.raises(ConfigError, match=f"docs {RELATIVE}"):
            load()

    @pytest.mark.parametrize("held", [{"docs": "c"}, [{"path": "docs", "collection": "c"}]])
    def test_folders_kept_in_step_likewise(self, monkeypatch, held):
        monkeypatch.setenv("SYNC_SOURCES", json.dumps(held))
        with pytest.raises(ConfigError, match=f"SYNC_SOURCES: path: docs {RELATIVE}"):
            load()
