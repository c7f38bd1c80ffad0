"""Collections that other tools filled."""

# ruff: noqa: F403
from tests.search.test_foreign import *
