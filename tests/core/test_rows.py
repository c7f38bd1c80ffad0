"""A template of the texts that rows become."""

import pytest

from mcp_server_qdrant.core.rows import RowTemplate


def test_a_part_is_filled_with_cells_and_left_out_where_all_of_them_are_blank():
    template = RowTemplate.of({"text": r"{ask}\n{answer}", "title": "{ask} ({no})", "tags": "{t}"})

    assert list(template.columns) == ["ask", "answer", "no", "t"]
    assert template.filled({"ask": "Why? ", "no": "7", "t": " "}) == {
        "text": "Why?",
        "title": "Why? (7)",
    }


def test_equal_templates_have_one_digest_and_others_another():
    given = [{"title": "{a}"}, {"title": "{a}"}, {"title": "{b}"}, {"text": "{a}"}]
    one, same, *others = [RowTemplate.of(each).digest for each in given]

    assert one == same
    assert len({one, *others}) == 3


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"body": "{a}"}, "a text has no part 'body': there are text, title, id, date, tags"),
        ({"title": "name"}, "title names no column: write one in braces, as in title={name}"),
        ({"title": 7}, "title names no column: write one in braces, as in title={name}"),
        ({"text": "{a} {b"}, "text has a brace without its partner: {a} {b"),
        ({"text": "{a}}"}, "text has a brace without its partner: {a}}"),
    ],
)
def test_a_bad_template_is_named_in_a_sentence(given, fault):
    with pytest.raises(ValueError) as refused:
        RowTemplate.of(given)

    assert str(refused.value) == fault
