"""The law of the budget: never one row over, and counts that equal what a counter around the target sees."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dowse
from dowse.attacks.registry import METHODS
from dowse.core.ledger import BudgetError, Ledger
from tests.support import Counter, Faulty, NotFinite, Quantised, Tanh, attack_anyway, generator, labels_of, pictures

TARGET = Tanh(0)
SURROGATE = Tanh(1, near=TARGET)
PICTURES = (pictures(6) * 255).round() / 255  # 8-bit images, as quantize= wants them
LABELS = labels_of(TARGET, PICTURES)

PAIRED = {"nes", "spsa", "bandits"}  # their q counts both probes of a pair
SMALL = {"q": (1, 12), "norm_samples": (1, 5), "norm_period": (1, 4), "steps": (1, 6), "coordinates": (1, 9)} | {
    "starts": (1, 1),
    "memory": (1, 12),
}


@st.composite
def runs(draw):
    """Keywords of a run: any method with small options, any budget, any way to batch."""
    method = METHODS[draw(st.sampled_from(sorted(METHODS)))]
    known = method.options()
    options = {name: draw(st.integers(*SMALL[name])) for name in SMALL if name in known}
    if method.name in PAIRED and "q" in options:
        options["q"] += options["q"] % 2
    for name in ("lam", "mu"):
        if name in known:
            options[name] = draw(st.none() | st.floats(0, 1))
    if "subspace" in known:
        options["subspace"] = draw(st.sampled_from([None, None, 2, (1, 3)]))
    if options.get("subspace") is not None:
        if "a_square" in known:
            options["a_square"] = draw(st.none() | st.floats(0, 1))
        if "exact_subspace" in known:
            options["exact_subspace"] = draw(st.booleans())
    if "clip_probes" in known:
        options["clip_probes"] = draw(st.booleans())
    norm = draw(st.sampled_from(method.norms))
    return {
        "method": method.name,
        "surrogate": SURROGATE,
        "norm": norm,
        "eps": draw(st.sampled_from([0.02, 0.2, 2.0 if norm == "l2" else 0.9])),
        "budget": draw(st.integers(3, 70)),
        "loss": draw(st.sampled_from(["ce", "margin"])),
        "accept": draw(st.sampled_from(["iterate", "any"])),
        "concurrency": draw(st.integers(1, 7)),
        "batch_size": draw(st.none() | st.integers(1, 40)),
        "seed": draw(st.integers(0, 3)),
        "repeats": draw(st.sampled_from([1, 1, 1, 2, 3])),
        "quantize": draw(st.booleans()),
        **options,
    }


def attack(target, run, y=LABELS, n=6):
    counter = Counter(target)
    return counter, attack_anyway(counter, PICTURES[:n], None if y is None else y[:n], **run)


def check_counts(counter, result, budget):
    assert int(result.sent.sum()) == counter.rows
    assert (result.queries <= budget).all()
    assert (result.sent <= budget).all()
    assert (result.sent >= result.queries).all()
    failed = torch.tensor([end is dowse.End.TARGET_FAILED for end in result.end])
    assert (result.sent == result.queries)[~failed].all()
    assert (result.sent > result.queries)[failed].all()


@settings(max_examples=120)
@given(runs(), st.integers(1, 6), st.booleans())
def test_counts_are_exact_and_within_the_budget(run, n, labelled):
    counter, result = attack(TARGET, run, LABELS if labelled else None, n)
    check_counts(counter, result, run["budget"])
    assert (result.sent == result.queries).all()
    assert max(counter.batches) <= (run["batch_size"] or 10**6)


@settings(max_examples=100)
@given(runs(), st.sets(st.integers(0, 25), max_size=4))
def test_counts_are_exact_when_calls_fail(run, calls):
    counter, result = attack(Faulty(TARGET, calls), run)
    check_counts(counter, result, run["budget"])
    causes = [outcome.cause for outcome in result.outcomes if outcome.end is dowse.End.TARGET_FAILED]
    assert all(isinstance(cause, ConnectionError) for cause in causes)


@settings(max_examples=60)
@given(runs(), st.floats(0.2, 0.8), st.sampled_from([float("nan"), float("inf"), -float("inf")]))
def test_counts_are_exact_when_scores_are_not_finite(run, level, value):
    counter, result = attack(NotFinite(TARGET, lambda x: x[:, 0, 0, 0] > level, value), run)
    check_counts(counter, result, run["budget"])
    at_start = PICTURES[:, 0, 0, 0] > level
    assert all(result.end[i] is dowse.End.NONFINITE and result.queries[i] == run["repeats"] for i in at_start.nonzero())


@pytest.mark.filterwarnings("ignore::dowse.errors.TargetWarning")  # the target is made so
@settings(max_examples=60)
@given(runs(), st.sampled_from([0.1, 1.0, 1e6]))
def test_counts_are_exact_when_scores_are_flat(run, grid):
    target = Quantised(TARGET, grid)
    counter, result = attack(target, run, labels_of(target, PICTURES))
    check_counts(counter, result, run["budget"])


@settings(max_examples=60)
@given(runs())
def test_an_outcome_keeps_its_promises(run):
    """Success is inside the ball and really adversarial; a failure leaves the last iterate, inside the ball too."""
    _, result = attack(TARGET, run)
    with torch.no_grad():
        wrong = TARGET(result.adversarial).argmax(1) != LABELS
    δ = (result.adversarial - PICTURES).flatten(1)
    if run["quantize"]:  # whole levels: 51/255 is not more than 0.2, though the difference of two pixels rounds to more
        δ = (δ * 255).round() / 255
    distance = torch.linalg.vector_norm(δ, 2 if run["norm"] == "l2" else torch.inf, dim=1)
    assert (distance <= run["eps"]).all()
    assert ((result.adversarial >= 0) & (result.adversarial <= 1)).all()
    assert (wrong == result.success).all()


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.parametrize("budget", [1, 2, 3, 60])
def test_every_method_stops_at_its_budget(method, budget):
    counter = Counter(TARGET)
    few = {"starts": 1, "steps": 2} if method == "pbo" else {}  # its queries cost many steps on the surrogate
    result = dowse.attack(counter, PICTURES, LABELS, method=method, surrogate=SURROGATE, eps=1e-6, budget=budget, **few)
    check_counts(counter, result, budget)
    assert set(result.end) <= {dowse.End.BUDGET, dowse.End.EXHAUSTED}


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=20))
def test_the_ledger_refuses_before_it_reserves(budget, charges):
    ledger = Ledger()
    ledger.open(0, budget)
    queries = 0
    for n, lost in charges:
        before = ledger.remaining(0)
        if n > before:
            with pytest.raises(BudgetError):
                ledger.charge(0, n)
            assert ledger.remaining(0) == before
            continue
        ledger.charge(0, n)
        answered = max(0, n - lost)
        ledger.settle(0, charged=n, answered=answered, sent=n)
        queries += answered
        assert ledger.remaining(0) == budget - queries
    assert ledger.account(0).queries == queries <= budget


def test_a_failed_call_gives_the_budget_back():
    ledger = Ledger()
    ledger.open(0, 10)
    ledger.charge(0, 7)
    assert ledger.remaining(0) == 3
    ledger.settle(0, charged=7, answered=2, sent=5)
    account = ledger.close(0)
    assert (account.queries, account.sent, account.remaining) == (2, 5, 8)


def test_rows_of_the_small_networks_do_not_depend_on_the_batch():
    """What all laws of independence stand on."""
    x = torch.rand(100, *PICTURES.shape[1:], generator=generator(0), dtype=torch.float64)
    for net in (TARGET, SURROGATE):
        whole = net(x)
        for size in (1, 2, 3, 7, 33):
            assert torch.equal(torch.cat([net(part) for part in x.split(size)]), whole)
