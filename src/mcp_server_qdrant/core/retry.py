"""Calls that are tried again after a pause."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def retried(
    call: Callable[[], Awaitable[T]],
    pauses: Sequence[float],
    faults: tuple[type[Exception], ...],
    passing: Callable[[Exception], bool] = lambda _: True,
) -> T:
    """The call's answer; tried again after each pause (seconds) while its fault may pass."""
    for pause in pauses:
        try:
            return await call()
        except faults as error:
            if not passing(error):
                raise
        await asyncio.sleep(pause)
    return await call()
