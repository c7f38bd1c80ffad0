"""Points that were stored without a model get their vector later."""

# ruff: noqa: F403
from tests.ingest.test_pending import *
