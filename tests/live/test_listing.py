"""The newest texts, without a query."""

# ruff: noqa: F403
import pytest

from tests.search.test_listing import *


@pytest.fixture
def engine(server):
    return server
