"""Words of the query that are tags of a collection."""

# ruff: noqa: F403, F405
from contextlib import asynccontextmanager

import pytest

from tests.search.words.test_tags import *
from tests.support import Engine


@pytest.fixture
def services(server):
    @asynccontextmanager
    async def opened(**values):
        async with memory_services(engine=Engine(server), **values) as made:
            yield made, server

    return opened
