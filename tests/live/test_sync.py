"""Files and a collection kept in step."""

# ruff: noqa: F403
from tests.ingest.files.test_sync import *
