"""Tags of collections."""

# ruff: noqa: F403
from tests.qdrant.read.test_facets import *
