"""Every method on a linear model whose exact minimal distance is known: 1.1 times it is enough, 0.99 never is."""

import pytest
import torch

import dowse
from dowse.methods import METHODS
from tests.support import SHAPE, D, Linear, generator, minimal_distance

N = 3
BUDGET = 6000
FAMILY = {  # the paper's methods with the options that make them different attacks
    "rgf": {},
    "rgf-subspace": {"subspace": 2},
    "prgf": {},
    "prgf-0.05": {"lam": 0.05},
    "prgf-subspace": {"subspace": 2},
    "prgf-subspace-exact": {"subspace": 2, "exact_subspace": True},
    "prgf-subspace-a_square": {"subspace": 2, "a_square": 1.0},
    "prgf-subspace-gamma": {"subspace": 2, "gamma": 3.5},
    "averaging": {},
    "averaging-0.3": {"mu": 0.3},
    "averaging-subspace": {"subspace": 2},
}
RIVALS = {name: {} for name in sorted(set(METHODS) - {"rgf", "prgf", "averaging"})}


def weights(seed, cosine=None, like=None):
    """A direction that is constant on blocks of 2×2 pixels, so that subspace=2 holds it; of given cosine to another."""
    w = torch.randn(3, 2, 2, generator=generator(seed), dtype=torch.float64)
    w = w.repeat_interleave(2, 1).repeat_interleave(2, 2).flatten()
    if like is None:
        return w / torch.linalg.vector_norm(w)
    w = w - (w @ like) * like
    return cosine * like + (1 - cosine**2) ** 0.5 * w / torch.linalg.vector_norm(w)


def model(w, margin_at, margin, classes=3):
    """A linear model whose class 1 wins over class 0 beyond wᵀ(x − margin_at) = margin; the others stay far behind."""
    W = torch.zeros(classes, D, dtype=torch.float64)
    b = torch.full((classes,), -50.0, dtype=torch.float64)
    W[1], b[0], b[1] = 8 * w, 0.0, -8 * float(w @ margin_at.flatten()) - 8 * margin
    return Linear(W, b)


def problem(norm, box):
    """Target, surrogate, an image of class 0, and the exact minimal distance in the norm, the cube in the way or not."""
    rng = generator(3)
    x = 0.35 + 0.3 * torch.rand(SHAPE, generator=rng, dtype=torch.float64)
    w = weights(1)
    margin = 0.25
    if box:  # most pixels sit at the end of the range that w points to
        x = torch.where(
            (w.view(SHAPE) > 0) == (torch.rand(SHAPE, generator=rng) < 0.5), w.view(SHAPE).sign() * 0.5 + 0.5, x
        )
    distance = minimal_distance(w, margin, x, norm)
    free = minimal_distance(w, margin, x, norm, box=False)
    assert (distance > 1.2 * free) if box else (distance == pytest.approx(free))
    return model(w, x, margin), model(weights(2, 0.5, w), x, margin), x, distance


def attack(method, options, norm, box, factor, **more):
    target, surrogate, x, distance = problem(norm, box)
    if method == "transfer":
        surrogate = target  # with no feedback only the right gradient arrives
    images = x.expand(N, *SHAPE)
    return dowse.attack(
        target, images, [0] * N, ids=list(map(str, range(N))), method=method, surrogate=surrogate, norm=norm,
        eps=factor * distance, budget=BUDGET, concurrency=N, **options, **more,
    )  # fmt: skip


CASES = [pytest.param(name.split("-")[0], options, id=name) for name, options in {**FAMILY, **RIVALS}.items()]


@pytest.mark.parametrize("box", [False, True], ids=["free", "box"])
@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize(("method", "options"), CASES)
def test_a_tenth_more_than_the_minimal_distance_is_enough(method, options, norm, box):
    result = attack(method, options, norm, box, 1.1)
    assert result.success.all(), result.end
    assert (result.queries < BUDGET).all()


@pytest.mark.parametrize("box", [False, True], ids=["free", "box"])
@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize(("method", "options"), CASES)
def test_a_hundredth_less_never_is(method, options, norm, box):
    result = attack(method, options, norm, box, 0.99, accept="any")
    assert not result.success.any(), result.end


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize(("method", "options"), CASES)
def test_the_same_distance_holds_for_a_class_that_is_wanted(method, options, norm):
    assert attack(method, options, norm, False, 1.1, target_labels=[1] * N).success.all()
    assert not attack(method, options, norm, False, 0.99, target_labels=[1] * N).success.any()


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
            shown, x[None], [0], method=method, surrogate=surrogate, eps=factor * distance, budget=BUDGET,
            loss=loss, outputs=outputs,
        )  # fmt: skip
        assert bool(result.success[0]) == fooled


def test_an_adversarial_image_that_is_found_lies_between_the_two_distances():
    _, _, _, distance = problem("l2", False)
    result = attack("prgf", {}, "l2", False, 1.1)
    assert all(distance <= outcome.distance <= 1.1 * distance for outcome in result.outcomes)
