"""Ripples: some parts of a displacement grow, others shrink, and its length stays that of the ball."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dowse.attacks.ripple import rippled
from dowse.maths.geometry import L2
from tests.nets import generator
from tests.support import pictures

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(1, 20))


@given(shape=SHAPES, eps=st.floats(0.01, 50), step=st.floats(0, 1), seed=st.integers(0, 99), moved=st.booleans())
def test_a_ripple_stays_in_the_ball_and_among_images(shape, eps, step, seed, moved):
    ball, x0 = L2(eps), pictures(1, seed, shape=shape)[0]
    x = ball.project(x0 + torch.randn(shape, generator=generator(seed), dtype=x0.dtype), x0) if moved else x0
    z = rippled(x, x0, step * eps, ball, generator(seed))
    assert float(ball.distance(z[None], x0)) <= eps
    assert float(z.min()) >= 0
    assert float(z.max()) <= 1


@pytest.mark.parametrize("step", [0.02, 0.1])
def test_only_what_was_changed_changes_and_only_as_far_as_the_step(step):
    ball, x0 = L2(0.4), pictures(1, shape=(3, 16, 16))[0]
    δ = torch.zeros_like(x0)
    δ[:, 2:9, 4:12] = torch.randn(3, 7, 8, generator=generator(1), dtype=x0.dtype)
    x = x0 + ball.eps * δ / δ.norm()
    z = rippled(x, x0, step * ball.eps, ball, generator(2))
    assert torch.equal((z - x0) != 0, δ != 0)
    assert float((z - x).norm()) == pytest.approx(step * ball.eps, rel=0.2)
    assert float((z - x0).norm()) == pytest.approx(ball.eps)
    assert not torch.equal(z, rippled(x, x0, step * ball.eps, ball, generator(3)))
    assert torch.equal(z, rippled(x, x0, step * ball.eps, ball, generator(2)))


def test_from_the_unchanged_image_it_leads_to_the_surface():
    ball, x0 = L2(0.4), pictures(1, shape=(3, 16, 16))[0]
    z = rippled(x0, x0, 0.04, ball, generator(0))
    assert float((z - x0).norm()) == pytest.approx(0.4)
