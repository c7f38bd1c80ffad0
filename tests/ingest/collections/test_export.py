"""A collection that is exported and ingested again is the same collection; on both engines."""

import json
import unicodedata
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcp_server_qdrant.core.datatypes import Document, NewDocument
from mcp_server_qdrant.core.errors import EngineFailure, RequestError
from mcp_server_qdrant.core.expiry import is_expired
from mcp_server_qdrant.core.notation import as_point_id
from mcp_server_qdrant.ingest.collections.export import MARKER, Exported, export
from mcp_server_qdrant.ingest.files.state import Report, SyncRequest
from mcp_server_qdrant.ingest.files.walk import sources
from mcp_server_qdrant.ingest.formats.load import load
from mcp_server_qdrant.qdrant.read.lookup import join_chunks
from mcp_server_qdrant.qdrant.texts import Texts
from mcp_server_qdrant.qdrant.write.bulk import Bulk
from mcp_server_qdrant.settings.engine import CONTENT_FIELDS
from tests.support import COSINE, Engine, foreign

FORMS = ["markdown", "jsonl"]
LONG = "\n".join(
    f"## Pier {n}\r\n\nBoat {n} lies here,\nbeside   the crane.\n\n\n\t- rope {n}\n" * 4
    for n in range(40)
)
NOTES = [
    NewDocument("The key is under the pot.", id="key"),
    NewDocument("  Indented, and it ends with lines.\n\n\n", title=" Boats: a history "),
    NewDocument(
        "---\ntitle: no front matter\n---\nIt is a text. \u2028 \x85 \U0001f600",
        tags=("a, b", " c ", "Ä"),
    ),
    NewDocument(
        LONG, id="long/one.md", title="# Harbours", metadata={"n": [1, 2.5e-07, None, {"x": True}]}
    ),
    NewDocument(
        "An old one.",
        id="old",
        source="https://example.com/a?b=c#d",
        created_at=datetime(2019, 5, 4, 3, 2, 1, 123000, tzinfo=UTC),
        metadata={"date": "2018-01-01", "---": "x\n---\n", "title": "inner"},
    ),
    NewDocument("CON and con are no names.", title="CON"),
    NewDocument("con and CON are no names.", title="con"),
    NewDocument("Half price until spring.", id="offer", expires="2031-03-01T00:00:00Z"),
    NewDocument("![p](data:image/png;base64," + "iVBORw0KGgo" * 200 + ") and more."),
    NewDocument("日本語の文章です。" * 300, title="港" * 200, tags=("#sail", "null", "1.0", "yes")),
]


def bulk(engine: Engine) -> Bulk:
    return Bulk(engine, Texts(CONTENT_FIELDS))  # type: ignore[arg-type]


async def fill(services: Any) -> None:
    """Texts of all kinds, one superseded by another, one by a text in another collection."""
    for new in NOTES:
        await services.store.store(new, "notes", create=True)
    olds = [one for one in await stored(services.store.points, "notes") if one.document == "old"]
    await services.store.store(NewDocument("A new one.", id="new"), "notes", supersedes=olds)
    olds = [one for one in await stored(services.store.points, "notes") if one.document == "key"]
    await services.store.store(
        NewDocument("Elsewhere.", id="there"), "others", create=True, supersedes=olds
    )


async def stored(points: Any, name: str) -> list[Document]:
    """The texts of a collection, whole."""
    found = await points.matching(name, None, whole=True)
    heads = [one for one in found if one.head is None]
    long = [head for head in heads if head.document and head.chunks > 1]
    whole = {
        head.id: join_chunks(await points.parts(head, 0, head.chunks - 1), head) for head in long
    }
    return [whole.get(head.id, head) for head in heads]


def compared(texts: list[Document]) -> dict[str, tuple[Any, ...]]:
    """Id -> what must be the same of a text wherever it is."""
    names = "text title source tags metadata created_at expires superseded_by superseded_in"
    return {one.document or str(one.id): attrgetter(*names.split())(one) for one in texts}


def quiet(name: str, done: int, total: int) -> None:
    """Tell nobody."""


async def ingest(services: Any, folder: Path, name: str) -> Report:
    request = SyncRequest(tuple(sources([folder])), name, create=True)
    return await services.sync(request)  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", FORMS)
async def test_an_export_that_is_ingested_is_the_same_collection(engine, services, tmp_path, form):
    await fill(services)
    before = await stored(services.store.points, "notes")
    done = await export(bulk(engine), "notes", tmp_path / "out", form, quiet, replace=False)
    report = await ingest(services, tmp_path / "out", "again")
    after = await stored(services.store.points, "again")

    assert (report.problems, report.notes) == ([], [])
    assert done.texts == len(before) == len(NOTES) + 1
    assert any(one.chunks > 1 for one in await services.store.points.matching("again", None))
    assert compared(after) == compared(before)
    assert (await services.catalog.target("again")).expiring
    heirs = {one.document: one.heir for one in after}
    assert heirs["old"] == services.store.points.identify("again", "new", 0)
    assert heirs["key"] == services.store.points.identify("others", "there", 0)


async def test_what_has_expired_stays_so(engine, services, tmp_path):
    await services.store.store(
        NewDocument("Gone.", id="x", expires="2020-01-01T00:00:00Z"), "notes"
    )
    await export(bulk(engine), "notes", tmp_path / "out", "markdown", quiet, replace=False)
    await ingest(services, tmp_path / "out", "again")
    (one,) = await stored(services.store.points, "again")
    assert is_expired(one, datetime.now(UTC))
    assert (await services.catalog.target("again")).expiring


async def test_files_of_a_collection_that_was_ingested_keep_their_ids_and_headings(
    engine, services, tmp_path
):
    folder = tmp_path / "boats"
    folder.mkdir()
    text = "# Boats\n\n## Ropes\n\nA rope.\n\n## Oars\n\nTwo.\n"
    text = f"---\ntags: [sea]\ndate: 2024-05-01\n---\n{text}"
    (folder / "a.md").write_text(text)
    (folder / "b.txt").write_text("No date here.\n")
    await ingest(services, folder, "notes")
    before = await stored(services.store.points, "notes")
    await export(bulk(engine), "notes", tmp_path / "out", "markdown", quiet, replace=False)
    await ingest(services, tmp_path / "out", "again")
    after = await stored(services.store.points, "again")

    assert compared(after) == compared(before)
    assert {one.document for one in after} == {"boats/a.md", "boats/b.txt"}
    sections = [{one.document: one.sections for one in texts} for texts in (after, before)]
    assert sections[0] == sections[1]


@pytest.mark.parametrize("form", FORMS)
async def test_texts_of_other_tools_are_exported_and_points_without_a_text_counted(
    engine, services, tmp_path, form
):
    await foreign(
        engine,
        "theirs",
        {
            1: {"page_content": "The lighthouse is white.", "metadata": {"source": "a.pdf"}},
            2: {"page_content": "The crane is red.", "metadata": {"tags": ["x"]}},
            3: {"size": 4},
        },
        vectors=COSINE,
    )
    before = [one for one in await stored(services.store.points, "theirs") if not one.textless]
    done = await export(bulk(engine), "theirs", tmp_path / "out", form, quiet, replace=False)
    await ingest(services, tmp_path / "out", "ours")
    after = await stored(services.store.points, "ours")

    assert (done.texts, done.textless) == (2, 1)
    assert compared(after) == compared(before)
    assert {as_point_id(str(one.document)) for one in after} == {1, 2}


async def test_what_a_person_changes_in_plain_keys_wins(engine, services, tmp_path):
    out = tmp_path / "out"
    new = NewDocument("A boat.", id="x", title="Boat", tags=("a",), metadata={"n": 1})
    await services.store.store(new, "notes")
    await export(bulk(engine), "notes", out, "markdown", quiet, replace=False)
    (file,) = out.glob("*.md")
    text = file.read_text().replace("title: Boat", "title: Ship\nowner: Ana")
    text = text.replace("- a\n", "- b\n- c\n").replace("A boat.", "A ship. #sail")
    file.write_text(text)
    await ingest(services, out, "again")
    (one,) = await stored(services.store.points, "again")

    assert (one.document, one.text, one.title) == ("x", "A ship. #sail", "Ship")
    assert (one.tags, one.metadata) == (("b", "c"), {"n": 1, "owner": "Ana"})


@pytest.mark.parametrize(
    ("front", "own"),
    [
        ('{"id": 5}', None),
        ('{"id": ""}', None),
        ("{", None),
        ("[1]", None),
        ("{" * 900 + "}" * 900, None),
        ('{"id": "x", "metadata": [1], "expires": {}, "superseded_by": 4, "sections": "a"}', "x"),
        ('{"id": "x", "metadata": {"n": ' + "9" * 40 + "}}", "x"),
    ],
)
def test_a_damaged_record_is_plain_front_matter_and_no_traceback(front, own):
    rest = "title: 5\ntags: [1, null, a, a]\ntimestamp: 2024-02-30\nresource: [1]"
    data = f"---\n{rest}\nmcp_server_qdrant: {front}\n---\nA boat.\n".encode()
    (text,) = load("n/a.md", data).texts
    row = json.dumps({"id": "y", "text": "A boat.", "title": 5, "tags": [1, "a"]})[:-1]
    lines = f'{row}, "mcp_server_qdrant": {front}}}\n{{"text": "z", "id": "z"}}'.encode()

    assert (text.id, text.text[-8:]) == (own, "A boat.\n")
    assert "z" in [one.id for one in load("n/a.jsonl", lines).texts]


async def test_front_matter_is_that_of_the_open_knowledge_format(engine, services, tmp_path):
    when = datetime(2024, 5, 1, tzinfo=UTC)
    new = NewDocument("A boat.", title="Boat: a", tags=("a",), source="u", created_at=when)
    await services.store.store(new, "notes")
    await export(bulk(engine), "notes", tmp_path / "out", "markdown", quiet, replace=False)
    (file,) = (tmp_path / "out").glob("*.md")
    front = yaml.safe_load(file.read_text().split("---\n")[1])
    record = front.pop("mcp_server_qdrant")

    assert front == {
        "type": "text",
        "title": "Boat: a",
        "tags": ["a"],
        "timestamp": "2024-05-01T00:00:00Z",
        "resource": "u",
    }
    assert [*record] == ["id"]


async def test_names_of_files_are_safe_on_all_systems(engine, services, tmp_path):
    titles = ["CON", "con", "a/b\\c:d*?", "..", " .hidden", "x" * 900, "é", "e\u0301", "end. "]
    for title in [*titles, "終" * 900, "node_modules"]:
        await services.store.store(NewDocument(f"About {title}", title=title), "notes")
    done = await export(bulk(engine), "notes", tmp_path / "out", "markdown", quiet, replace=False)
    names = [one.name for one in (tmp_path / "out").glob("[!.]*")]

    assert len({unicodedata.normalize("NFC", one).casefold() for one in names}) == done.files
    assert all(len(one.encode()) < 255 and set(one).isdisjoint('/\\:*?"<>| ') for one in names)
    assert all(one.rpartition("-")[0].casefold().split(".")[0] != one for one in names)
    assert not any(one.startswith((".", "session-", "node_modules.")) for one in names)


async def test_only_an_export_is_replaced_and_only_when_asked_to(engine, services, tmp_path):
    out, own = tmp_path / "out", tmp_path / "own"
    own.mkdir()
    (own / "diary.md").write_text("mine")
    await services.store.store(NewDocument("One."), "notes")
    whole = bulk(engine)
    await export(whole, "notes", out, "markdown", quiet, replace=False)
    with pytest.raises(RequestError, match="holds an export"):
        await export(whole, "notes", out, "jsonl", quiet, replace=False)
    with pytest.raises(RequestError, match="is not empty and not an export"):
        await export(whole, "notes", own, "markdown", quiet, replace=True)
    done = await export(whole, "notes", out, "jsonl", quiet, replace=True)

    assert done == Exported(texts=1, files=1)
    assert {one.name for one in out.iterdir()} == {MARKER, "texts-001.jsonl"}
    assert json.loads((out / MARKER).read_text()) == {"collection": "notes", "texts": 1}
    assert (own / "diary.md").read_text() == "mine"


@pytest.mark.parametrize("form", FORMS)
async def test_a_failure_leaves_what_was_there(engine, services, tmp_path, form):
    out = tmp_path / "out"
    await services.store.store(NewDocument("One."), "notes")
    await export(bulk(engine), "notes", out, form, quiet, replace=False)
    before = {one.name: one.read_bytes() for one in out.iterdir()}
    engine.broken_methods["scroll"] = EngineFailure("away")
    with pytest.raises(EngineFailure):
        await export(bulk(engine), "notes", out, form, quiet, replace=True)

    assert {one.name: one.read_bytes() for one in out.iterdir()} == before
    assert {one.name for one in tmp_path.iterdir()} - {"engine"} == {"out"}
