"""A surrogate that does not know an image is not used: its presence changes no query."""

import pytest
import torch

import dowse
from tests.nets import D, Linear, generator
from tests.support import pictures

CLASSES = 200  # so many that the first hundredth of them says something


def net(sign: float = 1.0) -> Linear:
    """A network of many classes, or, of sign −1, one that calls what it knows best its last class."""
    W = torch.randn(CLASSES, D, generator=generator(3), dtype=torch.float64)
    return Linear(sign * W, torch.zeros(CLASSES, dtype=torch.float64))


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("surrogates", [1, 2])
def test_surrogates_that_do_not_know_the_image_change_nothing(norm, surrogates):
    target = net()
    x = pictures(4)
    y = target(x).argmax(1)
    settings = {"method": "dowse", "norm": norm, "budget": 60, "seed": 1}
    alone = dowse.attack(target, x, y, **settings)
    helped = dowse.attack(target, x, y, surrogate=[net(-1.0)] * surrogates, **settings)
    assert torch.equal(alone.queries, helped.queries)
    assert torch.equal(alone.adversarial, helped.adversarial)


def test_one_that_knows_it_is_used():
    target = net()
    x = pictures(4)
    y = target(x).argmax(1)
    settings = {"method": "dowse", "norm": "l2", "eps": 0.2, "budget": 60, "seed": 1}
    alone = dowse.attack(target, x, y, **settings)
    helped = dowse.attack(target, x, y, surrogate=net(), **settings)
    assert int(helped.queries.sum()) < int(alone.queries.sum())
