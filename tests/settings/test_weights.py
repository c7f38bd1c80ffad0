"""The settings of meaning, keywords and titles."""

import pytest
from pydantic import ValidationError

from mcp_server_qdrant.app.services import _dense_share
from mcp_server_qdrant.settings.environment import Settings
from tests.support import make_settings


def from_environment(monkeypatch, **variables: str) -> Settings:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return Settings()


def test_by_default_half_is_meaning_at_every_size_and_a_title_counts_3():
    settings = make_settings()

    assert settings.hybrid_alpha is None
    assert [_dense_share(settings).at(points) for points in (0, 500, 5000)] == [0.5] * 3
    assert settings.title_factor == 3


def test_steps_and_sizes_are_numbers_by_comma_or_a_json_list(monkeypatch):
    settings = from_environment(
        monkeypatch, HYBRID_ALPHA_STEPS="0.5, 0.7,0.8", HYBRID_ALPHA_SIZES="[100, 1000]"
    )

    assert [_dense_share(settings).at(points) for points in (99, 100, 1000)] == [0.5, 0.7, 0.8]


def test_a_fixed_share_holds_for_every_size(monkeypatch):
    settings = from_environment(
        monkeypatch, HYBRID_ALPHA="0", HYBRID_ALPHA_STEPS="1,1,1", QDRANT_TITLE_FACTOR="1"
    )

    assert {_dense_share(settings).at(points) for points in (0, 500, 5000)} == {0.0}
    assert settings.title_factor == 1


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"HYBRID_ALPHA": "1.1"}, "must be between 0 and 1"),
        ({"HYBRID_ALPHA_STEPS": "0.5,2,0"}, "must be numbers between 0 and 1"),
        ({"HYBRID_ALPHA_STEPS": "0.5"}, "must be one value more than HYBRID_ALPHA_SIZES"),
        ({"HYBRID_ALPHA_SIZES": "500,500"}, "must be rising numbers"),
        ({"HYBRID_ALPHA_SIZES": "few,many"}, "valid integer"),
        ({"QDRANT_TITLE_FACTOR": "0"}, "must be between 1 and 10"),
    ],
)
def test_what_makes_no_sense_is_refused(monkeypatch, variables, sentence):
    with pytest.raises(ValidationError, match=sentence):
        from_environment(monkeypatch, **variables)
