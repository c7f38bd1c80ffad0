"""Named tokens: a file of their hashes, and one token from the environment.

The file is a list in YAML, of which JSON is a part; `expires` and `claims` may be left out:

    - {name: ana, sha256: <64 hex digits>, scopes: [read], claims: {team: x}, expires: 2027-01-31}

A caller may have several. A plain hash does, since tokens are random and long: there is nothing to
guess.
"""

import hashlib
import hmac
import json
import logging
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from mcp_server_qdrant.core.context import Caller, granted
from mcp_server_qdrant.core.disk import others_may_write, write_atomically
from mcp_server_qdrant.core.errors import ConfigError, Unauthorized, VerifierUnavailable, contained
from mcp_server_qdrant.core.fields import no_such_key

logger = logging.getLogger(__name__)

PREFIX = "mqd_"  # lets scanners for leaked secrets know it
RANDOM_BYTES = 32
SINGLE = "(AUTH_TOKEN)"  # no name of a token in a file can be this
UNSOUND = "No token can be checked: the operator has to mend the file of AUTH_TOKENS_FILE."


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

    @property
    def end(self) -> datetime | None:
        """When its time is over; what is written without a zone is UTC."""
        end = self.expires
        return end.replace(tzinfo=end.tzinfo or UTC).astimezone(UTC) if end else None

    def ended(self, now: datetime) -> bool:
        """True once its time is over."""
        return self.end is not None and now >= self.end


def digest(token: str) -> str:
    """The SHA-256 of a token in hex, which is what is stored of it."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    """A token that nobody can guess: 256 random bits."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def parse(written: str) -> tuple[Entry, ...]:
    """The tokens of a file. Raises ConfigError, whose text holds nothing of the file."""
    with contained(lambda _: ConfigError("AUTH_TOKENS_FILE is not sound YAML.")):
        found = yaml.safe_load(written)
    try:
        entries = TypeAdapter(tuple[Entry, ...]).validate_python(found or ())
    except ValidationError as error:
        raise ConfigError(f"AUTH_TOKENS_FILE: {_fault(error)}.") from None
    if len({entry.sha256 for entry in entries}) < len(entries):
        raise ConfigError("AUTH_TOKENS_FILE: two tokens have the same sha256.")
    return entries


def _fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    number, *inside = first["loc"] or ("",)
    if not isinstance(number, int):
        return "it must be a list of tokens"
    place, field = f"token {number + 1}", str(inside[0]) if inside else None
    if field is None:
        return f"{place} must be a mapping with {', '.join(Entry.model_fields)}"
    if field not in Entry.model_fields:
        # It may be a token that was pasted into the wrong place.
        shown = field if re.fullmatch("[a-z_]{1,20}", field) else "…"
        return f"{place}: {no_such_key(shown, Entry.model_fields)}"
    return f"{place}: {field}: {first['msg']}"


class NamedTokens:
    """Who has which token. The file is read again when it changes.

    While it is gone or not sound, none of its tokens counts.
    """

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
        self._sound = True
        if path:
            self._seen = _signature(path)
            self._entries = read(path)

    async def caller(self, token: str) -> Caller:
        """Who has this token. Raises Unauthorized, VerifierUnavailable."""
        self._follow()
        found = self._find(digest(token))
        if found is None and not self._sound:
            raise VerifierUnavailable(UNSOUND)
        if found is None:
            raise Unauthorized("The token is not known here.")
        if found.ended(self._now()):
            raise Unauthorized("The token has expired.")
        return found.caller

    def _find(self, wanted: str) -> Entry | None:
        found = None
        for entry in [*self._single, *self._entries]:  # all of them: time tells nothing
            if hmac.compare_digest(entry.sha256, wanted):
                found = entry
        return found

    def _follow(self) -> None:
        """Read the file again where it changed, and for each request while it is not sound."""
        if self._path is None or (signature := _signature(self._path)) == self._seen:
            return
        try:
            self._entries, self._seen = read(self._path), signature
        except ConfigError as error:
            if self._sound:
                logger.warning("%s None of its tokens counts until it is mended.", error)
            self._entries, self._seen, self._sound = (), None, False
        else:
            self._sound = True
            logger.info("AUTH_TOKENS_FILE was read again: %d tokens.", len(self._entries))


def _signature(path: Path) -> tuple[int, ...] | None:
    """A value that changes with a file, whoever writes it and whatever time it is given."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size


def read(path: Path) -> tuple[Entry, ...]:
    """The tokens in a file that nobody else may write. Raises ConfigError."""
    try:
        fault = others_may_write(path)
    except OSError:
        fault = None  # reading it says more
    if fault:
        raise ConfigError(f"AUTH_TOKENS_FILE is not read: {fault}.")
    return parse(text(path))


def text(path: Path) -> str:
    """A file's text. Raises ConfigError."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"AUTH_TOKENS_FILE cannot be read: {reason}.") from None


def line(entry: Mapping[str, Any]) -> str:
    """A token as a line of the file."""
    return f"- {json.dumps(entry, ensure_ascii=False)}\n"


def change(path: Path, *more: Mapping[str, Any], without: str | None = None) -> None:
    """Write more tokens into a file, made where there is none, and drop the lines of a name.

    It is replaced as a whole: a server that reads it meanwhile sees the old tokens or the new. A
    new file is its owner's alone. Raises ConfigError, and then changes nothing: so it is where a
    token to drop does not stand on a line of its own, as this command writes it.
    """
    before = text(path) if path.exists() else ""
    lines = before.removesuffix("\n").split("\n") if before else []
    kept = [one for one in lines if without is None or _name_on(one) != without]
    written = "".join([*(f"{one}\n" for one in kept), *map(line, more)])
    wanted = [one for one in parse(before) if one.name != without]
    if parse(written) != (*wanted, *(Entry.model_validate(one) for one in more)):
        raise ConfigError("This command cannot change the file as it is: edit it by hand.")
    try:
        write_atomically(path.resolve(), written)
    except OSError as error:
        raise ConfigError(f"The file cannot be written: {error.strerror}.") from None


def _name_on(written: str) -> str | None:
    """The name of the token that stands on a line."""
    try:
        (entry,) = parse(written)
    except (ConfigError, ValueError):
        return None
    return entry.name
