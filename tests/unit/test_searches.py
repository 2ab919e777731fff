"""The attacks that search and step at once: Square, SignHunter, SimBA, SimBA-ODS, GFCS, and ODS-RGF's directions."""

import math

import pytest
import torch

import dowse
from dowse.attacks import GFCS, SignHunter, SimBA, SimBAODS, Square
from dowse.attacks.signhunter import _parts
from dowse.attacks.square import _pyramid, bump
from dowse.core.flow import Query
from dowse.core.observers import Observer
from dowse.estimators import ODSRGF
from dowse.maths.geometry import L2, Linf, contains
from tests.support import SHAPE, D, Gap, Linear, Tanh, generator, labels_of, minimal_distance, pictures

TARGET = Tanh(0)
NEAR, FAR = Tanh(1, near=TARGET, apart=2.0), Tanh(2, near=TARGET, apart=2.0)
PICTURES = pictures(6)
LABELS = labels_of(TARGET, PICTURES)
NORMS = pytest.mark.parametrize(("norm", "eps"), [("l2", 0.35), ("linf", 0.05)], ids=["l2", "linf"])


class Seeing(Observer):
    """Every question to the target and its loss, by image."""

    def __init__(self):
        self.asked: dict[int, list[tuple[Query, torch.Tensor]]] = {}

    def answered(self, task, query, reply):
        query = query._replace(points=query.points.clone())
        self.asked.setdefault(task.index, []).append((query, reply.answer))

    def points(self, image=0):
        """The rows that the attack asked about, the unchanged image left out."""
        return torch.cat([query.points for query, _ in self.asked[image][1:]])


def seen(method, norm="l2", eps=0.35, budget=60, target=TARGET, n=6, surrogate=(NEAR, FAR), **more):
    seeing = Seeing()
    result = dowse.attack(
        target, PICTURES[:n], LABELS[:n], method=method, norm=norm, eps=eps, budget=budget, surrogate=surrogate,
        observers=[seeing], **more,
    )  # fmt: skip
    return seeing, result


# What is known of a linear model ------------------------------------------------------------------------------------

CASES = {
    "square": {},
    "signhunter": {},
    "simba": {"step": 0.02},
    "simba pixel": {"basis": "pixel", "step": 0.02},
    "simba-ods": {},
    "gfcs": {},
    "ods-rgf": {},
    "prgf-span": {},
    "bases": {},
    "pbo": {"subspace": 4, "steps": 20},
}
SLOW = ("bases", "pbo")  # a query costs many steps on the surrogate
cases = pytest.mark.parametrize(("title", "options"), CASES.items(), ids=CASES)
# What the shapes of a method cannot reach of an l2 ball on a linear model: SignHunter's corners move all pixels alike,
# Square's windows are bumps.
REACH = {("square", "l2"): 2.0, ("signhunter", "l2"): 1.6}


def linear(norm):
    """A target whose class 1 lies beyond a hyperplane at a known distance, and an image of class 0."""
    w = torch.randn(3, 2, 2, generator=generator(1), dtype=torch.float64)
    w = w.repeat_interleave(2, 1).repeat_interleave(2, 2)
    x = 0.4 + 0.2 * torch.rand(SHAPE, generator=generator(2), dtype=torch.float64)
    margin = 0.15 * float(w.abs().sum())
    W, b = torch.zeros(3, D, dtype=torch.float64), torch.full((3,), -200.0, dtype=torch.float64)
    W[1], b[0], b[1] = w.flatten(), 0.0, -float((w * x).sum()) - margin
    return Linear(W, b), x, minimal_distance(w, margin, x, norm)


def on_linear(title, options, norm, factor, budget, **more):
    target, x, distance = linear(norm)
    return dowse.attack(
        target, x[None], [0], method=title.split()[0], norm=norm, eps=factor * distance, budget=budget,
        surrogate=target, **options, **more,
    )  # fmt: skip


@pytest.mark.parametrize("norm", ["l2", "linf"])
@cases
def test_a_little_more_than_the_minimal_distance_is_enough(title, options, norm):
    factor = REACH.get((title, norm), 1.1)
    for more in ({}, {"target_labels": [1]}):
        assert on_linear(title, options, norm, factor, 6000, **more).success.all()


@pytest.mark.parametrize("norm", ["l2", "linf"])
@cases
def test_a_hundredth_less_never_is(title, options, norm):
    for more in ({}, {"target_labels": [1]}):
        budget = 15 if title in SLOW else 500
        assert not on_linear(title, options, norm, 0.99, budget, accept="any", **more).success.any()


# What all of them promise -------------------------------------------------------------------------------------------

METHODS = ["square", "signhunter", "simba", "simba-ods", "gfcs"]


@NORMS
@pytest.mark.parametrize("method", METHODS)
def test_every_query_is_a_candidate_in_the_ball_and_costs_one(method, norm, eps):
    seeing, result = seen(method, norm, eps)
    ball = L2(eps) if norm == "l2" else Linf(eps)
    for i, outcome in enumerate(result.outcomes):
        assert outcome.queries == len(seeing.asked[i])
        assert all(query.candidate and len(query.points) == 1 for query, _ in seeing.asked[i])
        assert contains(ball, seeing.points(i), PICTURES[i]).all()


@pytest.mark.parametrize("method", ["simba", "simba-ods", "gfcs"])
def test_every_step_starts_from_the_best_iterate_so_far(method):
    seeing, _ = seen(method, accept="never", step=0.05, budget=80)
    for i in range(6):
        (first, answer), *rest = seeing.asked[i]
        best, f = first.points[0], float(answer.loss[0])
        for query, answer in rest:
            assert float((query.points[0] - best).norm()) <= 0.05 + 1e-9
            if float(answer.loss[0]) > f:
                best, f = query.points[0], float(answer.loss[0])


@pytest.mark.parametrize("method", [*METHODS, "ods-rgf", "prgf-span", "bases", "pbo"])
def test_images_need_not_lie_in_one_piece(method):
    run = {"method": method, "surrogate": NEAR, "eps": 0.35, "budget": 40}
    target = Gap(TARGET)
    plain = dowse.attack(target, PICTURES, LABELS, **run)
    strange = PICTURES.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1)
    assert not strange[0].is_contiguous()
    again = dowse.attack(target, strange, LABELS, **run)
    assert target.least > 1e-6  # so that lengths, summed in another order, decide nothing
    assert torch.equal(plain.queries, again.queries)
    assert torch.allclose(plain.adversarial, again.adversarial, atol=1e-12)


# Square -------------------------------------------------------------------------------------------------------------


def test_square_halves_p_as_the_paper_says():
    x = torch.zeros(3, 224, 224)
    sides = [
        Square().side(i, x, Linf(0.05)) for i in (0, 10, 11, 50, 51, 201, 501, 1001, 2001, 4001, 6001, 8001, 99999)
    ]
    shares = [0.05 / 2**k for k in (0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9)]
    assert sides == [max(1, round(math.sqrt(p) * 224)) for p in shares]
    assert Square(horizon=1000).side(2, x, Linf(0.05)) == Square().side(20, x, Linf(0.05))
    assert all(Square().side(i, x, L2(5.0)) % 2 == 1 for i in (0, 20, 300, 9000))
    assert Square().side(9000, x, L2(5.0)) == 3


def test_square_begins_with_stripes_and_then_paints_one_window():
    seeing, _ = seen("square", "linf", 0.05, n=1, accept="never", budget=30)
    δ = seeing.points() - PICTURES[0]
    assert torch.allclose(δ[0].abs(), torch.tensor(0.05, dtype=torch.float64), atol=1e-9)
    assert torch.allclose(δ[0], δ[0][:, :1].expand(SHAPE), atol=1e-9)  # vertical stripes
    assert torch.allclose(δ.abs(), torch.tensor(0.05, dtype=torch.float64), atol=1e-9)  # always in a corner


def test_square_in_l2_uses_the_whole_radius():
    seeing, _ = seen("square", "l2", 0.2, n=1, accept="never", budget=30)
    lengths = torch.linalg.vector_norm((seeing.points() - PICTURES[0]).flatten(1), dim=1)
    assert torch.allclose(lengths, torch.tensor(0.2, dtype=torch.float64), rtol=1e-6)


@pytest.mark.parametrize("side", [1, 2, 3, 5, 8, 31])
def test_a_bump_is_two_pyramids_of_length_one(side):
    η = bump(side, PICTURES, generator(0))
    assert float(η.norm()) == pytest.approx(1)
    if side % 2 == 0:
        assert float(η.sum()) == pytest.approx(0, abs=1e-12)
    assert {tuple(bump(side, PICTURES, generator(seed)).flatten().tolist()) for seed in range(8)} <= {
        tuple(η.flatten().tolist()), tuple(η.T.flatten().tolist())
    }  # fmt: skip


def test_a_pyramid_is_the_sum_of_its_rings():
    """Σ_{k} 1/(k+1)² over the squares around the centre that hold a pixel, drawn one after another."""
    drawn = torch.zeros(5, 9, dtype=torch.float64)
    for k in range(5):
        drawn[max(0, 2 - k) : 3 + k, max(0, 4 - k) : 5 + k] += 1 / (k + 1) ** 2
    assert torch.allclose(_pyramid(5, 9), drawn / drawn.norm())


def test_square_needs_images():
    with pytest.raises(dowse.InputError, match="images"):
        Square().check(torch.zeros(5))


# SignHunter ---------------------------------------------------------------------------------------------------------


def test_signhunter_flips_the_whole_then_halves_down_to_single_signs():
    assert [(p.start, p.stop) for p in _parts(4)][:7] == [(0, 4), (0, 2), (2, 4), (0, 1), (1, 2), (2, 3), (3, 4)]
    for coordinates in (1, 2, 5, 48):
        covered = torch.zeros(coordinates)
        for part in list(_parts(coordinates))[-coordinates:]:
            covered[part] += 1
        assert (covered == 1).all()


@NORMS
def test_signhunter_walks_corners(norm, eps):
    seeing, _ = seen("signhunter", norm, eps, n=1, accept="never", budget=40)
    sides = (seeing.points() - PICTURES[0]).abs()
    assert torch.allclose(sides, torch.tensor(eps if norm == "linf" else eps / D**0.5, dtype=torch.float64), rtol=1e-6)


def test_signhunter_finds_the_signs_of_a_linear_model_in_twice_as_many_queries():
    target, x, distance = linear("linf")
    result = dowse.attack(target, x[None], [0], method=SignHunter(), norm="linf", eps=1.01 * distance, budget=2 * D + 4)
    assert result.success.all()


# SimBA --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", ["dct", "pixel"])
@pytest.mark.parametrize("shape", [SHAPE, (1, 5, 7), (3, 32, 32)])
def test_simbas_directions_are_an_orthonormal_basis(basis, shape):
    x = torch.zeros(shape, dtype=torch.float64)
    every = torch.stack(list(SimBA(basis=basis).directions(x, generator(0)))).flatten(1)
    assert torch.allclose(every @ every.T, torch.eye(x.numel(), dtype=torch.float64), atol=1e-9)


def test_simba_takes_low_frequencies_first():
    x = torch.zeros(1, 32, 32, dtype=torch.float64)
    directions = list(SimBA(frequencies=1 / 8).directions(x, generator(0)))
    rough = torch.stack([(d[0].diff(dim=0) ** 2).sum() + (d[0].diff(dim=1) ** 2).sum() for d in directions])
    assert rough[:16].max() < rough[16:].min() + 0.1
    assert rough[:16].mean() < rough[-16:].mean() / 10


# GFCS, SimBA-ODS, ODS-RGF -------------------------------------------------------------------------------------------


def test_gfcs_steps_along_the_surrogates_margin_to_the_targets_runner_up():
    seeing, _ = seen("gfcs", n=1, accept="never", budget=2, surrogate=NEAR, step=0.05)
    scores = TARGET(PICTURES[:1])[0].detach()
    best = scores.topk(2).indices
    x = PICTURES[:1].clone().requires_grad_()
    z = NEAR(x)[0]
    (g,) = torch.autograd.grad(z[best[1]] - z[best[0]], x)
    expected = PICTURES[0] + 0.05 * g[0] / g.norm()
    assert torch.allclose(seeing.points()[0], expected, atol=1e-9)


def test_gfcs_targeted_pulls_the_cross_entropy_of_the_class_wanted():
    wanted = (LABELS[:1] + 1) % 4
    seeing, _ = seen("gfcs", n=1, accept="never", budget=2, surrogate=NEAR, step=0.05, target_labels=wanted)
    x = PICTURES[:1].clone().requires_grad_()
    (g,) = torch.autograd.grad(-torch.nn.functional.cross_entropy(NEAR(x), wanted), x)
    assert torch.allclose(seeing.points()[0], PICTURES[0] + 0.05 * g[0] / g.norm(), atol=1e-9)


def test_gfcs_gives_every_surrogate_its_turn_before_it_turns_to_ods():
    """A target that never gets worse for the attacker refuses every step: S pairs along margins, then random ones."""
    asked = []

    class Recording(torch.nn.Module):
        def __init__(self, net, name):
            super().__init__()
            self.net, self.name = net, name
            self.eval()

        def forward(self, x):
            if len(x):  # no rows tell how many classes it has
                asked.append(self.name)
            return self.net(x)

    flat = Linear(torch.zeros(4, D, dtype=torch.float64), torch.tensor([3.0, 2, 1, 0], dtype=torch.float64))
    surrogates = [Recording(net, name) for net, name in ((NEAR, "near"), (FAR, "far"), (TARGET, "third"))]
    dowse.attack(flat, PICTURES[:1], [0], method=GFCS(), surrogate=surrogates, eps=0.3, budget=11)
    assert asked[:3] == ["near", "far", "third"]  # looked at before the first query
    assert set(asked[3:9:2]) == set(asked[4:9:2]) == {"near", "far", "third"}  # to find its last layer, to be pulled
    assert (
        len(asked) == 3 + 6 + 3
    )  # two ODS directions at two queries each, and a third that could not be paid any more


def test_gfcs_passes_over_a_surrogate_without_a_gradient():
    """A step along nothing would be two queries about where the attack stands, after every step again."""
    constant = Linear(torch.zeros(4, D, dtype=torch.float64), torch.arange(4, dtype=torch.float64))
    seeing, result = seen("gfcs", n=1, accept="never", surrogate=constant)
    points = torch.cat([PICTURES[:1], seeing.points()]).flatten(1)
    assert len(points) == result.queries[0]
    assert len(torch.unique(points, dim=0)) == len(points)


@pytest.mark.parametrize("method", [GFCS(), SimBAODS(), ODSRGF()])
def test_a_surrogate_without_a_gradient_gives_way_to_random_directions(method):
    flat = Linear(torch.zeros(4, D, dtype=torch.float64), torch.zeros(4, dtype=torch.float64))
    result = dowse.attack(TARGET, PICTURES, LABELS, method=method, surrogate=flat, eps=0.6, budget=600)
    assert (result.queries <= 600).all()
    assert result.success.any()


def test_ods_rgf_asks_along_gradients_of_random_outputs():
    """On a linear surrogate every direction lies in the span of its rows."""
    W = torch.randn(4, D, generator=generator(5), dtype=torch.float64)
    surrogate = Linear(W, torch.zeros(4, dtype=torch.float64))
    seeing, _ = seen("ods-rgf", n=1, accept="never", budget=12, surrogate=surrogate)
    probes = (seeing.points()[:10] - PICTURES[0]).flatten(1)
    basis = torch.linalg.qr(W.T).Q
    assert torch.allclose(probes @ basis @ basis.T, probes, atol=1e-12)
    assert torch.linalg.matrix_rank(probes, rtol=1e-9) == 4
    assert torch.allclose(probes.norm(dim=1), torch.tensor(1e-4 * D**0.5, dtype=torch.float64))
