"""Every method of the paper on a linear model of known minimal distance: 1.1 times it is enough, 0.99 never is.

A fixed prior biases the estimate for good, and on a linear model nothing ever corrects it; the surrogate's cosine and
the fixed weights are therefore so small that the bias alone leaves more than 1/1.1 of the slope. The subspace holds
the weights and the surrogate's gradient, so that it can succeed.
"""

import pytest
import torch

import dowse
from tests.support import SHAPE, D, Linear, generator, minimal_distance

N, BUDGET, COSINE, MARGIN = 1, 5000, 0.3, 0.25
CASES = {  # the methods with the options that make them different attacks
    "rgf": {},
    "rgf-subspace": {"subspace": 2},
    "prgf": {},
    "prgf-0.05": {"lam": 0.05},
    "prgf-subspace": {"subspace": 2},
    "prgf-subspace-exact": {"subspace": 2, "exact_subspace": True},
    "prgf-subspace-a_square": {"subspace": 2, "a_square": 1.0},
    "prgf-subspace-gamma": {"subspace": 2, "gamma": 3.5},
    "averaging": {},
    "averaging-0.1": {"mu": 0.1},
    "averaging-subspace": {"subspace": 2},
    "averaging-subspace-a_square": {"subspace": 2, "a_square": 1.0},
    "transfer": {},
    "whitebox": {},
}
cases = pytest.mark.parametrize(
    ("method", "options"), [pytest.param(name.split("-")[0], options, id=name) for name, options in CASES.items()]
)
norms = pytest.mark.parametrize("norm", ["l2", "linf"])
boxes = pytest.mark.parametrize("box", [False, True], ids=["free", "box"])


def weights(seed, cosine=None, like=None):
    """A direction that is constant on blocks of 2×2 pixels, so that subspace=2 holds it; of given cosine to another."""
    w = torch.randn(3, 2, 2, generator=generator(seed), dtype=torch.float64)
    w = w.repeat_interleave(2, 1).repeat_interleave(2, 2).flatten()
    if like is None:
        return w / torch.linalg.vector_norm(w)
    w = w - (w @ like) * like
    return cosine * like + (1 - cosine**2) ** 0.5 * w / torch.linalg.vector_norm(w)


def model(w, x, margin, classes=3):
    """A linear model whose class 1 wins over class 0 beyond wᵀδ = margin; the others stay far behind."""
    W = torch.zeros(classes, D, dtype=torch.float64)
    b = torch.full((classes,), -50.0, dtype=torch.float64)
    W[1], b[0], b[1] = 8 * w, 0.0, -8 * float(w @ x.flatten()) - 8 * margin
    return Linear(W, b)


def problem(norm, box):
    """Target, surrogate, an image of class 0, and the exact minimal distance, with the cube in the way or not."""
    x = 0.35 + 0.3 * torch.rand(SHAPE, generator=generator(3), dtype=torch.float64)
    w = weights(1)
    if box:  # the pixels with the largest weights sit where w cannot push them any further
        steepest = w.abs() >= w.abs().topk(8).values[-1]
        x = torch.where(steepest, (w > 0).double(), x.flatten()).view(SHAPE)
    distance, free = (minimal_distance(w, MARGIN, x, norm, box=inside) for inside in (True, False))
    assert (distance > 1.1 * free) if box else (distance == pytest.approx(free))
    return model(w, x, MARGIN), model(weights(2, COSINE, w), x, MARGIN), x, distance


def attack(method, options, norm, box, factor, budget=BUDGET, **more):
    target, surrogate, x, distance = problem(norm, box)
    if method == "transfer":
        surrogate = target  # with no feedback only the right gradient arrives
    return dowse.attack(
        target, x.expand(N, *SHAPE), [0] * N, ids=list(map(str, range(N))), method=method, surrogate=surrogate,
        norm=norm, eps=factor * distance, budget=budget, **options, **more,
    )  # fmt: skip


@boxes
@norms
@cases
def test_a_tenth_more_than_the_minimal_distance_is_enough(method, options, norm, box):
    result = attack(method, options, norm, box, 1.1)
    assert result.success.all(), result.end


@boxes
@norms
@cases
def test_a_hundredth_less_never_is(method, options, norm, box):
    result = attack(method, options, norm, box, 0.99, budget=400, accept="any")
    assert not result.success.any(), result.end


@norms
@cases
def test_the_same_distance_holds_for_a_class_that_is_wanted(method, options, norm):
    assert attack(method, options, norm, False, 1.1, target_labels=[1] * N).success.all()
    assert not attack(method, options, norm, False, 0.99, budget=400, target_labels=[1] * N).success.any()


@pytest.mark.parametrize("loss", ["ce", "margin"])
@pytest.mark.parametrize("outputs", ["logits", "probs"])
@pytest.mark.parametrize("method", ["rgf", "prgf", "averaging", "transfer", "whitebox"])
def test_either_loss_and_either_kind_of_scores(method, loss, outputs):
    target, surrogate, x, distance = problem("l2", False)
    if method == "transfer":
        surrogate = target
    shown = torch.nn.Sequential(target, torch.nn.Softmax(1)).eval() if outputs == "probs" else target
    for factor, fooled in ((1.1, True), (0.99, False)):
        result = dowse.attack(
            shown, x[None], [0], method=method, surrogate=surrogate, eps=factor * distance,
            budget=BUDGET if fooled else 400, loss=loss, outputs=outputs,
        )  # fmt: skip
        assert bool(result.success[0]) == fooled


def test_an_adversarial_image_that_is_found_lies_between_the_two_distances():
    distance = problem("l2", False)[-1]
    result = attack("prgf", {}, "l2", False, 1.1)
    assert all(distance <= outcome.distance <= 1.1 * distance for outcome in result.outcomes)
