"""Output folders of commands: they appear only when complete, and replace only their own kind."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mcp_server_qdrant.core.disk import locked, sync_folder
from mcp_server_qdrant.core.errors import EngineFailure, RequestError

OVERWRITE = "pass --overwrite to replace"


@contextmanager
def drafted(folder: Path, marker: str, kind: str, *, replace: bool) -> Iterator[Path]:
    """Yield a draft folder, which becomes `folder` if the body ends without an error.

    `kind` is `a backup` or `an export`. Only a folder that contains the file `marker` may be
    replaced. The folder is locked meanwhile. Raises RequestError, or EngineFailure if the draft
    cannot be written.
    """
    draft, noun = folder.with_name(f".{folder.name}.part"), kind.rsplit(maxsplit=1)[-1]
    with ExitStack() as ending:
        _begin(folder, marker, kind, ending, replace=replace)
        try:
            ending.callback(shutil.rmtree, draft, ignore_errors=True)
            shutil.rmtree(draft, ignore_errors=True)  # left by a killed command
            draft.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise RequestError(f"{folder} cannot be created: {error.strerror}.") from error
        try:
            yield draft
            _finish(folder, draft)
        except OSError as error:
            raise EngineFailure(f"The {noun} cannot be written: {error.strerror}.") from error


def _begin(folder: Path, marker: str, kind: str, ending: ExitStack, *, replace: bool) -> None:
    """Lock the folder until `ending` closes. Raises RequestError if it must not be replaced."""
    noun = kind.rsplit(maxsplit=1)[-1]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        ending.enter_context(locked(folder, 0.0))
    except TimeoutError as error:
        raise RequestError(
            f"Another {noun} into {folder} is running: wait for it, or name another folder."
        ) from error
    except OSError as error:
        raise RequestError(f"{folder} cannot be created: {error.strerror}.") from error
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"{folder} is a file: name a folder.")
    if folder.exists() and any(folder.iterdir()):
        if not (folder / marker).is_file():
            raise RequestError(f"{folder} is not empty and not {kind}: name another folder.")
        if not replace:
            raise RequestError(f"{folder} holds {kind}: name another folder, or {OVERWRITE} it.")


def _finish(folder: Path, draft: Path) -> None:
    """Replace the folder by the draft."""
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    draft.rename(folder)
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)
