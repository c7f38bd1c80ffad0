"""A server answers as the embedded engine does."""

# ruff: noqa: F403
import pytest

from tests.qdrant.test_engine_parity import *


@pytest.fixture
def client(server):
    server.is_edge = True
    return server
