"""qdrant-project as a client sees it."""

# ruff: noqa: F403
from tests.tools.test_project import *
