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
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from mcp_server_qdrant.core.context import Caller, granted
from mcp_server_qdrant.core.disk import locked, others_may_write, write_atomically
from mcp_server_qdrant.core.errors import ConfigError, Unauthorized, VerifierUnavailable, contained
from mcp_server_qdrant.core.fields import wanted

logger = logging.getLogger(__name__)

PREFIX = "mqd_"  # lets scanners for leaked secrets know it
RANDOM_BYTES = 32
SINGLE = "(AUTH_TOKEN)"  # no name of a token in a file can be this
UNSOUND = "No token can be checked: the operator has to mend the file of AUTH_TOKENS_FILE."


def _zoned(when: datetime) -> datetime:
    """What is written without a zone is UTC."""
    return when.replace(tzinfo=when.tzinfo or UTC)


class TokenEntry(BaseModel):
    """One token of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$", repr=False)]
    scopes: Annotated[tuple[Literal["read", "write", "admin"], ...], Field(min_length=1)]
    claims: dict[str, Any] = {}
    expires: Annotated[datetime, AfterValidator(_zoned)] | None = None

    @property
    def caller(self) -> Caller:
        """Who has this token."""
        return Caller(self.name, granted(self.scopes), self.claims)

    def ended(self, now: datetime) -> bool:
        """True once its time is over."""
        return self.expires is not None and now >= self.expires


def digest(token: str) -> str:
    """The SHA-256 of a token in hex, which is what is stored of it."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    """A token that nobody can guess: 256 random bits."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def parse(written: str) -> tuple[TokenEntry, ...]:
    """The tokens of a file. Raises ConfigError, whose text holds nothing of the file."""
    with contained(lambda _: ConfigError("AUTH_TOKENS_FILE is not sound YAML.")):
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
    if first["type"] == "extra_forbidden":  # the key may be a token in the wrong place
        return f"{place} has another key than {fields}"
    return f"{place}: {inside[0]}: {wanted(first)}"


class NamedTokens:
    """Who has which token. The file is looked at for each request.

    While it is gone or not sound, none of its tokens counts.
    """

    def __init__(
        self, path: Path | None, single: str | None, now: Callable[[], datetime] | None = None
    ) -> None:
        """Raises ConfigError where the file cannot be used."""
        self._path = path
        self._now = now or (lambda: datetime.now(UTC))
        self._single: tuple[TokenEntry, ...] = ()
        if single:
            hashed = digest(single)
            one = TokenEntry.model_construct(name=SINGLE, sha256=hashed, scopes=("admin",))
            self._single = (one,)
        self._text = read_text(path) if path else ""
        self._entries: tuple[TokenEntry, ...] | None = parse(self._text)  # None: not sound

    async def caller(self, token: str) -> Caller:
        """Who has this token. Raises Unauthorized, VerifierUnavailable."""
        if self._path:
            self._follow(self._path)
        wanted, known = digest(token), (*self._single, *(self._entries or ()))
        # All are compared, and in constant time, against timing attacks.
        same = [one for one in known if hmac.compare_digest(one.sha256, wanted)]
        found = same[-1] if same else None
        if found is None and self._entries is None:
            raise VerifierUnavailable(UNSOUND)
        if found is None:
            raise Unauthorized("The token is not known here.")
        if found.ended(self._now()):
            raise Unauthorized("The token has expired.")
        return found.caller

    def _follow(self, path: Path) -> None:
        """Take over what the file holds now."""
        try:
            now = read_text(path)
            if now != self._text or self._entries is None:
                self._text, self._entries = now, parse(now)
                logger.info("AUTH_TOKENS_FILE was read again: %d tokens.", len(self._entries))
        except ConfigError as error:
            if self._entries is not None:
                logger.warning("%s None of its tokens counts until it is mended.", error)
            self._entries = None


def read_tokens(path: Path) -> tuple[TokenEntry, ...]:
    """The tokens in a file that nobody else may write. Raises ConfigError."""
    return parse(read_text(path))


def read_text(path: Path) -> str:
    """The text of a file that nobody else may write. Raises ConfigError."""
    try:
        if fault := others_may_write(path):
            raise ConfigError(f"AUTH_TOKENS_FILE is not read: {fault}.")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"AUTH_TOKENS_FILE cannot be read: {reason}.") from None


def line(entry: Mapping[str, Any]) -> str:
    """A token as a line of the file."""
    return f"- {json.dumps(entry, ensure_ascii=False)}\n"


@contextmanager
def editing(path: Path) -> Iterator[None]:
    """Look at the file and change it while no other command does.

    Raises ConfigError where it cannot be written.
    """
    try:
        with locked(path):
            yield
    except OSError as error:
        raise ConfigError(f"The file cannot be written: {error.strerror}.") from None


def change(
    path: Path, more: Mapping[str, Any] | None = None, *, without: str | None = None
) -> None:
    """Write one more token into a file, made where there is none, and drop the lines of a name.

    It is replaced as a whole: a server that reads it meanwhile sees the old tokens or the new. A
    new file is its owner's alone. Raises ConfigError or OSError, and then changes nothing: so it is
    where a token to drop does not stand on a line of its own, as this command writes it.
    """
    added = line(more) if more else ""
    before = path.read_text("utf-8") if path.exists() else ""
    entries = parse(before)
    gone = [entry.sha256 for entry in entries if entry.name == without]
    lines = [one for one in before.splitlines() if not any(hashed in one for hashed in gone)]
    written = "".join([*(f"{one}\n" for one in lines), added])
    wanted = (*(entry for entry in entries if entry.name != without), *parse(added))
    try:
        sound = parse(written) == wanted
    except ConfigError:
        sound = False
    if not sound:
        raise ConfigError("This command cannot change the file as it is: edit it by hand.")
    write_atomically(path.resolve(), written)
