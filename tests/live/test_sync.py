"""Files and a collection kept in sync."""

# ruff: noqa: F403
from tests.ingest.files.test_sync import *
