"""A second model reorders the best hits, or the order stays as it was."""

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_server_qdrant.core.datatypes import Reranked
from mcp_server_qdrant.core.errors import RerankerUnavailable
from mcp_server_qdrant.search.relevance import Hit
from mcp_server_qdrant.search.rerank import Rerank, reordered, sigmoid, units
from tests.support import Clock

few = settings(max_examples=60, deadline=None)
logit = st.floats(-1000, 1000)


def hit(point, score=0.5, **factors) -> Hit:
    made = Hit("a", point, score, score, 0.01, score, None)
    for name, factor in factors.items():
        made = made.rescored(name, factor)
    return made


class Fake:
    """A reranker that gives `scores`, or raises them if they are an error."""

    name = "fake/reranker"
    logits = False
    length = 12

    def __init__(self, scores) -> None:
        self.scores = scores
        self.asked: list[tuple[str, list[str], float]] = []
        self.gate: asyncio.Event | None = None

    def start(self) -> None: ...

    async def score(self, query, texts, seconds):
        self.asked.append((query, list(texts), seconds))
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.scores, Exception):
            raise self.scores
        return self.scores

    async def close(self) -> None: ...


def text(one: Hit, length: int) -> str:
    return f"text {one.id}"


async def run(step: Rerank, hits, left=5.0):
    found, outcome = await step.apply(hits, "a query", text, left)
    return [one.id for one in found], outcome


HITS = [hit(1, 0.9), hit(2, 0.8), hit(3, 0.7), hit(4, 0.6)]


async def test_the_pool_is_reordered_and_the_rest_comes_after_it():
    step = Rerank(Fake([0.1, 0.3, 0.2]), pool=3)

    assert await run(step, HITS) == ([2, 3, 1, 4], Reranked("applied", "fake/reranker", 3))


async def test_relevance_stays_and_the_score_is_the_rerankers_times_the_factors():
    step = Rerank(Fake([0.2, 0.5]))
    hits = [hit(1, 0.8, priority=1.5, recency=0.9), hit(2, 0.4)]

    found, _ = await step.apply(hits, "q", text, 5)

    assert [(one.id, one.relevance, one.reranked) for one in found] == [
        (2, 0.4, 0.5),
        (1, 0.8, 0.2),
    ]
    assert [one.score for one in found] == pytest.approx([0.5, 0.2 * 1.5 * 0.9])
    assert found[1].factors == (("priority", 1.5), ("recency", 0.9))


async def test_one_call_sends_query_and_texts_no_longer_than_the_reranker_reads():
    fake = Fake([0.1, 0.2])
    await Rerank(fake).apply(HITS[:2], "a query that is long", lambda h, n: f"{n} {h.id} " * 9, 5.0)

    ((query, texts, seconds),) = fake.asked
    assert query == "a query that"
    assert texts == ["12 1 12 1 12", "12 2 12 2 12"]
    assert seconds == 3.0


async def test_numbers_outside_0_and_1_are_logits():
    found, _ = await Rerank(Fake([-1.0, 2.0])).apply(HITS[:2], "q", text, 5)

    assert [one.reranked for one in found] == [sigmoid(2.0), sigmoid(-1.0)]
    assert sigmoid(2.0) == pytest.approx(0.8807970779778823)


async def test_a_reranker_that_gives_logits_gives_them_always():
    fake = Fake([0.2, 0.7])
    fake.logits = True
    found, _ = await Rerank(fake).apply(HITS[:2], "q", text, 5)

    assert [one.reranked for one in found] == [sigmoid(0.7), sigmoid(0.2)]


async def test_equal_scores_keep_their_order_and_large_logits_theirs():
    assert (await run(Rerank(Fake([0.3, 0.5, 0.3, 0.5])), HITS))[0] == [2, 4, 1, 3]
    assert (await run(Rerank(Fake([50.0, 60.0, 70.0, -800.0])), HITS))[0] == [3, 2, 1, 4]


NOT_SOUND = "The reranker's scores are not one finite number for each text."


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ([0.1, 0.2, 0.3], NOT_SOUND),
        ([0.1, 0.2, 0.3, 0.4, 0.5], NOT_SOUND),
        ([], NOT_SOUND),
        ([0.1, 0.2, 0.3, math.nan], NOT_SOUND),
        ([0.1, 0.2, 0.3, math.inf], NOT_SOUND),
        (RerankerUnavailable("It failed."), "It failed."),
    ],
)
async def test_what_is_no_sound_answer_changes_nothing_and_is_said(scores, reason):
    found, outcome = await Rerank(Fake(scores)).apply(HITS, "q", text, 5)

    assert found == HITS
    assert outcome == Reranked("degraded", "fake/reranker", reason=reason)


async def test_an_answer_that_tells_nothing_apart_changes_nothing():
    fake = Fake([0.4] * 4)
    step = Rerank(fake)

    assert await run(step, HITS) == (
        [1, 2, 3, 4],
        Reranked("skipped", "fake/reranker", reason="The reranker scored all texts the same."),
    )
    fake.scores = [1, 2, 3, 4]
    assert (await run(step, HITS))[0] == [4, 3, 2, 1]


@pytest.mark.parametrize("count", [0, 1])
async def test_one_hit_is_not_worth_a_call(count):
    fake = Fake([])
    ids, outcome = await run(Rerank(fake), HITS[:count])

    assert len(ids) == count
    assert outcome.reason == "There is nothing to reorder."
    assert fake.asked == []


@pytest.mark.parametrize("left", [-1.0, 0.0, 0.01])
async def test_a_search_that_has_used_up_its_time_is_not_kept_longer(left):
    fake = Fake([0.1, 0.2, 0.3, 0.4])
    ids, outcome = await run(Rerank(fake), HITS, left)

    assert ids == [1, 2, 3, 4]
    assert (outcome.state, outcome.reason) == ("skipped", "The search left no time for it.")
    assert fake.asked == []


async def test_after_a_failure_it_rests_and_then_tries_again():
    clock, fake = Clock(), Fake(RerankerUnavailable("It failed."))
    step = Rerank(fake, clock=clock)

    assert (await run(step, HITS))[1].state == "degraded"
    clock.now += 29.5
    ids, outcome = await run(step, HITS)
    assert (ids, outcome.state) == ([1, 2, 3, 4], "skipped")
    assert outcome.reason == "It failed. It is tried again in 1 s."
    assert len(fake.asked) == 1

    clock.now += 0.5
    fake.scores = [0.1, 0.2, 0.3, 0.4]
    assert await run(step, HITS) == ([4, 3, 2, 1], Reranked("applied", "fake/reranker", 4))


@pytest.mark.parametrize(("asked", "rests"), [(5, 30), (90, 90), (1e9, 600)])
async def test_a_service_that_asks_for_patience_gets_it_within_reason(asked, rests):
    clock, fake = Clock(), Fake(RerankerUnavailable("Busy.", retry_after=asked))
    step = Rerank(fake, clock=clock)
    await run(step, HITS)

    clock.now += rests - 1
    await run(step, HITS)
    assert len(fake.asked) == 1
    clock.now += 1
    await run(step, HITS)
    assert len(fake.asked) == 2


async def test_one_that_is_not_there_yet_is_skipped_and_asked_again_at_once():
    fake = Fake(RerankerUnavailable("It is being loaded.", tried=False))
    step = Rerank(fake)
    await run(step, HITS)
    ids, outcome = await run(step, HITS)

    assert ids == [1, 2, 3, 4]
    assert (outcome.state, outcome.reason) == ("skipped", "It is being loaded.")
    assert len(fake.asked) == 2


async def test_one_that_hangs_is_left_after_its_time_and_rests():
    fake = Fake([])
    fake.gate = asyncio.Event()
    step = Rerank(fake, 0.05)

    ids, outcome = await run(step, HITS)
    assert ids == [1, 2, 3, 4]
    assert (outcome.state, outcome.reason) == (
        "degraded",
        "The reranker took longer than 0.05 s.",
    )
    assert (await run(step, HITS))[1].state == "skipped"


async def test_one_that_had_less_than_its_time_is_not_to_blame():
    fake = Fake([0.1, 0.2, 0.3, 0.4])
    fake.gate = asyncio.Event()
    step = Rerank(fake, 30)

    assert (await run(step, HITS, left=0.06))[1].state == "degraded"
    fake.gate.set()
    assert (await run(step, HITS))[1].state == "applied"


async def test_a_caller_that_goes_away_leaves_no_rest_behind():
    fake = Fake([0.1, 0.2, 0.3, 0.4])
    fake.gate = asyncio.Event()
    step = Rerank(fake)
    call = asyncio.ensure_future(run(step, HITS))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    fake.gate.set()
    assert (await run(step, HITS))[1].state == "applied"


@few
@given(st.lists(logit, min_size=1, max_size=20), st.booleans())
def test_a_number_for_each_score_is_in_0_and_1_and_in_their_order(scores, logits):
    values = units(scores, logits=logits)

    assert all(0 <= value <= 1 for value in values)
    by_score = sorted(range(len(scores)), key=scores.__getitem__)
    assert [values[n] for n in by_score] == sorted(values)


@few
@given(st.lists(st.tuples(logit, st.floats(0.5, 2)), min_size=1, max_size=20))
def test_nothing_is_lost_and_the_same_scores_give_the_same_order(pairs):
    hits = [hit(n, 0.5, recency=factor) for n, (_, factor) in enumerate(pairs)]
    scores = [score for score, _ in pairs]

    found = reordered(hits, scores, units(scores, logits=True))

    assert sorted(one.id for one in found) == list(range(len(pairs)))
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert found == reordered(hits, scores, units(scores, logits=True))
