"""Context variables that hold a value for as long as a block runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Inside, tasks and threads started from there too, the variable has this value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
