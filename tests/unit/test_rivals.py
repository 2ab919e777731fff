"""The rivals piece by piece, against formulas written out anew and answers that are known."""

import math

import pytest
import torch
from torch.nn.functional import interpolate

import dowse
from dowse.attacks import PGD, SPSA, ZOO, AutoZOOM
from dowse.attacks.adam import Adam, free_part, published_rate
from dowse.attacks.autozoom import Goal, Weight
from dowse.attacks.registry import METHODS, resolve_method
from dowse.core.flow import Answer, Query
from dowse.errors import InputError
from dowse.estimators import NES, RGF, Bandits
from dowse.maths.geometry import L2, Linf, default_step
from dowse.settings import AttackSettings
from tests.support import (
    SHAPE,
    D,
    Linear,
    NotFinite,
    Quantised,
    Tanh,
    attack_anyway,
    canned,
    converse,
    generator,
    labels_of,
    pictures,
)

X = pictures(1, seed=4)[0]
G = torch.randn(SHAPE, generator=generator(2), dtype=torch.float64)
RIVALS = ("nes", "spsa", "bandits", "zoo", "autozoom")


def linear(points):
    return (points * G).flatten(1).sum(1)


def iterates(attack, x=X, ball=None, n=3, loss=linear):
    """The first n iterates of an attack on a loss."""
    seen = []

    def answer(query: Query) -> Answer:
        if query.candidate:
            seen.append(query.points[0].clone())
        return canned(loss)(query)

    converse(attack.flow(x, float(loss(x[None])), ball or L2(0.3), generator(0)), answer, candidates=n + 1)
    return seen[:n]


def talk(flow, loss=linear):
    """Answer a flow until it returns; what it returned, and the rows it asked about."""
    question, rows = next(flow), []
    try:
        while True:
            rows.append(question.points.clone())
            question = flow.send(canned(loss)(question))
    except StopIteration as stop:
        return stop.value, torch.cat(rows)


# Options


@pytest.mark.parametrize(
    ("method", "options", "word"),
    [
        ("nes", {"q": 51}, "even"),
        ("spsa", {"q": 1}, "take 2"),
        ("nes", {"q": 0}, "q"),
        ("nes", {"sigma": 0.0}, "sigma"),
        ("nes", {"momentum": 1.0}, "momentum"),
        ("bandits", {"check_every": 0}, "check_every"),
        ("spsa", {"sigma": -1.0}, "sigma"),
        ("bandits", {"exploration": 0.0}, "exploration"),
        ("bandits", {"online_rate": math.inf}, "online_rate"),
        ("bandits", {"subspace": 5}, "subspace"),
        ("zoo", {"coordinates": 0}, "coordinates"),
        ("zoo", {"coordinates": 2.5}, "coordinates"),
        ("autozoom", {"period": 0}, "period"),
        ("autozoom", {"weight": -1.0}, "weight"),
        ("autozoom", {"sigma": 0.0}, "sigma"),
        ("autozoom", {"subspace": (4, 9)}, "subspace"),
        ("zoo", {"coordinate": 3}, "did you mean 'coordinates'"),
        ("bandits", {"nrom": "l2"}, "did you mean 'norm'"),
        (
            "bandits",
            {"kernel": 3},
            "known are check_every, clip_probes, exploration, online_rate, probe_length, subspace",
        ),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_before_any_query(method, options, word):
    def target(x):
        assert not len(x), "asked"
        return torch.zeros(0, 3)

    with pytest.raises(ValueError, match=word):
        dowse.attack(target, X[None].float(), [0], method=method, **options)


def test_the_norm_is_the_runs_and_not_an_option():
    assert "norm" not in METHODS["bandits"].options()
    for norm in ("l2", "linf"):
        attack = resolve_method(AttackSettings(method="bandits", norm=norm, options={"subspace": 2}))
        assert attack.estimator == Bandits(norm=norm, subspace=2)
    with pytest.raises(InputError, match="norm"):
        Bandits(norm="l1")
    with pytest.raises(InputError, match=r"write Bandits\(norm='linf'\)"):
        resolve_method(AttackSettings(method=PGD(Bandits()), norm="linf"))


def test_autozoom_runs_on_the_margin_unless_told_otherwise():
    target, x = Tanh(0), pictures(1)
    y = labels_of(target, x)
    scores = target(x)[0].detach()
    margin = float(scores.topk(2).values.diff())
    entropy = -float(scores.log_softmax(0)[y[0]])
    for method, loss, expected in [("autozoom", None, margin), ("autozoom", "ce", entropy), ("nes", None, entropy)]:
        assert float(dowse.attack(target, x, y, method=method, loss=loss, budget=1).outcomes[0].loss) == (
            pytest.approx(expected)
        )


# NES and SPSA


def test_probes_are_antithetic_and_the_estimate_is_the_central_difference():
    for estimate, sigma in (
        (NES(q=6).estimate(None, X, 0.0, generator(0)), 1e-3),
        (SPSA(q=6).gradient(X, generator(0)), 0.01),
    ):
        value, rows = talk(estimate)
        ĝ = value[0] if isinstance(value, tuple) else value
        u = (rows[:3] - X) / sigma
        assert torch.allclose(rows[:3] + rows[3:], 2 * X.expand(3, *SHAPE))
        assert torch.allclose(ĝ, torch.einsum("n,nchw->chw", linear(u), u) / 3)
    assert torch.allclose((rows[:3] - X).abs(), torch.full_like(X, 0.01))


def test_clipped_probes_are_credited_with_what_was_sent():
    x = X.clone()
    x[0], x[1] = 0.0, 1.0
    (ĝ, _), rows = talk(NES(q=40, sigma=0.05).estimate(None, x, 0.0, generator(0)))
    sent = (rows[:20] - rows[20:]) / 0.1
    assert torch.allclose(ĝ, torch.einsum("n,nchw->chw", linear(sent), sent) / 20)
    assert (rows.min(), rows.max()) == (0, 1)
    (unclipped, _), rows = talk(NES(q=40, sigma=0.05, clip_probes=False).estimate(None, x, 0.0, generator(0)))
    assert rows.min() < 0
    assert not torch.allclose(ĝ, unclipped)


def test_nes_takes_the_step_of_rgf():
    for ball in (L2(0.3), Linf(0.04)):
        lengths = [float(ball.distance(iterates(PGD(kind), ball=ball, n=1)[0][None], X)) for kind in (NES(), RGF())]
        assert lengths == pytest.approx([default_step(ball)] * 2)


def test_spsa_steps_as_its_docstring_says():
    assert float((iterates(SPSA(), ball=Linf(0.05), n=1)[0] - X).abs().max()) == pytest.approx(0.01)
    assert float((iterates(SPSA(step=0.02), ball=Linf(0.05), n=1)[0] - X).abs().max()) == pytest.approx(0.02)
    for step in (None, 0.1):
        ball = L2(0.5)
        length = float(torch.linalg.vector_norm(iterates(SPSA(step=step), ball=ball, n=1)[0] - X))
        assert length == pytest.approx(step or default_step(ball))


# ADAM


def test_adam_step_by_step():
    """Against the means written out as sums over all gradients so far."""
    gradients = [torch.randn(SHAPE, generator=generator(i), dtype=torch.float64) for i in range(6)]
    adam = Adam.fresh(X)
    for t in range(1, 7):
        step, adam = adam.step(gradients[t - 1])
        past = list(enumerate(reversed(gradients[:t])))
        first = sum(0.1 * 0.9**age * g for age, g in past) / (1 - 0.9**t)
        second = sum(0.001 * 0.999**age * g.square() for age, g in past) / (1 - 0.999**t)
        assert torch.allclose(step, first / (second.sqrt() + 1e-8), rtol=1e-12)


def test_adam_on_chosen_coordinates_leaves_the_others_alone():
    chosen, g = torch.tensor([3, 0]), torch.tensor([2.0, -5.0])
    step, adam = Adam.fresh(torch.zeros(5)).step(g, chosen)
    assert step.tolist() == pytest.approx([1.0, -1.0])
    assert adam.updates.tolist() == [1, 0, 0, 1, 0]
    again, adam = adam.step(torch.tensor([2.0]), torch.tensor([3]))
    assert adam.updates.tolist() == [1, 0, 0, 2, 0]
    assert again.tolist() == pytest.approx([1.0])


def test_on_the_surface_of_an_l2_ball_only_the_part_along_it_is_free():
    ball, δ = L2(0.5), G / torch.linalg.vector_norm(G)
    g = torch.randn(SHAPE, generator=generator(9), dtype=torch.float64)
    g = g if float((g * δ).sum()) > 0 else -g
    surface, inside = X + 0.5 * δ, X + 0.4 * δ
    part = free_part(g, surface, X, ball)
    assert float((part * δ).sum()) == pytest.approx(0, abs=1e-12)
    assert torch.allclose(g - part, (g * δ).sum() * δ)
    for same in (free_part(g, inside, X, ball), free_part(g, surface, X, Linf(0.01))):
        assert torch.equal(same, g)
    assert torch.equal(free_part(-g, surface, X, ball), -g)
    chosen = torch.tensor([1, 4, 30])
    part = free_part(g.flatten()[chosen], surface, X, ball, chosen)
    assert float(part @ δ.flatten()[chosen]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("side", "rate"), [(28, 0.01), (32, 0.01), (224, 0.002), (299, 0.002)])
def test_published_rates_by_size(side, rate):
    assert published_rate(torch.zeros(3, side, side)) == rate


# ZOO


def test_zoo_moves_only_the_coordinates_it_asked_about():
    (first,) = iterates(ZOO(coordinates=5), n=1)
    moved = (first - X).flatten()
    assert (moved != 0).sum() == 5
    assert torch.allclose(moved[moved != 0], 0.01 * G.flatten()[moved != 0].sign(), atol=1e-6)


def test_zoo_is_one_sided_at_the_ends_of_the_range():
    x = X.clone().flatten()
    x[0], x[1] = 0.0, 1.0
    slopes, rows = talk(ZOO().slopes(x.view(SHAPE), torch.arange(3)))
    assert torch.allclose(slopes, G.flatten()[:3])
    assert torch.allclose((rows[:3] - rows[3:]).flatten(1).sum(1), torch.tensor([1e-4, 1e-4, 2e-4]).double())


# A cadence of looking


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    ("attack", "estimate"),
    [(lambda k: PGD(NES(q=6, check_every=k)), 6), (lambda k: PGD(Bandits(check_every=k)), 2),
     (lambda k: SPSA(q=6, check_every=k), 6), (lambda k: ZOO(coordinates=4, check_every=k), 8)],
    ids=["nes", "bandits", "spsa", "zoo"],
)  # fmt: skip
def test_success_is_looked_for_and_paid_for_at_every_kth_step(attack, estimate, k):
    spent, _ = converse(attack(k).flow(X, 0.0, L2(0.3), generator(0)), canned(linear), candidates=4)
    assert spent == [k * estimate + 1] * 4
    rare, often = iterates(attack(k), n=2), iterates(attack(1), n=2 * k)
    assert torch.equal(torch.stack(rare), torch.stack(often[k - 1 :: k]))  # the same steps, fewer of them seen


def test_an_estimator_of_ones_own_has_a_cadence_if_it_says_so():
    class Own:
        check_every = 3

        def init(self, x):
            return None

        def estimate(self, state, x, f, rng):
            yield Query(x[None])
            return G, None

    spent, _ = converse(PGD(Own()).flow(X, 0.0, L2(0.3), generator(0)), canned(linear), candidates=2)
    assert spent == [4, 4]


def test_rgf_has_no_cadence_because_it_starts_from_every_check():
    with pytest.raises(InputError, match="rgf has no option 'check_every'"):
        resolve_method(AttackSettings(method="rgf", options={"check_every": 2}))


def test_momentum_mixes_the_last_estimate_in():
    (first, state), _ = talk(NES(q=6, momentum=0.9).estimate(NES(q=6, momentum=0.9).init(X), X, 0.0, generator(0)))
    (plain, none), _ = talk(NES(q=6).estimate(None, X, 0.0, generator(0)))
    assert torch.allclose(first, 0.1 * plain)
    assert none is None
    (second, _), _ = talk(NES(q=6, momentum=0.9).estimate(state, X, 0.0, generator(1)))
    (fresh, _), _ = talk(NES(q=6).estimate(None, X, 0.0, generator(1)))
    assert torch.allclose(second, 0.9 * first + 0.1 * fresh)


# Bandits


@pytest.mark.parametrize(
    ("norm", "rates"),
    [("l2", {"exploration": 0.01, "probe_length": 0.01, "online_rate": 0.1, "step": 0.5, "eps": 5.0}),
     ("linf", {"exploration": 1.0, "probe_length": 0.1, "online_rate": 100.0, "step": 0.01, "eps": 0.05})],
)  # fmt: skip
def test_bandits_have_the_papers_values_for_each_norm(norm, rates):
    assert Bandits(norm=norm).rates._asdict() == rates
    assert Bandits(norm=norm, online_rate=7.0).rates._asdict() == {**rates, "online_rate": 7.0}


@pytest.mark.parametrize(
    ("ball", "step"), [(L2(5.0), 0.5), (L2(6.0), 0.6), (L2(1.0), 0.1), (Linf(0.05), 0.01), (Linf(0.06), 0.012)]
)
def test_bandits_take_their_own_step_in_the_image(ball, step):
    (first,) = iterates(PGD(Bandits(norm=ball.norm)), ball=ball, n=1)
    assert float(ball.distance(first[None], X)) == pytest.approx(step)
    (first,) = iterates(PGD(Bandits(norm=ball.norm), step=0.003), ball=ball, n=1)
    assert float(ball.distance(first[None], X)) == pytest.approx(0.003)


def exponentiated(v, g, rate):
    """The step of exponentiated gradient as its paper writes it, on (v + 1)/2 in [0, 1]."""
    p = (v + 1) / 2
    up, down = p * torch.exp(rate * g), (1 - p) * torch.exp(-rate * g)
    return 2 * up / (up + down) - 1


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("subspace", [None, 2])
def test_bandits_update_the_prior_as_the_paper_does(norm, subspace):
    estimator = Bandits(norm=norm, subspace=subspace, online_rate=0.1 if norm == "l2" else 2.0)
    rng, twin = generator(5), generator(5)
    δ, η, rate, *_ = estimator.rates
    state = estimator.init(X)
    shape = SHAPE if subspace is None else (3, 2, 2)
    v = torch.zeros(shape, dtype=torch.float64)

    def up(small):
        return small if subspace is None else interpolate(small[None], size=SHAPE[1:], mode="nearest")[0]

    for _ in range(4):
        (prior, state), rows = talk(estimator.estimate(state, X, 0.0, rng))
        noise = δ * torch.randn(shape, generator=twin, dtype=torch.float64) / math.sqrt(v.numel())
        probes = [X + η * up(v + s * noise) / torch.linalg.vector_norm(up(v + s * noise)) for s in (1, -1)]
        assert torch.allclose(rows, torch.stack(probes))
        Δ = float(linear(probes[0][None]) - linear(probes[1][None])) / (δ * η) * noise
        v = v + rate * Δ if norm == "l2" else exponentiated(v, Δ, rate)
        assert torch.allclose(prior, up(v), rtol=1e-9)


@pytest.mark.parametrize("sides", [(2, 2), (3, 2), (4, 4), (1, 3)])
def test_bandits_up_sample_by_nearest_neighbour_and_average_back(sides):
    state = Bandits(subspace=sides).init(X)
    small = torch.randn(2, 3, *sides, generator=generator(0), dtype=torch.float64)
    big = state.up(small)
    assert torch.allclose(big, interpolate(small, size=SHAPE[1:], mode="nearest"))
    assert torch.allclose(state.block_mean(big), small)
    image = torch.randn(1, *SHAPE, generator=generator(1), dtype=torch.float64)
    assert torch.allclose((state.block_mean(image) * small[:1]).sum(), (image * big[:1] / block_size(sides)).sum())


def block_size(sides):
    """How many pixels share the value of each pixel, (1, 1, 4, 4)."""
    rows, columns = (torch.arange(4) * side // 4 for side in sides)
    same = (rows[:, None] == rows).sum(1)[:, None] * (columns[:, None] == columns).sum(1)
    return same[None, None].double()


def test_bandits_credit_no_exploration_to_a_pixel_that_did_not_move():
    x = X.clone()
    x[0] = 1.0
    (_, state), rows = talk(Bandits().estimate(Bandits().init(x), x, 0.0, generator(0)))
    (_, free), _ = talk(Bandits(clip_probes=False).estimate(Bandits().init(x), x, 0.0, generator(0)))
    assert rows.max() <= 1
    ratio = (state.latent / state.latent.flatten()[-1]) / (free.latent / free.latent.flatten()[-1])
    assert torch.allclose(ratio[1:], torch.ones(2, 4, 4).double())
    assert torch.allclose(ratio[0], torch.full((4, 4), 0.5).double())  # one of the two probes moved it


# AutoZOOM


def test_the_weight_grows_until_something_succeeds_and_is_then_halved_between_its_bounds():
    weight = Weight(10.0)
    values = []
    for succeeded in (False, False, True, True, False, True):
        weight = weight.after(succeeded)
        values.append(weight.value)
    assert values == pytest.approx([100, 1000, 550, 325, 437.5, 381.25])
    assert Weight(5e7).after(False).value == 1e8
    assert Weight(3e8).after(False).value == 3e8


def test_the_goal_is_distortion_and_the_loss_as_far_as_it_falls_short():
    points = X + torch.tensor([0.0, 0.1, -0.2]).view(3, 1, 1, 1).double()
    loss = torch.tensor([-2.0, -0.5, 3.0], dtype=torch.float64)
    goal = Goal(X, L2(0.3), True)
    assert goal.value(points, loss, 10.0).tolist() == pytest.approx([20, 0.01 * D + 5, 0.04 * D - 30])
    told = goal.learn(Answer(loss, torch.tensor([False, False, True]), torch.zeros(3, 2)))
    told = told.learn(Answer(loss - 2.5, torch.tensor([False, False, True]), torch.zeros(3, 2)))
    assert told.enough == 0.5
    assert told.value(points, loss, 10.0).tolist() == pytest.approx([20, 0.01 * D + 5, 0.04 * D - 5])
    assert Goal(X, L2(0.3), False).value(points, loss, 10.0).tolist() == (-loss).tolist()
    box = Goal(X, Linf(0.1), True)
    assert box.distortion(points).tolist() == pytest.approx([0, 0.01 * D, 1.1**2 * D])


@pytest.mark.parametrize(
    ("shape", "given", "grid"),
    [((3, 224, 224), None, (3, 32, 32)), ((3, 32, 32), None, (3, 8, 8)), ((1, 28, 28), None, (1, 8, 8)),
     ((3, 4, 4), None, (3, 4, 4)), ((3, 64, 224), None, (3, 16, 32)), ((3, 32, 32), 5, (3, 5, 5))],
)  # fmt: skip
def test_the_grid_of_autozoom(shape, given, grid):
    assert AutoZOOM(subspace=given).grid(torch.zeros(shape)).shape == grid


class Iterates(dowse.Observer):
    """Where the iterates lay and whether they were adversarial, in the order of the queries."""

    def __init__(self):
        self.distances, self.adversarial = [], []

    def answered(self, task, query, reply):
        if query.candidate:
            self.distances.append(float(torch.linalg.vector_norm(query.points[0] - task.x)))
            self.adversarial.append(bool(reply.answer.adversarial[0]))


def test_autozoom_leaves_the_ball_and_ends_when_an_adversarial_iterate_is_back_inside():
    x, watch = pictures(1, seed=1), Iterates()
    W = torch.zeros(2, D, dtype=torch.float64)
    W[1] = G.flatten() / torch.linalg.vector_norm(G)
    target = Linear(W, torch.tensor([0.0, -float(W[1] @ x.flatten()) - 0.4], dtype=torch.float64))
    result = dowse.attack(target, x, [0], method="autozoom", eps=0.44, step=0.006, budget=4000, observers=[watch])
    first = watch.adversarial.index(True)
    assert result.success.all()
    assert watch.distances[first] > 0.44 >= watch.distances[-1]
    assert watch.adversarial[-1]
    iterations = len(watch.adversarial) - 1  # the first check is the driver's
    assert int(result.queries[0]) == 1 + 2 * first + 5 * (iterations - first)


# What every rival does with answers that say nothing


@pytest.mark.filterwarnings("ignore::dowse.errors.TargetWarning")  # the target is made so
@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("method", RIVALS)
def test_flat_scores_lead_nowhere_and_break_nothing(method, norm):
    target, x = Quantised(Tanh(0), 1e6), pictures(2)
    result = dowse.attack(target, x, [0, 0], method=method, norm=norm, budget=250)
    assert set(result.end) == {dowse.End.BUDGET}
    assert result.adversarial.isfinite().all()
    assert method == "autozoom" or torch.equal(result.adversarial, x)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("method", RIVALS)
def test_scores_that_are_not_finite_end_the_image(method, value):
    x = pictures(2)
    target = NotFinite(
        Tanh(0), lambda points: (points - x[0]).flatten(1).abs().sum(1).gt(0) & points[:, 0, 0, 0].gt(0), value
    )
    result = attack_anyway(target, x, labels_of(Tanh(0), x), method=method, budget=250)
    assert result.end[0] is dowse.End.NONFINITE
    assert result.end[1] is dowse.End.NONFINITE
    assert result.queries[1] == 1
    assert result.adversarial.isfinite().all()


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize(("method", "options"), [(name, {}) for name in RIVALS] + [("autozoom", {"shrink": False})])
def test_a_wanted_class_is_reached(method, options, norm):
    target, x = Tanh(0), pictures(3)
    y = labels_of(target, x)
    wanted = target(x).detach().topk(2).indices[:, 1]
    eps = 1.5 if norm == "l2" else 0.25
    result = dowse.attack(target, x, y, target_labels=wanted, method=method, norm=norm, eps=eps, budget=5000, **options)
    assert result.success.all()
    assert torch.equal(labels_of(target, result.adversarial), wanted)
