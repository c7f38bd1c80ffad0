"""Named tokens: a file of their hashes, and one token from the environment.

The file is a list, in YAML or JSON; `expires` and `claims` may be left out:

    - {name: ana, sha256: <64 hex digits>, scopes: [read], claims: {team: x}, expires: 2027-01-31}

A plain hash does, since tokens are random and long: there is nothing to guess.
"""

import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from mcp_server_qdrant.access import Caller
from mcp_server_qdrant.auth.scopes import granted
from mcp_server_qdrant.errors import ConfigError, Unauthorized

logger = logging.getLogger(__name__)

PREFIX = "mqd_"  # lets scanners for leaked secrets know it
RANDOM_BYTES = 32
SINGLE = "(AUTH_TOKEN)"  # no name of a token in a file can be this


class Entry(BaseModel):
    """One token of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$", repr=False)]
    scopes: Annotated[tuple[Literal["read", "write", "admin"], ...], Field(min_length=1)]
    claims: dict[str, Any] = {}
    expires: datetime | None = None

    @property
    def caller(self) -> Caller:
        """Who has this token."""
        return Caller(self.name, granted(self.scopes), self.claims)

    def ended(self, now: datetime) -> bool:
        """Whether its time is over; without a zone it is UTC."""
        end = self.expires
        return end is not None and now >= (end if end.tzinfo else end.replace(tzinfo=UTC))


def digest(token: str) -> str:
    """What is stored of a token: its SHA-256 in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    """A token that nobody can guess: 256 random bits."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def parse(text: str, *, as_json: bool) -> tuple[Entry, ...]:
    """The tokens of a file. Raises ConfigError, whose text holds nothing of the file."""
    found = _load(text, as_json=as_json)
    try:
        entries = TypeAdapter(tuple[Entry, ...]).validate_python(found or ())
    except ValidationError as error:
        raise ConfigError(f"AUTH_TOKENS_FILE: {_fault(error)}.") from None
    for what in ("name", "sha256"):
        if len({getattr(entry, what) for entry in entries}) < len(entries):
            raise ConfigError(f"AUTH_TOKENS_FILE: two tokens have the same {what}.")
    return entries


def _load(text: str, *, as_json: bool) -> Any:
    import yaml

    try:
        return json.loads(text) if as_json else yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        kind = "JSON" if as_json else "YAML"
        raise ConfigError(f"AUTH_TOKENS_FILE is not sound {kind}.") from None


def _fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    number, *inside = first["loc"] or ("",)
    if not isinstance(number, int):
        return "it must be a list of tokens"
    field = inside[0] if inside and inside[0] in Entry.model_fields else "another field"
    return f"token {number + 1}: {field}: {first['msg']}"


class NamedTokens:
    """Who has which token. The file is read again when it changes."""

    def __init__(
        self, path: Path | None, single: str | None, now: Callable[[], datetime] | None = None
    ) -> None:
        """Raises ConfigError where the file cannot be used."""
        self._path = path
        self._now = now or (lambda: datetime.now(UTC))
        self._single: list[Entry] = []
        if single:
            hashed = digest(single)
            self._single = [Entry.model_construct(name=SINGLE, sha256=hashed, scopes=("admin",))]
        self._entries: Sequence[Entry] = ()
        self._seen: tuple[int, ...] | None = None
        if path:
            self._seen = _signature(path)
            self._entries = read(path)

    async def caller(self, token: str) -> Caller:
        """Who has this token. Raises Unauthorized."""
        self._follow()
        wanted, found = digest(token), None
        for entry in [*self._single, *self._entries]:  # all of them: time tells nothing
            if hmac.compare_digest(entry.sha256, wanted):
                found = entry
        if found is None:
            raise Unauthorized("The token is not known here.")
        if found.ended(self._now()):
            raise Unauthorized("The token has expired.")
        return found.caller

    def _follow(self) -> None:
        """Read the file again if it is another than before; a broken one changes nothing."""
        if self._path is None or (signature := _signature(self._path)) == self._seen:
            return
        self._seen = signature
        try:
            self._entries = read(self._path)
        except ConfigError as error:
            logger.warning("%s The tokens read before go on.", error)
        else:
            logger.info("AUTH_TOKENS_FILE was read again: %d tokens.", len(self._entries))


def _signature(path: Path) -> tuple[int, ...] | None:
    """What changes with a file; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def read(path: Path) -> tuple[Entry, ...]:
    """The tokens in a file. Raises ConfigError."""
    return parse(_text(path), as_json=path.suffix == ".json")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"AUTH_TOKENS_FILE cannot be read: {reason}.") from None


def line(entry: Mapping[str, Any]) -> str:
    """A token as a line of the file in YAML."""
    return f"- {json.dumps(entry, ensure_ascii=False)}\n"


def add(path: Path, entry: Mapping[str, Any]) -> None:
    """Write one token more into a file, made where there is none, for its owner alone.

    What stands there stays as it is, comments too. Raises ConfigError, and then changes nothing.
    """
    as_json, exists = path.suffix == ".json", path.exists()
    text = _text(path) if exists else ""
    parse(text or "[]", as_json=as_json)
    if as_json:
        text = json.dumps([*json.loads(text or "[]"), entry], indent=1, ensure_ascii=False) + "\n"
    else:
        text = text + ("" if not text or text.endswith("\n") else "\n") + line(entry)
    parse(text, as_json=as_json)
    try:
        if not exists:
            path.touch(mode=0o600)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(f"The file cannot be written: {error.strerror}.") from None
