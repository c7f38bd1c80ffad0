"""Stores what an agent says about a collection: its description and its folder."""

import asyncio
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp.types import CallToolResult

from mcp_server_qdrant.core.context import client_folder
from mcp_server_qdrant.core.errors import RequestError
from mcp_server_qdrant.core.fields import MAX_WORD
from mcp_server_qdrant.core.notation import cite, one_line
from mcp_server_qdrant.tools.boundary import make_result
from mcp_server_qdrant.tools.services import Services

KEYS = {"description": str, "folder": str, "follow": bool}
WANTED = 'about takes description and folder (texts; "" removes) and follow (true or false)'

FOLLOWED = "The folder is followed from now on; the same call with follow=false ends that."


async def tell_about(
    services: Services, about: Mapping[str, Any], collection: str | None, *, create: bool
) -> CallToolResult:
    """Store the description and the folder of a collection; creates it if `create`.

    A folder below the allowed roots is followed; otherwise the answer has the command for the
    person. Raises RequestError.
    """
    if any(not isinstance(value, KEYS.get(key, ())) for key, value in about.items()):
        raise RequestError(f"{WANTED}.")
    if collection is None or not about:
        raise RequestError(f"about needs collection_name and at least one value: {WANTED}.")
    (text,), _ = services.store.mask_all(about.get("description"))
    if len(text or "") > MAX_WORD:
        raise RequestError(f"The description is longer than {MAX_WORD:,} characters: shorten it.")
    folder = (
        await asyncio.to_thread(_resolve_folder, about["folder"]) if about.get("folder") else None
    )
    if about.get("follow") is not None and folder is None:
        raise RequestError('follow needs folder: "." is the current one.')
    folders = await services.annotate(
        collection, text, folder, unassign=about.get("folder") == "", create=create
    )
    said = [f"Updated collection {cite(collection)}."]
    if text is not None:
        said.append(f'Description: "{one_line(text)}".' if text else "It has no description.")
    values: dict[str, Any] = {"collection": collection}
    if "folder" in about:
        values["folder"] = str(folder or "")
        places = " and ".join(cite(str(one)) for one in folders)
        said.append(f"It belongs to {places}." if folder else "It has no folder.")
    if folder and (follow := about.get("follow")) is not None:
        if await services.follow(folder, collection, follow=follow):
            values["followed"] = follow
            said.append(FOLLOWED if follow else "The folder is no longer followed; its texts stay.")
        else:
            given = ["--folder", f"{folder}={collection}"] if follow else ["--remove", str(folder)]
            values["command"] = shlex.join(["mcp-server-qdrant", "init", *given])
            said.append(f"The user decides which folders are followed, with: {values['command']}")
    return make_result(" ".join(said), values)


def _resolve_folder(folder: str) -> Path:
    """The folder, relative to the client's. Raises RequestError if there is none."""
    here = client_folder()
    if here is None:
        raise RequestError(
            "A client over HTTP cannot set folders, which are on the server's machine."
        )
    place = (here / Path(folder).expanduser()).resolve()
    if not place.is_dir():
        raise RequestError(f"{one_line(folder)} is not a folder: give the path of one.")
    return place
