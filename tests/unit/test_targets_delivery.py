"""Targets that account for their own rows: retries are sent again, an answered row is a query, once."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import dowse
from dowse.core.oracle import Oracle
from dowse.core.reply import Request
from dowse.core.target import Delivery
from dowse.maths.losses import Objective
from tests.support import Tanh, attack_anyway, labels_of, pictures

NET = Tanh(0)
X = pictures(5)
Y = labels_of(NET, X)


class Postman:
    """Splits a call into parts, as a server's client does; `fates` says how often each part is sent, and 0 gives up.

    It keeps its own books of every row by the image it is nearest to.
    """

    rows_per_call = None

    def __init__(self, part, fates):
        self.part, self.fates, self.next = part, fates, 0
        self.sent = torch.zeros(len(X), dtype=torch.int64)
        self.answered = torch.zeros(len(X), dtype=torch.int64)

    def __call__(self, points):
        assert len(points) == 0, "only to learn K"
        return NET(points)

    def deliver(self, points):
        scores = NET(points)
        sent = torch.zeros(len(points), dtype=torch.int64)
        answered = torch.zeros(len(points), dtype=torch.bool)
        cause = None
        for start in range(0, len(points), self.part):
            rows = slice(start, start + self.part)
            fate = self.fates[self.next % len(self.fates)]
            self.next += 1
            sent[rows] = 3 if fate == 0 else fate
            answered[rows] = fate > 0
            if fate == 0:
                cause = ConnectionError("no answer after 3 tries")
        whose = (points.unsqueeze(1) - X).flatten(2).norm(dim=2).argmin(1)
        self.sent.index_add_(0, whose, sent)
        self.answered.index_add_(0, whose, answered.long())
        return Delivery(scores if answered.any() else None, sent, answered, cause)


@settings(max_examples=40)
@given(
    part=st.integers(1, 9),
    fates=st.lists(st.sampled_from([1, 1, 1, 1, 2, 5, 0]), min_size=1, max_size=9),
    budget=st.integers(1, 60),
    batch_size=st.sampled_from([None, 1, 4, 7]),
    concurrency=st.integers(1, 5),
)
def test_every_row_is_in_the_books_once(part, fates, budget, batch_size, concurrency):
    target = Postman(part, fates)
    result = attack_anyway(
        target, X, Y, method="rgf", q=6, eps=0.1, budget=budget, batch_size=batch_size, concurrency=concurrency
    )
    assert torch.equal(result.sent, target.sent)
    assert torch.equal(result.queries, target.answered)
    assert (result.queries <= budget).all()
    assert (result.sent >= result.queries).all()
    for outcome in result.outcomes:
        assert (outcome.cause is not None) == (outcome.end is dowse.End.TARGET_FAILED)


def test_retries_change_nothing_but_what_was_sent():
    """A target that needs three tries for every row gives the same attack, three times the rows."""
    plain = dowse.attack(NET, X, Y, method="rgf", q=6, eps=0.3, budget=80)
    tried = dowse.attack(Postman(4, [3]), X, Y, method="rgf", q=6, eps=0.3, budget=80)
    assert torch.equal(plain.queries, tried.queries)
    assert torch.equal(tried.sent, 3 * tried.queries)
    assert torch.equal(plain.adversarial, tried.adversarial)
    assert plain.end == tried.end


def test_one_lost_part_of_four_ends_only_the_images_in_it():
    """Eight rows of four images in parts of two, the third of which is lost: only its image fails."""
    points = torch.cat([X[:4], X[:4]])
    requests = [Request(points[i : i + 2], 0) for i in range(0, 8, 2)]
    target = Postman(2, [1, 1, 0, 1])
    replies = Oracle(target, Objective(), batch_size=8).ask(requests)
    assert [reply.answer is None for reply in replies] == [False, False, True, False]
    assert [reply.answered for reply in replies] == [2, 2, 0, 2]
    assert [reply.sent for reply in replies] == [2, 2, 6, 2]
    assert isinstance(replies[2].cause, ConnectionError)


def test_rows_answered_beside_a_lost_part_are_queries_and_the_rest_is_refunded():
    """One image asks about six rows in parts of two and the last part is lost: four queries, two refunded."""
    target = Postman(2, [1, 1, 0])
    (reply,) = Oracle(target, Objective(), batch_size=8).ask([Request(X[[0] * 6], 0)])
    assert (reply.answered, reply.sent, reply.answer) == (4, 2 + 2 + 6, None)
    result = attack_anyway(Postman(2, [1, 1, 1, 0]), X[:1], Y[:1], method="rgf", q=6, eps=0.1, budget=10)
    assert result.end == [dowse.End.TARGET_FAILED]
    assert result.queries.tolist() == [1 + 4]
    assert result.sent.tolist() == [1 + 4 + 6]


def test_rows_of_a_failed_image_are_not_sent_any_further():
    target = Postman(3, [1, 0, 1, 1])
    (reply,) = Oracle(target, Objective(), batch_size=3).ask([Request(X[[0] * 12], 0)])
    assert int(target.sent.sum()) == reply.sent == 3 + 9
    assert reply.answered == 3


@pytest.mark.parametrize("scores", [torch.zeros(3, 4, 1), torch.zeros(2, 4), "four"])
def test_an_answer_of_the_wrong_shape_is_no_answer(scores):
    class Wrong(Postman):
        def deliver(self, points):
            return Delivery(scores, torch.ones(len(points)).long(), torch.ones(len(points)).bool())

    (reply,) = Oracle(Wrong(1, [1]), Objective()).ask([Request(X[:3], 0)])
    assert (reply.answer, reply.sent, reply.answered) == (None, 3, 0)
    assert "must answer 3 rows" in str(reply.cause)


def test_a_target_that_cannot_even_account_is_like_one_that_raises():
    class Broken(Postman):
        def deliver(self, points):
            raise OSError("the books are lost")

    (reply,) = Oracle(Broken(1, [1]), Objective()).ask([Request(X[:3], 0)])
    assert (reply.answer, reply.sent, reply.answered) == (None, 3, 0)
    assert isinstance(reply.cause, OSError)


def test_a_silent_loss_has_a_cause_all_the_same():
    class Silent(Postman):
        def deliver(self, points):
            delivery = super().deliver(points)
            return Delivery(delivery.scores, delivery.sent, delivery.answered)

    (reply,) = Oracle(Silent(2, [1, 0]), Objective(), batch_size=4).ask([Request(X[:4], 0)])
    assert reply.answer is None
    assert "did not say why" in str(reply.cause)


def test_a_target_says_how_many_rows_it_likes():
    class Choosy(Postman):
        rows_per_call = 3

    target = Choosy(1, [1])
    calls = []
    deliver = target.deliver
    target.deliver = lambda points: calls.append(len(points)) or deliver(points)
    Oracle(target, Objective()).ask([Request(X[[0] * 8], 0)])
    assert calls == [3, 3, 2]
    calls.clear()
    Oracle(target, Objective(), batch_size=5).ask([Request(X[[0] * 8], 0)])
    assert calls == [5, 3]
