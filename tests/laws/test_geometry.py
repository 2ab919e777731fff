"""The laws of the balls: projections land inside and stay there, and a step is the steepest of its norm."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dowse.errors import InputError
from dowse.maths import geometry
from dowse.maths.geometry import L2, Linf, contains, copies_inside, default_step, make_ball
from tests.support import SHAPE, generator

BALLS = {"l2": L2, "linf": Linf}
norms = st.sampled_from(sorted(BALLS))
seeds = st.integers(0, 10**6)
dtypes = st.sampled_from([torch.float32, torch.float64])
radii = st.floats(1e-4, 5.0)


def exact_distance(norm, x, x0):
    return float(torch.linalg.vector_norm((x.double() - x0.double()).flatten(), 2 if norm == "l2" else torch.inf))


def image(seed, dtype, edge=0.3):
    """A random image, a share of its pixels at 0 or at 1."""
    rng = generator(seed)
    x = torch.rand(SHAPE, generator=rng, dtype=torch.float64)
    at = torch.rand(SHAPE, generator=rng)
    return torch.where(at < edge, x.round(), x).to(dtype), rng


@given(norms, radii, seeds, dtypes, st.floats(1e-3, 10.0))
def test_a_projection_lies_in_the_ball_and_in_the_cube(norm, eps, seed, dtype, reach):
    x0, rng = image(seed, dtype)
    ball = BALLS[norm](eps)
    projected = ball.project(x0 + reach * torch.randn(SHAPE, generator=rng, dtype=dtype), x0)
    assert projected.dtype == dtype
    assert exact_distance(norm, projected, x0) <= eps
    assert projected.min() >= 0
    assert projected.max() <= 1
    assert contains(ball, projected[None], x0).all()


@given(norms, radii, seeds, dtypes, st.floats(1e-3, 10.0))
def test_a_projection_projects_to_itself(norm, eps, seed, dtype, reach):
    x0, rng = image(seed, dtype)
    ball = BALLS[norm](eps)
    once = ball.project(x0 + reach * torch.randn(SHAPE, generator=rng, dtype=dtype), x0)
    assert torch.equal(ball.project(once, x0), once)


@pytest.mark.parametrize("at_once", [1, 2**18])
@given(norm=norms, eps=radii, seed=seeds, dtype=dtypes)
def test_many_points_are_inside_or_not_as_each_is_by_itself(norm, eps, seed, dtype, at_once):
    ball = BALLS[norm](eps)
    centres = [image(seed + i, dtype)[0] for i in range(6)]
    shift = torch.randn(SHAPE, generator=generator(seed), dtype=dtype)
    border = [ball.project(x0 + 9 * eps * shift, x0) for x0 in centres[:3]]
    points = [*border, centres[3] + eps * shift, centres[4] - 0.1, centres[5]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "AT_ONCE", at_once)
        copies = copies_inside(ball, points, centres)
    assert all(copy is None or torch.equal(copy, x) for copy, x in zip(copies, points, strict=True))
    assert [copy is not None for copy in copies] == [
        bool(contains(ball, x[None], x0)) for x, x0 in zip(points, centres, strict=True)
    ]
    assert copies_inside(ball, [], []) == []


@given(norms, radii, seeds, dtypes)
def test_what_lies_inside_stays_where_it_is(norm, eps, seed, dtype):
    x0, rng = image(seed, dtype, edge=0)
    shift = torch.randn(SHAPE, generator=rng, dtype=dtype)
    x = (x0 + 0.5 * eps * shift / torch.linalg.vector_norm(shift)).clamp(0, 1)
    assert torch.equal(BALLS[norm](eps).project(x, x0), x)


@given(st.floats(0.01, 0.19), seeds, st.floats(0.2, 5.0))
def test_l2_projection_is_the_nearest_point_where_the_cube_is_out_of_reach(eps, seed, reach):
    x0, rng = image(seed, torch.float64, edge=0)
    x0 = 0.2 + 0.6 * x0
    shift = torch.randn(SHAPE, generator=rng, dtype=torch.float64)
    x = x0 + reach * shift / torch.linalg.vector_norm(shift)
    projected = L2(eps).project(x, x0)
    assert exact_distance("l2", x, projected) == pytest.approx(reach - eps, rel=1e-9)
    assert exact_distance("l2", projected, x0) == pytest.approx(eps, rel=1e-9)


@given(st.floats(1e-3, 1.0), seeds, dtypes)
def test_linf_projection_is_the_nearest_point_pixel_by_pixel(eps, seed, dtype):
    x0, rng = image(seed, dtype)
    x = x0 + torch.randn(SHAPE, generator=rng, dtype=dtype)
    nearest = x.clamp((x0 - eps).clamp(min=0), (x0 + eps).clamp(max=1))
    projected = Linf(eps).project(x, x0)
    assert float((projected - nearest).abs().max()) <= 20 * torch.finfo(dtype).eps


@given(st.floats(1e-6, 2.0), seeds, dtypes)
def test_a_corner_is_where_a_step_of_eps_along_signs_is_projected_to(eps, seed, dtype):
    x0, rng = image(seed, dtype)
    signs = torch.randint(2, (SHAPE[0], 1, 1), generator=rng, dtype=dtype) * 2 - 1
    assert torch.equal(geometry.corner(eps, x0, signs), Linf(eps).project(signs * eps + x0, x0))


@given(norms, seeds, dtypes)
def test_no_direction_of_unit_norm_gains_more_than_the_steepest(norm, seed, dtype):
    rng = generator(seed)
    g = torch.randn(SHAPE, generator=rng, dtype=dtype)
    best = BALLS[norm](1.0).steepest(g)
    order = 2 if norm == "l2" else torch.inf
    assert float(torch.linalg.vector_norm(best, order)) == pytest.approx(1, rel=1e-5)
    dual = float(torch.linalg.vector_norm(g, 2 if norm == "l2" else 1))
    assert float((best * g).sum()) == pytest.approx(dual, rel=1e-5)
    others = torch.randn(50, *SHAPE, generator=rng, dtype=dtype)
    others /= torch.linalg.vector_norm(others.flatten(1), order, dim=1).view(-1, 1, 1, 1)
    assert float((others * g).flatten(1).sum(1).max()) <= dual * (1 + 1e-5)


@pytest.mark.parametrize("norm", sorted(BALLS))
def test_no_gradient_no_step(norm):
    zero = torch.zeros(SHAPE)
    assert torch.equal(BALLS[norm](1.0).steepest(zero), zero)


@given(norms, seeds, st.floats(0.5, 2.0))
def test_contains_agrees_with_the_exact_distance(norm, seed, eps):
    x0, rng = image(seed, torch.float32, edge=0)
    points = x0 + torch.randn(20, *SHAPE, generator=rng) * 0.1
    inside = contains(BALLS[norm](eps), points, x0)
    for point, verdict in zip(points, inside.tolist(), strict=True):
        assert verdict == (
            exact_distance(norm, point, x0) <= eps and float(point.min()) >= 0 and float(point.max()) <= 1
        )


def large_pairs():
    """Images of 3×224×224 in float32 and displacements whose rounding errors add up instead of cancelling."""
    shape, rng = (3, 224, 224), generator(0)
    noise = torch.rand(shape, generator=rng)
    for name, x0 in {"noise": noise, "grey": torch.full(shape, 0.7), "black": torch.zeros(shape)}.items():
        for way, δ in {
            "random": torch.randn(shape, generator=rng), "flat": torch.ones(shape), "up": noise + 0.5,
        }.items():  # fmt: skip
            yield pytest.param(x0, δ, id=f"{name}-{way}")


@pytest.mark.parametrize(("x0", "δ"), list(large_pairs()))
@pytest.mark.parametrize("eps", [0.001, 0.05, 1.0, math.sqrt(0.001 * 150528)])
@pytest.mark.parametrize("norm", sorted(BALLS))
def test_never_outside_in_float32_at_full_size(norm, eps, x0, δ):
    ball = BALLS[norm](eps)
    x = x0
    for _ in range(3):
        x = ball.project(x + eps * ball.steepest(δ), x0)
        assert exact_distance(norm, x, x0) <= eps
        assert contains(ball, x[None], x0).all()
        assert torch.equal(ball.project(x, x0), x)
    if norm == "l2" and (eps, float(x0.max())) == (1.0, pytest.approx(0.7)):
        assert exact_distance(norm, x, x0) > 0.9999 * eps


@given(st.sampled_from(["l2", "linf"]), st.integers(1, 10**6))
def test_the_papers_radius_and_step(norm, dimension):
    ball = make_ball(norm, None, dimension)
    if norm == "l2":
        assert ball.eps == pytest.approx(math.sqrt(0.001 * dimension))
        assert default_step(ball) == pytest.approx(min(2.0, ball.eps / 6))
    else:
        assert ball.eps == 0.05
        assert default_step(ball) == pytest.approx(0.005)


def test_the_papers_step_at_imagenet_size_is_two():
    assert default_step(make_ball("l2", None, 3 * 224 * 224)) == 2.0
    assert default_step(make_ball("l2", None, 3 * 299 * 299)) == 2.0


@given(st.floats(max_value=0) | st.sampled_from([math.nan, math.inf, "1", True]))
def test_a_radius_that_is_none(eps):
    with pytest.raises(InputError, match="eps"):
        make_ball("l2", eps, 10)
