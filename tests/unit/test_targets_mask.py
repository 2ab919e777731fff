"""What a masked answer says about each class: never more than was shown, never against it."""

import math

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

import dowse
from dowse.targets import Mask
from tests.support import Linear, Tanh, attack_anyway, labels_of, pictures

logits = arrays.arrays("float64", st.tuples(st.integers(1, 4), st.integers(2, 12)), elements=st.floats(-30, 30))


def probabilities(values):
    return torch.from_numpy(values).softmax(1)


@given(logits, st.integers(1, 12), st.one_of(st.none(), st.integers(1, 8)))
def test_the_best_class_stays_the_only_best(values, top, decimals):
    full = probabilities(values)
    seen = Mask("probs", top, decimals)(full)
    best = full.argmax(1)
    assert torch.equal(seen.argmax(1), best)
    ahead = seen.gather(1, best.unsqueeze(1))
    assert ((seen >= ahead).sum(1) == 1).all()


@given(logits, st.integers(1, 12))
def test_a_hidden_class_gets_the_bound_that_its_true_probability_keeps(values, top):
    full = probabilities(values)
    seen = Mask("probs", top)(full)
    k = min(top, full.shape[1])
    shown = full.topk(k).indices
    hidden = torch.ones_like(full, dtype=torch.bool).scatter(1, shown, False)
    smallest = full.gather(1, shown).amin(1, keepdim=True)
    rest = 1 - full.gather(1, shown).sum(1, keepdim=True)
    assert torch.allclose(seen.gather(1, shown), full.gather(1, shown), rtol=1e-12, atol=0)
    assert (seen <= torch.minimum(smallest, rest.clamp_min(0)) + 1e-15)[hidden].all()
    assert (seen >= full - 1e-12)[hidden].all()


@given(logits, st.integers(1, 8))
def test_rounding_moves_no_class_by_more_than_half_a_unit(values, decimals):
    full = probabilities(values)
    seen = Mask("probs", None, decimals)(full)
    unit = 10.0**-decimals
    assert ((seen - full).abs() <= unit / 2 * (1 + 1e-6) + 1e-12).all()
    nearest = (seen / unit).round() * unit
    on_grid = (seen - nearest).abs() < 1e-12
    assert (on_grid | ((seen - unit / 2).abs() < 1e-12)).all()  # what is shown as zero is taken as half a unit


@given(logits)
def test_logits_become_probabilities_first(values):
    scores = torch.from_numpy(values)
    assert torch.equal(Mask("logits", 2, 3)(scores), Mask("probs", 2, 3)(scores.softmax(1)))


def test_known_answers():
    row = torch.tensor([[0.70004, 0.2, 0.09, 0.00996]], dtype=torch.float64)
    assert Mask("probs", 2)(row)[0].tolist() == pytest.approx([0.70004, 0.2, 0.09996, 0.09996])
    assert Mask("probs", 1)(row)[0].tolist() == pytest.approx([0.70004] + 3 * [0.29996])
    assert Mask("probs", None, 3)(row)[0].tolist() == pytest.approx([0.7, 0.2, 0.09, 0.01])
    assert Mask("probs", 3, 2)(row)[0].tolist() == pytest.approx([0.7, 0.2, 0.09, 0.01])
    sure = torch.tensor([[0.99999, 0.000008, 0.000002]], dtype=torch.float64)
    assert Mask("probs", None, 4)(sure)[0].tolist() == [1.0, 5e-5, 5e-5]
    even = torch.tensor([[0.49999, 0.50001]], dtype=torch.float64)
    seen = Mask("probs", None, 2)(even)[0]
    assert seen.tolist() == pytest.approx([0.5, 0.5])
    assert seen[1] > seen[0]


def test_what_is_not_finite_stays_so():
    scores = torch.tensor([[math.nan, 1.0, 2.0], [0.5, 0.25, 0.25]], dtype=torch.float64)
    seen = Mask("logits", 1, 2)(scores)
    assert not seen[0].isfinite().all()
    assert seen[1].isfinite().all()


def test_a_nonfinite_answer_behind_a_mask_still_ends_the_image():
    x = pictures(1)
    target = Linear(torch.full((3, 48), math.nan, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))
    result = attack_anyway(target, x, [0], method="rgf", budget=5, decimals=3)
    assert result.end == [dowse.End.NONFINITE]


@pytest.mark.parametrize("reveals", ["top5", "topk", "topk:", "topk:0", "topk:-1", "topk:x", "all:3", ""])
def test_a_bad_reveals_is_named(reveals):
    with pytest.raises(dowse.InputError, match="topk:5"):
        Mask.of("logits", reveals, None)


@pytest.mark.parametrize("decimals", [0, -1, 1.5, True, "4"])
def test_bad_decimals_are_named(decimals):
    with pytest.raises(dowse.InputError, match="decimals must be a whole number"):
        Mask.of("logits", None, decimals)


def test_nothing_hidden_is_no_mask():
    assert Mask.of("logits", None, None) is None
    assert Mask.of("logits", "all", None) is None
    assert Mask.of("probs", "topk:3", 2) == Mask("probs", 3, 2)


class Eavesdropper(dowse.Observer):
    def __init__(self):
        self.scores = []

    def answered(self, task, query, reply):
        self.scores.append(reply.answer.scores)


@pytest.mark.parametrize("outputs", ["logits", "probs"])
def test_an_attack_sees_the_masked_answers_only(outputs):
    net, x = Tanh(0, classes=6), pictures(3)
    target = net if outputs == "logits" else torch.nn.Sequential(net, torch.nn.Softmax(1)).eval()
    ear = Eavesdropper()
    dowse.attack(
        target, x, labels_of(net, x), method="rgf", budget=60, q=5, eps=0.3, outputs=outputs, reveals="topk:2",
        decimals=3, observers=[ear],
    )  # fmt: skip
    scores = torch.cat(ear.scores)
    units = scores * 1000
    assert ((units - units.round()).abs().lt(1e-6) | (units - 0.5).abs().lt(1e-6)).all()
    assert max(len(row.unique()) for row in scores) <= 4  # two shown, the bound, and the bound a bit below a tie


def test_a_masked_attack_counts_and_succeeds_by_the_targets_own_label():
    net, x = Tanh(0), pictures(6)
    y = labels_of(net, x)
    result = dowse.attack(net, x, y, method="rgf", budget=600, q=8, eps=1.0, reveals="topk:1", decimals=2)
    assert result.success.any()
    with torch.no_grad():
        fooled = net(result.adversarial).argmax(1) != torch.as_tensor(y)
    assert torch.equal(fooled, result.success)
    assert (result.queries <= 600).all()


def test_a_targeted_attack_hears_of_the_wanted_class_by_its_bound():
    net, x = Tanh(0), pictures(4)
    y = torch.as_tensor(labels_of(net, x))
    result = dowse.attack(
        net, x, y, target_labels=(y + 1) % 4, method="prgf", surrogate=Tanh(1, near=net), budget=800, eps=1.5,
        reveals="topk:2", q=10,
    )  # fmt: skip
    assert result.success.any()
