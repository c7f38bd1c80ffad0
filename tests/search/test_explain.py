"""What an explanation gathers."""

from mcp_server_qdrant.core.datatypes import Candidate, Scored, Target
from mcp_server_qdrant.search.present import ranks_of

TARGET = Target("c", 4, None, None)


def test_places_count_from_1_within_a_collection_and_equal_scores_share_one():
    dense = {1: 0.9, 2: 0.5, 3: 0.5, 4: 0.1}
    found = Scored(TARGET, [Candidate(n, 0.0) for n in dense], dense, {3: 7.0, 4: 8.0})

    assert ranks_of([found]) == {
        ("c", 1): {"meaning": 1},
        ("c", 2): {"meaning": 2},
        ("c", 3): {"meaning": 2, "words": 2},
        ("c", 4): {"meaning": 4, "words": 1},
    }


def test_what_a_leg_did_not_find_has_no_place_there():
    found = Scored(TARGET, [Candidate(1, 0.0)], {}, {1: 0.0})

    assert ranks_of([found]) == {}
