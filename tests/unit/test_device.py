"""A network on another device, which is played: one transfer there and one back a pass, whoever is in it."""

from typing import Any

import pytest
import torch
from torch import Tensor

import dowse
from dowse.core import target as targets
from tests.nets import Tanh
from tests.pretend_device import DEVICE, PlayedDevice, There
from tests.support import labels_of, pictures

NET = Tanh(0)
SURROGATE = Tanh(1, near=NET)
X = pictures(4)
Y = labels_of(NET, X)


class Elsewhere(torch.nn.Module):
    """A network whose weights are on the played device; it counts its passes and takes nothing that is not there."""

    def __init__(self, net: Tanh) -> None:
        super().__init__()
        self.net, self.passes = net, 0
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        assert isinstance(x, There), "rows must be moved to the network's device"
        self.passes += len(x) > 0
        with torch._C.DisableTorchFunction():
            scores = self.net(x.as_subclass(Tensor))
        return scores.as_subclass(There)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks of the class above say that they are on the played device."""
    told = targets.kind_of

    def kind_of(net: torch.nn.Module) -> Any:
        kind = told(net)
        return targets.Kind(kind.dtype, DEVICE) if isinstance(net, Elsewhere) and kind else kind

    monkeypatch.setattr(targets, "kind_of", kind_of)


def attack(target: torch.nn.Module, concurrency: int, **more: Any) -> dowse.Result:
    return dowse.attack(target, X, Y, eps=0.1, budget=8, concurrency=concurrency, **more)


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize(("method", "options"), [("rgf", {"q": 2}), ("square", {"norm": "linf"})])
def test_a_round_is_one_transfer_there_and_one_back_and_nothing_waits(
    elsewhere: None, method: str, options: dict[str, Any], concurrency: int
) -> None:
    target = Elsewhere(NET)
    with PlayedDevice() as device:
        result = attack(target, concurrency, method=method, **options)
    assert device.counts == {"to": target.passes, "from": target.passes}
    here = attack(NET, concurrency, method=method, **options)
    assert torch.equal(result.queries, here.queries)
    assert torch.equal(result.adversarial, here.adversarial)
    if concurrency == 4:
        assert 2 * target.passes < int(result.queries.sum()), "rows of all images travel together"


# there: rows, then labels, or weights of logits and of features; back: a gradient, or logits, features and gradients
@pytest.mark.parametrize(("method", "there", "back"), [("prgf", 2, 1), ("gfcs", 3, 3)])
def test_a_pass_of_a_surrogate_moves_its_rows_together(elsewhere: None, method: str, there: int, back: int) -> None:
    """However many images are in it."""
    for concurrency in (1, 4):
        surrogate = Elsewhere(SURROGATE)
        with PlayedDevice() as device:
            attack(NET, concurrency, method=method, surrogate=surrogate)
        assert device.counts["to"] <= there * surrogate.passes
        assert device.counts["from"] <= back * surrogate.passes
        assert device.counts["waits"] == 0
