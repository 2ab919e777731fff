"""A surrogate that does not know an image is not used: its presence changes no query."""

import pytest
import torch

import dowse
from dowse.attacks.arms import ARMS, TRANSFERS
from dowse.attacks.patterns import ALONE, PATTERNS
from tests.nets import SHAPE, D, Linear, Tanh, generator
from tests.support import pictures

MANY = 500  # classes, of which the first ten say something


def net(sign: float = 1.0, classes: int = MANY) -> Linear:
    """A linear network, or, of sign −1, one that calls what it knows best its last class."""
    W = torch.randn(classes, D, generator=generator(3), dtype=torch.float64)
    return Linear(sign * W, torch.zeros(classes, dtype=torch.float64))


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("surrogates", [1, 2])
@pytest.mark.parametrize("classes", [MANY, 10, 3])
def test_surrogates_that_do_not_know_the_image_change_nothing(norm, surrogates, classes):
    target = net(classes=classes)
    x = pictures(4)
    y = target(x).argmax(1)
    settings = {"method": "dowse", "norm": norm, "budget": 60, "seed": 1}
    alone = dowse.attack(target, x, y, **settings)
    helped = dowse.attack(target, x, y, surrogate=[net(-1.0, classes)] * surrogates, **settings)
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
    """Beside one that knows them it is used all the same, and its features are not finite either."""
    head, target = Tanh(1), Linear(net().W[:4], torch.tensor([99.0, 0, 0, 0], dtype=torch.float64))
    x = torch.stack([torch.full(SHAPE, 0.5, dtype=torch.float64), pictures(1)[0]])
    settings = {"method": "dowse", "norm": norm, "eps": 1e-3, "budget": 30, "seed": 1}
    result = dowse.attack(target, x, surrogate=[Standardised(head), target], **settings)
    assert result.queries.tolist() == [30, 30]


class Moves(dowse.Observer):
    """Which arms moved, in order."""

    def __init__(self):
        self.arms = []

    def noted(self, task, values):
        self.arms.append(ARMS[int(values["arm"])])


class Mute(torch.nn.Module):
    """Knows every image of a target's, and leads nowhere: its scores hang on what the target does not look at."""

    def __init__(self, net: torch.nn.Module, x: torch.Tensor) -> None:
        super().__init__()
        self.known = net(x[:1]).detach()
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.known + x.flatten(1).sum(1, keepdim=True) * torch.linspace(0, 1e-9, self.known.shape[1])


TRIAL = ["climb"] * TRANSFERS + ["bump"] * PATTERNS


def moves(classes: int, surrogate: torch.nn.Module, **settings) -> list[str]:
    watch = Moves()
    settings = {"method": "dowse", "eps": 1e-3, "budget": 60, "seed": 1, "observers": [watch]} | settings
    dowse.attack(net(classes=classes), pictures(1), surrogate=surrogate, **settings)
    return watch.arms


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_one_that_knows_the_image_and_leads_nowhere_is_left_after_a_trial(norm):
    arms = moves(10, Mute(net(classes=10), pictures(1)), norm=norm)
    assert arms[: len(TRIAL)] == TRIAL
    assert arms[len(TRIAL) : ALONE + TRANSFERS] == ["bump"] * (ALONE - PATTERNS)  # the patterns go on
    assert set(arms[len(TRIAL) :]) <= ({"climb", "bump", "ripple"} if norm == "l2" else {"slope", "bump"})


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_one_that_leads_on_stays_after_the_trial(norm):
    arms = moves(10, net(classes=10), norm=norm)
    assert arms[: len(TRIAL)] == TRIAL
    assert "ods" in arms


def test_there_is_no_trial_where_the_label_tells_nor_of_a_target_class():
    assert moves(MANY, net())[:7] != TRIAL
    assert moves(10, net(classes=10), y=[0], target_labels=[1])[:7] != TRIAL


def test_one_that_knows_it_is_used():
    target = net()
    x = pictures(4)
    y = target(x).argmax(1)
    settings = {"method": "dowse", "norm": "l2", "eps": 0.2, "budget": 60, "seed": 1}
    alone = dowse.attack(target, x, y, **settings)
    helped = dowse.attack(target, x, y, surrogate=net(), **settings)
    assert int(helped.queries.sum()) < int(alone.queries.sum())
