"""Named tokens: a file of their hashes, and one token from the environment.

The file is a list in YAML (or JSON); `expires` and `claims` are optional:

    - {name: ana, sha256: <64 hex digits>, scopes: [read], claims: {team: x}, expires: 2027-01-31}

A caller may have several tokens. A plain hash is enough, because tokens are long and random.
"""

import hashlib
import hmac
import json
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from mcp_server_qdrant.core.context import Caller, expand_scopes
from mcp_server_qdrant.core.disk import others_may_write
from mcp_server_qdrant.core.errors import ConfigError, Unauthorized, VerifierUnavailable, contained
from mcp_server_qdrant.core.fields import requirement

logger = logging.getLogger(__name__)

PREFIX = "mqd_"  # recognised by secret scanners
RANDOM_BYTES = 32
ADD = os.O_WRONLY | os.O_CREAT | os.O_APPEND
SINGLE = "(AUTH_TOKEN)"  # not a valid name in a token file
UNSOUND = "No token can be checked: the operator has to fix the file AUTH_TOKENS_FILE."


def _in_utc(when: datetime) -> datetime:
    """A time without a zone is in UTC."""
    return when.replace(tzinfo=when.tzinfo or UTC)


class TokenEntry(BaseModel):
    """One token of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$", repr=False)]
    scopes: Annotated[tuple[Literal["read", "write", "admin"], ...], Field(min_length=1)]
    claims: dict[str, Any] = {}
    expires: Annotated[datetime, AfterValidator(_in_utc)] | None = None

    @property
    def caller(self) -> Caller:
        """The caller with this token."""
        return Caller(self.name, expand_scopes(self.scopes), self.claims)

    def has_expired(self, now: datetime) -> bool:
        """True if it has expired."""
        return self.expires is not None and now >= self.expires


def digest(token: str) -> str:
    """The SHA-256 of a token in hex; only this is stored."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    """A new token of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def parse(written: str) -> tuple[TokenEntry, ...]:
    """Parse a token file. Raises ConfigError, which never quotes the file."""
    with contained(lambda _: ConfigError("AUTH_TOKENS_FILE is not valid YAML.")):
        found = yaml.safe_load(written)
    try:
        entries = TypeAdapter(tuple[TokenEntry, ...]).validate_python(found or ())
    except ValidationError as error:
        raise ConfigError(f"AUTH_TOKENS_FILE: {_fault(error)}.") from None
    if len({entry.sha256 for entry in entries}) < len(entries):
        raise ConfigError("AUTH_TOKENS_FILE: two tokens have the same sha256.")
    return entries


def _fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    number, *inside = first["loc"] or ("",)
    if not isinstance(number, int):
        return "it must be a list of tokens"
    place, fields = f"token {number + 1}", ", ".join(TokenEntry.model_fields)
    if not inside:
        return f"{place} must be a mapping with {fields}"
    if (
        first["type"] == "extra_forbidden"
    ):  # do not quote the key: it may be a token in the wrong place
        return f"{place} has another key than {fields}"
    return f"{place}: {inside[0]}: {requirement(first)}"


class NamedTokens:
    """Identifies callers by named tokens. The file is checked for changes at each request.

    While it is missing or invalid, none of its tokens is accepted.
    """

    def __init__(
        self, path: Path | None, single: str | None, now: Callable[[], datetime] | None = None
    ) -> None:
        """Raises ConfigError if the file cannot be used."""
        self._path = path
        self._now = now or (lambda: datetime.now(UTC))
        self._single: tuple[TokenEntry, ...] = ()
        if single:
            hashed = digest(single)
            one = TokenEntry.model_construct(name=SINGLE, sha256=hashed, scopes=("admin",))
            self._single = (one,)
        self._text = read_text(path) if path else ""
        self._entries: tuple[TokenEntry, ...] | None = parse(self._text)  # None: invalid

    async def caller(self, token: str) -> Caller:
        """The caller with this token. Raises Unauthorized, VerifierUnavailable."""
        if self._path:
            self._reload(self._path)
        wanted, known = digest(token), (*self._single, *(self._entries or ()))
        # Compare with all, in constant time, against timing attacks.
        same = [one for one in known if hmac.compare_digest(one.sha256, wanted)]
        found = same[-1] if same else None
        if found is None and self._entries is None:
            raise VerifierUnavailable(UNSOUND)
        if found is None:
            raise Unauthorized("The token is not known here.")
        if found.has_expired(self._now()):
            raise Unauthorized("The token has expired.")
        return found.caller

    def _reload(self, path: Path) -> None:
        """Reload the file if it has changed."""
        try:
            now = read_text(path)
            if now != self._text or self._entries is None:
                self._text, self._entries = now, parse(now)
                logger.info("AUTH_TOKENS_FILE was read again: %d tokens.", len(self._entries))
        except ConfigError as error:
            if self._entries is not None:
                logger.warning("%s None of its tokens is accepted until it is fixed.", error)
            self._entries = None


def read_text(path: Path) -> str:
    """Read a file that others cannot write. Raises ConfigError."""
    try:
        if fault := others_may_write(path):
            raise ConfigError(f"AUTH_TOKENS_FILE is not read: {fault}.")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"AUTH_TOKENS_FILE cannot be read: {reason}.") from None


def entry_line(entry: Mapping[str, Any]) -> str:
    """Format a token as a line of the file."""
    return f"- {json.dumps(entry, ensure_ascii=False)}\n"


def add_token(path: Path, entry: Mapping[str, Any]) -> None:
    """Append a token to a file; a new file is private.

    Raises ConfigError, before any change, if the file is unsound or cannot be written.
    """
    before = read_text(path) if path.exists() else ""
    line = ("\n" if before and not before.endswith("\n") else "") + entry_line(entry)
    parse(before + line)
    try:
        with os.fdopen(os.open(path, ADD, 0o600), "w", encoding="utf-8") as file:
            file.write(line)  # at once, so that the server reads it whole, and others add theirs
    except OSError as error:
        raise ConfigError(f"The file cannot be written: {error.strerror}.") from None
