"""Results that all collections of a search share, made once."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
MOST = 256  # kept: those of the searches under way
_VALUES = frozenset((str, int, bool, tuple, type(None)))


class Memo(Generic[T]):
    """Results by what they are made of: values, or objects that do not change, by identity."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], tuple[tuple[Any, ...], T]] = {}

    def of(self, parts: tuple[Any, ...], make: Callable[..., T]) -> T:
        """The result of `make` for these parts."""
        key = tuple([part if type(part) in _VALUES else id(part) for part in parts])
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MOST:
                self._kept.clear()
            found = self._kept[key] = parts, make(*parts)  # the parts too: an id stays theirs
        return found[1]
