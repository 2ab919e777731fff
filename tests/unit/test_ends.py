"""Every way in which the conversation about an image ends, and the numbers that many ends amount to."""

import math

import pytest
import torch

import dowse
from dowse.core.flow import ask, check
from dowse.core.outcome import Outcome
from dowse.core.result import Result
from dowse.core.summary import summarize
from tests.support import SHAPE, Counter, Faulty, Linear, NotFinite, Tanh, attack_anyway, labels_of, pictures

TARGET = Tanh(0)
SURROGATE = Tanh(1, near=TARGET)
X = pictures(6)
Y = labels_of(TARGET, X)
End = dowse.End


def attack(target, x=X, y=Y, **run):
    counter = Counter(target)
    settings = {"method": "rgf", "q": 5, "budget": 40, "eps": 1e-3, **run}
    result = attack_anyway(counter, x, y, **settings)
    assert counter.rows == int(result.sent.sum())
    return result


def test_every_end_has_a_sentence():
    sentences = [end.sentence for end in End]
    assert len(set(sentences)) == len(End)
    assert all(sentence.endswith(".") and len(sentence) > 20 for sentence in sentences)


def test_adversarial():
    result = attack(TARGET, eps=2.0, budget=2000)
    assert set(result.end) == {End.ADVERSARIAL}
    with torch.no_grad():
        assert (TARGET(result.adversarial).argmax(1) != Y).all()
    for outcome in result.outcomes:
        assert outcome.loss > 0
        assert outcome.distance == pytest.approx(float((outcome.adversarial - X[outcome.index]).norm()))
        assert outcome.cause is None


def test_budget_ends_before_a_question_that_cannot_be_paid():
    result = attack(TARGET, budget=1 + 2 * 6 + 5 + 1 - 1)  # two iterations, and one query too few for the third
    assert set(result.end) == {End.BUDGET}
    assert result.queries.tolist() == [18] * 6  # the probes of the third are asked, its iterate is not
    assert ((result.adversarial - X).flatten(1).norm(dim=1) > 0).all()


def test_a_budget_of_one_pays_for_the_image_alone():
    result = attack(TARGET, budget=1)
    assert result.queries.tolist() == [1] * 6
    assert torch.equal(result.adversarial, X)


def test_exhausted():
    result = dowse.attack(TARGET, X, Y, method="transfer", surrogate=SURROGATE, steps=2, eps=1e-6)
    assert set(result.end) == {End.EXHAUSTED}
    assert result.queries.tolist() == [2] * 6
    whitebox = dowse.attack(TARGET, X, Y, method="whitebox", steps=4, eps=1e-6)
    assert set(whitebox.end) == {End.EXHAUSTED}
    assert whitebox.queries.tolist() == [6] * 6  # the image, four gradients, the last iterate


@pytest.mark.filterwarnings("ignore::dowse.errors.TargetWarning")  # the target is made so
def test_already_wrong_costs_one_query():
    wrong = (Y + 1) % 4
    result = attack(TARGET, y=wrong)
    assert set(result.end) == {End.ALREADY_WRONG}
    assert result.queries.tolist() == [1] * 6
    assert not result.success.any()
    assert torch.equal(result.adversarial, X)
    assert math.isnan(result.summary().asr)
    assert result.summary().already_wrong == 6


def test_no_label_takes_the_targets_own_with_the_first_query():
    asked, given = (attack(TARGET, y=y, ids=list("abcdef")) for y in (None, Y))
    assert [outcome.label for outcome in asked.outcomes] == Y.tolist()
    assert torch.equal(asked.adversarial, given.adversarial)
    assert torch.equal(asked.queries, given.queries)


def test_targeted():
    wanted = (Y + 1) % 4
    result = attack(TARGET, target_labels=wanted, eps=3.0, budget=3000)
    with torch.no_grad():
        reached = TARGET(result.adversarial).argmax(1) == wanted
    assert torch.equal(reached, result.success)
    assert int(reached.sum()) >= 4
    assert result.outcomes[0].label == int(Y[0])


def test_targeted_at_the_class_it_has_is_already_wrong():
    result = attack(TARGET, y=None, target_labels=Y)
    assert set(result.end) == {End.ALREADY_WRONG}


def test_targeted_at_another_class_than_the_one_it_falls_into_goes_on():
    """Being misclassified is no success of a targeted attack."""
    wanted = (Y + 2) % 4
    result = attack(TARGET, target_labels=wanted, eps=3.0, budget=300)
    with torch.no_grad():
        fallen = TARGET(result.adversarial).argmax(1)
    assert ((fallen == wanted) == result.success).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nonfinite_leaves_the_others_alone(value):
    marked = X.clone()
    marked[2, 0, 0, 0] = 0.95
    target = NotFinite(TARGET, lambda x: x[:, 0, 0, 0] > 0.9, value)
    plain = attack(TARGET, marked, labels_of(TARGET, marked), eps=0.02)
    result = attack(target, marked, labels_of(TARGET, marked), eps=0.02)
    assert result.end[2] is End.NONFINITE
    assert result.queries[2] == 1
    others = [0, 1, 3, 4, 5]
    assert [result.end[i] for i in others] == [plain.end[i] for i in others]
    assert torch.equal(result.adversarial[others], plain.adversarial[others])


def test_nonfinite_at_a_probe():
    target = NotFinite(TARGET, lambda x: ~(x == X[0]).flatten(1).all(1))
    result = attack(target, X[:1], Y[:1])
    assert result.end == [End.NONFINITE]
    assert result.queries.tolist() == result.sent.tolist() == [6]
    assert torch.equal(result.adversarial, X[:1])


def test_a_failed_call_ends_the_images_of_its_batch_and_the_run_goes_on():
    """Six images, two at a time, ten rows a batch: the second round's only batch fails."""
    result = attack(Faulty(TARGET, {1}), concurrency=2, batch_size=10)
    assert result.end == [End.TARGET_FAILED] * 2 + [End.BUDGET] * 4
    failed, fine = result.outcomes[0], result.outcomes[5]
    assert isinstance(failed.cause, ConnectionError)
    assert (failed.queries, failed.sent) == (1, 6)
    assert torch.equal(failed.adversarial, X[0])
    assert fine.cause is None
    assert (result.summary().n, result.summary().failed) == (4, 2)


def test_a_failed_call_spares_the_images_of_other_batches():
    """Two images of five probes in batches of five: only the first image's probes fail."""
    result = attack(Faulty(TARGET, {1}), X[:2], Y[:2], concurrency=2, batch_size=5)
    assert result.end == [End.TARGET_FAILED, End.BUDGET]


def test_rows_answered_before_the_failure_are_queries():
    """Five probes in batches of two: the second of three batches fails, the third is never sent."""
    result = attack(Faulty(TARGET, {2}), X[:1], Y[:1], batch_size=2)
    assert result.end == [End.TARGET_FAILED]
    assert (int(result.queries[0]), int(result.sent[0])) == (1 + 2, 1 + 4)


def test_a_target_that_fails_at_once_leaves_no_label():
    result = attack(Faulty(TARGET, {0}), X[:1], None)
    outcome = result.outcomes[0]
    assert (outcome.end, outcome.queries, outcome.sent, outcome.label) == (End.TARGET_FAILED, 0, 1, None)
    assert math.isnan(outcome.loss)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: None, "NoneType"),
        (lambda x: TARGET(x).argmax(1), r"\(6,\)"),
        (lambda x: TARGET(x)[:1], r"\(1, 4\)"),
    ],
)
def test_an_answer_of_the_wrong_shape_is_a_failed_call(answer, said):
    result = attack_anyway(answer, X, Y, method="rgf", q=5, budget=40)
    assert set(result.end) == {End.TARGET_FAILED}
    with pytest.raises(TypeError, match=said):
        raise result.outcomes[0].cause


def test_a_target_that_changes_its_number_of_classes_fails():
    calls = []

    def target(x):
        calls.append(len(x))
        return TARGET(x) if len(calls) < 3 else TARGET(x)[:, :3]

    result = attack_anyway(target, X, Y, method="rgf", q=5, budget=40)
    assert set(result.end) == {End.TARGET_FAILED}
    assert "3 classes" in str(result.outcomes[0].cause)


class Rim:
    """An attack whose probes cross the border that its iterates never reach."""

    def __init__(self, reach):
        self.reach = reach

    def flow(self, x, f, ball, rng):
        for _ in range(3):
            yield from ask(torch.stack([x + 0.1, x + self.reach, x + 1.01 * self.reach]))
            yield from check(x)


STEP = Linear(
    torch.cat([torch.zeros(1, 48, dtype=torch.float64), torch.ones(1, 48, dtype=torch.float64)]),
    torch.tensor([0.0, -48 * 0.6], dtype=torch.float64),
)  # class 1 beyond a mean pixel of 0.6
GREY = torch.full((1, *SHAPE), 0.4, dtype=torch.float64)


@pytest.mark.parametrize(
    ("accept", "reach", "end", "queries"),
    [
        ("iterate", 0.25, End.EXHAUSTED, 1 + 3 * 4),
        ("any", 0.25, End.ADVERSARIAL, 1 + 3),  # the whole question is paid
        ("any", 0.4, End.EXHAUSTED, 1 + 3 * 4),  # outside the ball
        ("any", 0.7, End.EXHAUSTED, 1 + 3 * 4),  # no image
    ],
)
def test_accept_any_takes_a_probe_in_the_ball(accept, reach, end, queries):
    result = dowse.attack(STEP, GREY, [0], method=Rim(reach), norm="linf", eps=0.3, accept=accept)
    assert result.end == [end]
    assert result.queries.tolist() == [queries]
    if end is End.ADVERSARIAL:
        assert torch.equal(result.adversarial, GREY + reach)
        assert result.outcomes[0].distance == pytest.approx(reach)
    else:
        assert torch.equal(result.adversarial, GREY)


class Outside:
    """An attack that shows iterates outside the ball."""

    def flow(self, x, f, ball, rng):
        yield from check(x + 0.01)
        yield from check(x + 0.5)
        return "done"


def test_an_iterate_outside_the_ball_is_no_success_and_is_not_kept():
    result = dowse.attack(STEP, GREY, [0], method=Outside(), norm="linf", eps=0.3)
    assert result.end == [End.EXHAUSTED]
    assert torch.equal(result.adversarial, GREY + 0.01)
    assert result.outcomes[0].value == "done"


def outcome(index, end, queries, budget=100):
    return Outcome(index, str(index), end, queries, queries, budget, 0, torch.zeros(SHAPE), 0.0, 0.0)


def test_the_summary_by_hand():
    ends = [
        outcome(3, End.BUDGET, 95), outcome(0, End.ADVERSARIAL, 10), outcome(1, End.ALREADY_WRONG, 1),
        outcome(2, End.ADVERSARIAL, 30), outcome(4, End.ADVERSARIAL, 20), outcome(5, End.EXHAUSTED, 2, budget=50),
    ]  # fmt: skip
    result = Result(ends)
    assert [o.index for o in result.outcomes] == [0, 1, 2, 3, 4, 5]
    assert result.success.tolist() == [True, False, True, False, True, False]
    assert result.queries.tolist() == [10, 1, 30, 95, 20, 2]
    summary = result.summary()
    assert (summary.n, summary.successes, summary.already_wrong) == (5, 3, 1)
    assert summary.asr == pytest.approx(3 / 5)
    assert summary.mean_queries == pytest.approx(20)
    assert summary.median_queries == 30  # of 10, 20, 30, ∞, ∞
    assert summary.mean_queries_budget == pytest.approx((10 + 20 + 30 + 100 + 50) / 5)
    assert summary.queries == 10 + 20 + 30 + 95 + 2
    assert [result.success_at(k) for k in (0, 9, 10, 19.5, 20, 30, math.inf)] == [0, 0, 0.2, 0.2, 0.4, 0.6, 0.6]
    assert "3/5" in str(summary)
    assert "0/0 fooled (ASR –), AVG. Q –, median – (failures infinite), mean – (" in str(summarize([]))
    assert "60.0%" in repr(result)


@pytest.mark.parametrize(
    ("queries", "failures", "median"),
    [([10, 20], 0, 15), ([10, 20], 1, 20), ([10], 1, math.inf), ([10, 20, 30], 3, math.inf), ([7], 0, 7)],
)
def test_the_median_counts_failures_as_infinite(queries, failures, median):
    ends = [outcome(i, End.ADVERSARIAL, q) for i, q in enumerate(queries)]
    ends += [outcome(10 + i, End.BUDGET, 99) for i in range(failures)]
    assert Result(ends).summary().median_queries == median


def test_a_run_with_nothing_to_attack_has_no_numbers():
    result = Result([outcome(0, End.ALREADY_WRONG, 1)])
    summary = result.summary()
    assert summary.n == 0
    assert all(math.isnan(v) for v in (summary.asr, summary.mean_queries, summary.median_queries))
    assert math.isnan(summary.mean_queries_budget)
    assert math.isnan(result.success_at(100))


def test_a_surrogate_without_finite_gradients_counts_as_none():
    class Broken:
        def gradient(self, x, labels):
            return torch.full_like(x, math.nan)

    with pytest.warns(UserWarning, match="surrogate's gradient is not finite"):
        result = attack(TARGET, method="prgf", surrogate=Broken())
    assert set(result.end) == {End.BUDGET}


@pytest.mark.parametrize("question", [None, "hello", torch.zeros(3)])
def test_a_flow_that_asks_nonsense_is_told(question):
    class Nonsense:
        def flow(self, x, f, ball, rng):
            yield question

    with pytest.raises(TypeError, match="'Nonsense' must yield"):
        dowse.attack(TARGET, X, Y, method=Nonsense())


def test_a_flow_that_asks_about_nothing_is_told():
    class Nothing:
        def flow(self, x, f, ball, rng):
            while True:
                yield from ask(x.new_empty((0, *x.shape)))

    with pytest.raises(TypeError, match="at least one row"):
        dowse.attack(TARGET, X, Y, method=Nothing())
