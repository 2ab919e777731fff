"""The Bayesian last layer against the regression it stands for, and the attack that climbs on it."""

from dataclasses import replace

import pytest
import torch

import dowse
from dowse.maths.last_layer import Example, Examples, fit
from tests.support import Tanh, pictures

D, F, K = 7, 5, 4


def row(rng: torch.Generator) -> Example:
    sizes = (D, F, K, K)
    return Example(*(torch.randn(size, generator=rng, dtype=torch.float64) for size in sizes))


def remembered(n: int, pinned: int, most: int = 100) -> Examples:
    rng = torch.Generator().manual_seed(n)
    rows = Examples.of(row(rng))
    for i in range(1, n):
        rows = rows.add(row(rng), pin=i == pinned, most=most)
    return rows


@pytest.mark.parametrize("pinned", [0, 2, 5])
def test_the_posterior_is_bayesian_linear_regression_on_features_and_pixels(pinned):
    rows, ridge, pixels = remembered(6, pinned), 0.1, 0.3
    model = fit(rows, torch.arange(K), ridge=ridge, pixels=pixels)
    at = rows.rows[pinned]
    others = [one for i, one in enumerate(rows.rows) if i != pinned]
    Δφ, Δx = (torch.stack([getattr(one, name) - getattr(at, name) for one in others]) for name in ("features", "x"))
    wφ, wx = 1 / Δφ.square().sum(1).mean(), pixels / Δx.square().sum(1).mean()
    Ψ = torch.cat([wφ.sqrt() * Δφ, wx.sqrt() * Δx], 1)
    noise = ridge * Ψ.square().sum(1)
    residual = torch.stack([one.scores - at.scores - model.scale * (one.prior - at.prior) for one in others])
    precision = torch.eye(F + D, dtype=torch.float64) + Ψ.T @ (Ψ / noise[:, None])
    B = torch.linalg.solve(precision, Ψ.T @ (residual / noise[:, None]))  # the posterior mean of ridge regression
    new = row(torch.Generator().manual_seed(99))
    ψ = torch.cat([wφ.sqrt() * (new.features - at.features), wx.sqrt() * (new.x - at.x)])
    expected = at.scores + model.scale * (new.prior - at.prior) + ψ @ B
    assert torch.allclose(model.scores(new.x, new.features, new.prior), expected, atol=1e-8)


def test_the_slope_is_the_gradient_of_the_scores():
    model = fit(remembered(6, 3), torch.arange(K), ridge=0.1, pixels=0.3)
    new, u = row(torch.Generator().manual_seed(7)), torch.tensor([1.0, -1.0, 0.5, 0.0], dtype=torch.float64)
    x, φ = new.x.clone().requires_grad_(), new.features.clone().requires_grad_()
    (u @ model.scores(x, φ, new.prior)).backward()
    by_feature, by_pixel = model.slope(u)
    assert torch.allclose(by_pixel, x.grad)
    assert torch.allclose(by_feature, φ.grad)


@pytest.mark.parametrize("pinned", [0, 3])
def test_rows_that_no_surrogate_sees_are_those_of_a_search_without_any(pinned):
    rows = remembered(5, pinned)
    unseen = rows.unseen()
    X = torch.stack([one.x for one in rows.rows])
    assert unseen.pinned == pinned
    assert torch.allclose(unseen.pixels, X @ X.T)
    assert not unseen.features.any()
    assert all(len(one.features) == 0 and not one.prior.any() for one in unseen.rows)


def test_surrogates_that_say_what_the_target_says_are_believed():
    rng = torch.Generator().manual_seed(1)
    rows = Examples.of(row(rng))
    for _ in range(8):
        new = row(rng)
        rows = rows.add(new._replace(scores=rows.rows[0].scores + new.prior - rows.rows[0].prior), pin=False, most=99)
    assert fit(rows, torch.arange(K), ridge=0.05, pixels=0.3).scale == pytest.approx(1.0)


def test_surrogates_that_say_the_opposite_are_not():
    rng = torch.Generator().manual_seed(1)
    rows = Examples.of(row(rng))
    for _ in range(8):
        new = row(rng)
        rows = rows.add(new._replace(scores=rows.rows[0].scores - new.prior + rows.rows[0].prior), pin=False, most=99)
    assert fit(rows, torch.arange(K), ridge=0.05, pixels=0.3).scale == 0.0


@pytest.mark.parametrize("pinned", [0, 4])
def test_memory_is_bounded_and_keeps_the_pinned_row(pinned):
    whole, rows = remembered(12, pinned), remembered(12, pinned, most=6)
    assert len(rows.rows) == 6
    assert rows.rows[rows.pinned].x.equal(whole.rows[pinned].x)
    X = torch.stack([one.x for one in rows.rows])
    assert torch.allclose(rows.pixels, X @ X.T)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("surrogates", [0, 1, 3])
@pytest.mark.parametrize("outputs", ["logits", "probs"])
def test_dowse_attacks_with_any_number_of_surrogates(norm, surrogates, outputs):
    target = Tanh(seed=5)
    seen = (lambda x: target(x).softmax(1)) if outputs == "probs" else target
    near = [Tanh(seed=7 + i, near=target, apart=1.0) for i in range(surrogates)]
    result = dowse.attack(
        seen, pictures(4, seed=6), method="dowse", surrogate=near or None, norm=norm, outputs=outputs,
        eps=1.0 if norm == "l2" else 0.2, budget=200,
    )  # fmt: skip
    assert result.summary().asr == 1.0
    if surrogates:
        assert result.summary().median_queries <= 4


@pytest.mark.parametrize(("surrogates", "learnt_from"), [(0, 56 * 56), (1, 80 * 90)])
def test_without_a_surrogate_it_learns_from_a_smaller_image(surrogates, learnt_from, monkeypatch):
    shape, fitted = (1, 80, 90), []

    def watched(rows: Examples, *rest, **words):
        fitted.append(rows)
        return fit(rows, *rest, **words)

    monkeypatch.setattr("dowse.attacks.dowse.fit", watched)
    target = Tanh(seed=5, shape=shape)
    near = [Tanh(seed=7, near=target, shape=shape)] * surrogates
    x = torch.rand(1, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    dowse.attack(target, x, method="dowse", surrogate=near or None, eps=1e-3, budget=40)
    assert {one.x.numel() for rows in fitted for one in rows.rows} == {learnt_from}


@pytest.mark.filterwarnings("ignore::dowse.errors.TargetNote")
@pytest.mark.parametrize("classes", [3, 6])
@pytest.mark.parametrize("wrap", [lambda net: net, lambda net: [net, Tanh(7)]], ids=["one", "two"])
def test_a_target_that_tells_its_classes_with_an_answer_only_goes_with_surrogates_of_others(classes, wrap):
    target = Tanh(seed=5)

    def listed(x):
        return target(x).tolist()

    x, surrogate = pictures(1, seed=6), wrap(Tanh(9, classes=classes))
    with pytest.warns(UserWarning, match=f"the surrogate has {classes} classes, the target 4"):
        result = dowse.attack(listed, x, [int(target(x).argmax())], surrogate=surrogate, eps=1e-3, budget=20)
    assert result.queries.tolist() == [20]


@pytest.mark.parametrize("surrogates", [0, 1])
@pytest.mark.parametrize(("norm", "eps"), [("l2", 1e-3), ("linf", 1e-4)])
def test_a_grey_image_is_not_asked_about_twice(surrogates, norm, eps):
    shape, asked = (1, 28, 28), []

    class Points(dowse.Observer):
        def answered(self, task, query, reply):
            asked.append(query.points.clone())

    target = Tanh(seed=5, shape=shape)
    settings = {"surrogate": [Tanh(seed=7, near=target, shape=shape)] * surrogates or None, "norm": norm, "eps": eps}
    dowse.attack(target, pictures(1, shape=shape), budget=25, observers=[Points()], **settings)
    assert len(torch.cat(asked).flatten(1).unique(dim=0)) == len(asked) == 25


def test_flat_scores_do_not_stop_it():
    def flat(x):
        return torch.tensor([[0.7, 0.1, 0.1, 0.1]]).repeat(len(x), 1)

    near = Tanh(seed=7)
    result = dowse.attack(flat, pictures(1, seed=6), [0], method="dowse", surrogate=near, outputs="probs", budget=30)
    assert result.queries.tolist() == [30]


def test_inner_products_that_rounding_made_indefinite_still_give_a_posterior() -> None:
    zero = torch.zeros(2).double()
    rows = Examples.of(Example(torch.zeros(2), torch.zeros(0).double(), zero, zero))
    for scores in (zero + 1, zero + 2):
        rows = rows.add(Example(torch.tensor([1.0, 0.0]), torch.zeros(0).double(), zero, scores), pin=False, most=9)
    off = torch.tensor([[0, 0, 0], [0, 1, 1.2], [0, 1.2, 1]]).double()  # no inner products: eigenvalue −0.2
    model = fit(replace(rows, pixels=off), torch.tensor([0, 1]), ridge=0.05, pixels=1.0)
    assert model.coefficients.isfinite().all()
    assert model.scores(torch.tensor([1.0, 0.0]), zero[:0], zero).min() > 0
