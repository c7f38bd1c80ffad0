"""Collections brought up to date in place."""

# ruff: noqa: F403
from tests.ingest.collections.test_upgrade import *
