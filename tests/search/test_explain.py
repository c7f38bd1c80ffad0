"""What an explanation gathers."""

from mcp_server_qdrant.core.datatypes import Candidate, Scored, Target
from mcp_server_qdrant.search.present import ranks_of

TARGET = Target("c", 4, None, None)


def test_places_count_from_1_within_a_collection_and_equal_scores_share_one():
    legs = [(0.9, 0.0), (0.5, 0.0), (0.5, 7.0), (0.1, 8.0), (0.0, 0.0), (None, None)]
    found = Scored(TARGET, [Candidate(n, 0.0, *leg) for n, leg in enumerate(legs, 1)])

    assert ranks_of([found]) == {
        ("c", 1): {"meaning": 1},
        ("c", 2): {"meaning": 2},
        ("c", 3): {"meaning": 2, "words": 2},
        ("c", 4): {"meaning": 4, "words": 1},
    }
