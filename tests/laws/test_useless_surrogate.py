"""A surrogate that does not know an image is not used: its presence changes no query."""

import pytest
import torch

import dowse
from tests.nets import SHAPE, D, Linear, Tanh, generator
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


class Standardised(torch.nn.Module):
    """Divides an image by how far its pixels vary: not a number where they do not."""

    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        δ = x.flatten(1) - x.flatten(1).mean(1, keepdim=True)
        return self.net((δ / δ.abs().mean(1, keepdim=True)).view_as(x))


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("useless", [Standardised(net()), Linear(0 * net().W, net().b * 0)], ids=["nan", "constant"])
def test_one_that_says_nothing_changes_nothing(norm, useless):
    """All pixels of an image are alike, so that a surrogate that standardises it says NaN there."""
    target, x = net(), torch.full((2, *SHAPE), 0.5, dtype=torch.float64)
    settings = {"method": "dowse", "norm": norm, "budget": 30, "seed": 1}
    alone, helped = dowse.attack(target, x, **settings), dowse.attack(target, x, surrogate=useless, **settings)
    assert torch.equal(alone.queries, helped.queries)
    assert torch.equal(alone.adversarial, helped.adversarial)


@pytest.mark.filterwarnings("ignore:the surrogate's gradient is not finite")
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_one_that_says_nothing_of_some_images_ends_no_run(norm):
    """With few classes it is used all the same, and its features are not finite either."""
    head, target = Tanh(1), Linear(net().W[:4], torch.tensor([99.0, 0, 0, 0], dtype=torch.float64))
    x = torch.stack([torch.full(SHAPE, 0.5, dtype=torch.float64), pictures(1)[0]])
    settings = {"method": "dowse", "norm": norm, "eps": 1e-3, "budget": 30, "seed": 1}
    result = dowse.attack(target, x, surrogate=Standardised(head), **settings)
    assert result.queries.tolist() == [30, 30]


def test_one_that_knows_it_is_used():
    target = net()
    x = pictures(4)
    y = target(x).argmax(1)
    settings = {"method": "dowse", "norm": "l2", "eps": 0.2, "budget": 60, "seed": 1}
    alone = dowse.attack(target, x, y, **settings)
    helped = dowse.attack(target, x, y, surrogate=net(), **settings)
    assert int(helped.queries.sum()) < int(alone.queries.sum())
