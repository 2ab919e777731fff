"""Targets that draw noise: `repeats` averages answers and pays for each, `verify` re-checks and pays for none."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import dowse
from dowse.attacks.registry import METHODS
from dowse.core.oracle import Oracle
from dowse.core.reply import Request
from dowse.core.seeds import row_seeds, uniform_of
from tests.support import Counter, Faulty, Noisy, Tanh, labels_of, pictures

TARGET = Tanh(0)
SURROGATE = Tanh(1, near=TARGET)
PICTURES = pictures(6)
LABELS = labels_of(TARGET, PICTURES)
NOISY = Noisy(TARGET, 0.05)
RUN = {"method": "prgf", "surrogate": SURROGATE, "q": 6, "eps": 0.35}


class Heard(dowse.Observer):
    def __init__(self):
        self.replies = []

    def answered(self, task, query, reply):
        self.replies.append((query, reply))


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(METHODS)),
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(4, 60),
    st.integers(1, 5),
    st.none() | st.integers(1, 9),
)
def test_counts_are_exact_and_within_the_budget(method, repeats, verify, budget, concurrency, batch_size):
    counter = Counter(NOISY)
    result = dowse.attack(
        counter, PICTURES, LABELS, method=method, surrogate=SURROGATE, eps=0.3, repeats=repeats, verify=verify,
        budget=budget, concurrency=concurrency, batch_size=batch_size,
    )  # fmt: skip
    assert (result.queries <= budget).all()
    assert (result.queries % repeats == 0).all()
    assert (result.sent == result.queries + verify * result.success).all()
    assert int(result.sent.sum()) == counter.rows
    assert (result.verified <= verify * result.success).all()
    assert max(counter.batches) <= (batch_size or 10**6)


def test_repeating_a_target_without_noise_changes_only_the_count():
    once = dowse.attack(TARGET, PICTURES, LABELS, budget=60, **RUN)
    thrice = dowse.attack(TARGET, PICTURES, LABELS, budget=180, repeats=3, **RUN)
    assert (thrice.queries == 3 * once.queries).all()
    assert thrice.end == once.end
    assert torch.allclose(thrice.adversarial, once.adversarial, atol=1e-12)


def test_the_answer_is_the_mean_of_the_repeats():
    seeds = row_seeds(0, "a", 0, 6)
    reply = Oracle(NOISY, dowse.maths.losses.Objective("ce")).ask([Request(PICTURES[:2], 1, seeds, repeats=3)])[0]
    rows = NOISY(PICTURES[[0, 0, 0, 1, 1, 1]], seeds).detach()
    assert reply.answer is not None
    assert torch.allclose(reply.answer.scores, torch.stack([rows[:3].mean(0), rows[3:].mean(0)]))
    assert (reply.sent, reply.answered) == (6, 6)
    assert reply.answer.loss.shape == reply.answer.adversarial.shape == (2,)


def test_the_mean_of_gradients_answers_a_white_box_attack():
    seeds = row_seeds(0, "a", 0, 4)
    oracle = Oracle(NOISY, dowse.maths.losses.Objective("ce"))
    reply = oracle.ask([Request(PICTURES[:1], 1, seeds, gradient=True, repeats=4)])[0]
    single = [oracle.ask([Request(PICTURES[:1], 1, seeds[i : i + 1], gradient=True)])[0] for i in range(4)]
    mean = torch.stack([one.answer.gradient for one in single]).mean(0)
    assert torch.allclose(reply.answer.gradient, mean)


def test_repeats_make_the_noise_smaller():
    """Variance of the first answer over 400 ids: with k repeats 1/k of it, within four standard errors."""
    x, y = PICTURES[:1].expand(400, -1, -1, -1), LABELS[:1].expand(400)
    variance = []
    for k in (1, 4):
        heard = Heard()
        dowse.attack(
            NOISY, x, y, ids=[str(i) for i in range(400)], method="rgf", q=1, budget=k, repeats=k, observers=[heard],
            concurrency=400,
        )  # fmt: skip
        scores = torch.stack([reply.answer.scores[0, 0] for _, reply in heard.replies])
        assert len(scores) == 400
        variance.append(float(scores.var()))
    standard_error = math.sqrt(2 * 2 / 399)  # of the logarithm of a ratio of two variances
    assert abs(math.log(variance[1] / variance[0] * 4)) < 4 * standard_error


def test_every_repeat_has_its_own_seed():
    seen = []

    class Recording(Noisy):
        def forward(self, x, seeds):
            seen.extend(seeds.tolist())
            return super().forward(x, seeds)

    run = {**RUN, "eps": 1e-3}
    result = dowse.attack(Recording(TARGET, 0.0), PICTURES[:1], LABELS[:1], ids=["a"], repeats=5, budget=50, **run)
    assert seen == row_seeds(0, "a", 0, int(result.queries[0])).tolist()
    assert len(set(seen)) == len(seen)


def test_a_success_on_a_target_without_noise_is_verified_every_time():
    plain = dowse.attack(TARGET, PICTURES, LABELS, budget=60, **RUN)
    checked = dowse.attack(TARGET, PICTURES, LABELS, budget=60, verify=7, **RUN)
    assert checked.success.any()
    assert torch.equal(checked.adversarial, plain.adversarial)
    assert torch.equal(checked.queries, plain.queries)
    assert torch.equal(checked.verified, 7 * plain.success)
    assert torch.equal(plain.verified, torch.zeros(6, dtype=torch.int64))
    assert [outcome.verified for outcome in checked.outcomes] == checked.verified.tolist()


class Coin(nn.Module):
    """Sees grey images right, and any other wrong three times out of four."""

    takes_row_seeds = True

    def forward(self, x, seeds):
        wrong = (x != 0.5).flatten(1).any(1) & (uniform_of(seeds, 1)[:, 0] < 0.75)
        return torch.stack([~wrong, wrong], 1).double()


@pytest.mark.filterwarnings("ignore::dowse.errors.TargetWarning")  # the target is made so
def test_verified_counts_how_often_a_success_holds():
    n, k = 60, 50
    x = torch.full((n, 1, 2, 2), 0.5, dtype=torch.float64)
    result = dowse.attack(
        Coin().eval(), x, [0] * n, ids=[str(i) for i in range(n)], method="rgf", q=2, budget=50, verify=k
    )
    assert result.success.all()
    share = float(result.verified.sum()) / (n * k)
    assert abs(share - 0.75) < 4 * math.sqrt(0.75 * 0.25 / (n * k))
    assert len(set(result.verified.tolist())) > 3  # each image has draws of its own


def test_a_wanted_class_is_verified_as_wanted():
    wanted = (LABELS + 1) % 4
    result = dowse.attack(TARGET, PICTURES, LABELS, target_labels=wanted, budget=200, verify=3, **{**RUN, "eps": 2.0})
    assert result.success.any()
    assert torch.equal(result.verified, 3 * result.success)


def test_a_target_that_fails_while_it_is_verified_leaves_the_success():
    plain = dowse.attack(TARGET, PICTURES[:1], LABELS[:1], budget=60, **RUN)
    assert plain.success.all()
    calls = Counter(TARGET)
    dowse.attack(calls, PICTURES[:1], LABELS[:1], budget=60, **RUN)
    broken = Counter(Faulty(TARGET, [len(calls.batches)]))
    with pytest.warns(UserWarning, match="could not be verified"):
        result = dowse.attack(broken, PICTURES[:1], LABELS[:1], budget=60, verify=4, **RUN)
    assert result.success.all()
    assert result.verified.tolist() == [0]
    assert int(result.sent) == broken.rows == int(result.queries) + 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repeats": 0}, "repeats counts"),
        ({"repeats": 1.5}, "repeats counts"),
        ({"verify": -1}, "verify counts"),
        ({"repeats": 9, "budget": 8}, "repeats=9 queries, more than budget=8"),
    ],
)
def test_impossible_counts_are_refused(settings, message):
    with pytest.raises(dowse.InputError, match=message):
        dowse.attack(TARGET, PICTURES, LABELS, **RUN, **settings)
