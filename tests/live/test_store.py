"""qdrant-store on what is stored already: points of other tools, ids that are no more, files."""

# ruff: noqa: F403
from tests.tools.test_store import *
