"""qdrant-delete as a client sees it."""

# ruff: noqa: F403
from tests.tools.test_delete import *
