"""Tags of collections."""

# ruff: noqa: F403
from tests.qdrant.test_tags import *
