"""Laws of accounts: what a service remembers of an attack is the same however the attack was cut, and counts add up."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dowse.core.detection import Detector, Memory
from dowse.core.flow import Answer, Query
from dowse.core.outcome import End
from dowse.core.reply import Reply
from dowse.defences import Blacklight
from dowse.store.logged_answer import LoggedAnswer
from tests.laws.test_replay import TARGET, Attempt, same
from tests.support import pictures

IMAGES = pictures(3, seed=7)


def watched(then):
    return Blacklight(TARGET, window=3, threshold=16, then=then)


def counts(attempt):
    return [(outcome.refused, outcome.queries_until_detected) for outcome in attempt.outcomes]


def passed(block):
    """The rows of a logged answer that the detector let pass."""
    reply = LoggedAnswer.unpack(block).reply
    return reply.sent - reply.refusals


@pytest.mark.parametrize("then", ["end", "refuse"])
@pytest.mark.parametrize("method", ["nes", "square", "gfcs", "dowse", "prgf"])
def test_any_part_of_a_log_rebuilds_the_account(method, then):
    whole = Attempt(method, IMAGES, {}, target=watched(then), budget=30, eps=0.4)
    assert sum(refused for refused, _ in counts(whole)) > 0
    assert whole.counter.rows == sum(outcome.queries - outcome.refused for outcome in whole.outcomes)
    for share in (0.4, 0.8, 1.0):
        logs = {i: log[: max(0, math.ceil(share * len(log)) - i)] for i, log in whole.logs.items()}
        resumed = Attempt(method, IMAGES, logs, target=watched(then), budget=30, eps=0.4, concurrency=1)
        assert all(map(same, resumed.outcomes, whole.outcomes))
        assert counts(resumed) == counts(whole)
        assert resumed.counter.rows == whole.counter.rows - sum(passed(b) for log in logs.values() for b in log)


@pytest.mark.parametrize("method", ["square", "prgf"])
def test_a_larger_budget_goes_on_with_the_account_of_a_smaller_one(method):
    part, whole = (Attempt(method, IMAGES, {}, target=watched("refuse"), budget=n, eps=0.02) for n in (12, 30))
    assert {outcome.end for outcome in part.outcomes} == {End.BUDGET}
    more = Attempt(method, IMAGES, part.logs, target=watched("refuse"), budget=30, eps=0.02)
    assert all(map(same, more.outcomes, whole.outcomes))
    assert counts(more) == counts(whole)


class Near(Detector):
    """Refuses a number that lies within 1 of an earlier one."""

    def fingerprint(self, x):
        return float(x.sum())

    def alike(self, one, other):
        return abs(one - other) <= 1


@given(st.lists(st.integers(0, 20), max_size=12), st.integers(0, 12), st.sampled_from(["end", "refuse"]))
def test_it_does_not_matter_how_queries_are_put_into_questions(numbers, cut, then):
    """A row is refused for one before it, whether that came in its own question or in an earlier one."""
    points = torch.tensor(numbers, dtype=torch.float64).view(-1, 1, 1, 1)
    expected = [any(abs(one - other) <= 1 for other in numbers[:i]) for i, one in enumerate(numbers)]
    memory = Memory(Near(then=then))
    first, second = memory.show(points[:cut]), None
    if then == "refuse" or not first.refused.any():
        second = memory.show(points[cut:])
    refused = [*first.refused.tolist(), *(second.refused.tolist() if second else [])]
    if then == "refuse":
        assert refused == expected
        assert first.asked + (second.asked if second else 0) == len(numbers)
    elif True in expected:
        end = expected.index(True)
        assert refused == [i >= end for i in range(len(refused))]
        assert first.asked + (second.asked if second else 0) == end + 1
    else:
        assert not any(refused)


@hypothesis_settings(max_examples=30)
@given(st.lists(st.booleans(), min_size=1, max_size=20), st.integers(0, 3), st.booleans())
def test_a_log_keeps_which_rows_were_refused(refused, classes, answered):
    rows, mask = len(refused), torch.tensor(refused)
    answer = Answer(torch.randn(rows).double(), torch.rand(rows) < 0.5, torch.randn(rows, classes).double())
    reply = Reply(answer if answered else None, 1, rows, rows, None, refused=mask)
    logged = LoggedAnswer.of(Query(torch.rand(rows, 1, 2, 2)), reply, with_scores=True, seconds=0.0)
    heard = LoggedAnswer.unpack(logged.pack()).reply
    assert torch.equal(heard.refused, mask)
    assert (heard.refusals, heard.answered) == (sum(refused), rows)
    assert (heard.answer is not None) == answered
    if answered:
        assert torch.equal(heard.answer.scores, answer.scores)
    with pytest.raises(ValueError, match="logged answer"):
        LoggedAnswer.unpack(logged.pack()[:-1])
