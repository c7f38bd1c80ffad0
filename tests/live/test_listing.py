"""The newest texts, without a query."""

# ruff: noqa: F403
import pytest

from tests.search.test_listing import *
from tests.support import Engine


@pytest.fixture
def engine(server):
    return Engine(server)
