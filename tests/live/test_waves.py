"""Of many collections few are asked, and small ones are not asked for words."""

import pytest

from tests.search.sketches.test_waves import (  # noqa: F401
    few,
    test_a_text_that_another_server_put_in_the_place_of_one_is_found_by_its_new_word,
    test_small_collections_are_not_asked_for_their_words_before_they_are_searched,
    test_without_sketches_all_are_asked_and_with_them_the_likely_ones,
)
from tests.support import Engine


@pytest.fixture
def engine(server):
    return Engine(server)
