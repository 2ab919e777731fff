"""Chains of packed convolutions: the function and the gradient of the layers that they are made of, up to rounding."""

import copy

import pytest
import torch
from torch import Tensor, nn

from dowse.models.layers import SameConv2d
from dowse.surrogates.chains import chained
from dowse.surrogates.faster import traced
from dowse.surrogates.packed import Chain, can_pack

pytestmark = pytest.mark.skipif(not can_pack(), reason="this torch has no packed convolutions")


def layers(*convolutions: nn.Conv2d, activation: type[nn.Module] = nn.ReLU6) -> nn.Sequential:
    """Convolutions with an activation behind each, and a last layer."""
    torch.manual_seed(0)
    body = [part for one in convolutions for part in (one, activation())]
    net = nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(convolutions[-1].out_channels, 3))
    for p in net.parameters():
        p.data = 2 * torch.randn_like(p)
    return net.eval().requires_grad_(False)


def chains(net: nn.Module) -> list[int]:
    """How many convolutions each chain of a network has."""
    return [len(layer.convolutions) for layer in net.modules() if isinstance(layer, Chain)]


def said(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, and the gradients of two sums of them in one graph."""
    x = x.clone().requires_grad_()
    z: Tensor = net(x)
    (a,) = torch.autograd.grad(z[:, 0].sum(), x, retain_graph=True)
    (b,) = torch.autograd.grad((z * torch.tensor([1.0, -2.0, 0.5]).to(z)).sum(), x)
    return z.detach(), a, b


NETS = {
    "depth-wise": layers(nn.Conv2d(3, 12, 1), nn.Conv2d(12, 12, 3, padding=1, groups=12), nn.Conv2d(12, 5, 1)),
    "groups": layers(nn.Conv2d(3, 12, 3, padding=1, bias=False), nn.Conv2d(12, 8, 3, padding=1, groups=4)),
    "stride": layers(nn.Conv2d(3, 6, 3, 2, 1), nn.Conv2d(6, 4, 1, 2)),
    "no padding": layers(nn.Conv2d(3, 6, 3), nn.Conv2d(6, 4, 5), activation=nn.ReLU),
    "much padding": layers(nn.Conv2d(3, 6, 3, padding=4), activation=nn.ReLU),
    "oblong": layers(nn.Conv2d(3, 6, (1, 3), padding=(0, 1)), nn.Conv2d(6, 6, (5, 3), (1, 2), (2, 0))),
    "same, odd": layers(SameConv2d(3, 6, 3, 2), SameConv2d(6, 6, 5, 2, groups=6)),
    "no activation": layers(nn.Conv2d(3, 6, 3), nn.Conv2d(6, 6, 3, groups=2), activation=nn.Identity),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("shape", [(1, 3, 12, 12), (3, 3, 13, 16)])
def test_a_chain_is_the_layers_it_is_made_of(name: str, shape: tuple[int, ...]) -> None:
    net = NETS[name]
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    made = traced(net)
    assert chained(made)
    for ours, theirs in zip(said(made, x), said(net, x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * float(theirs.abs().max()))
    with torch.no_grad():
        torch.testing.assert_close(made(x), net(x), rtol=1e-4, atol=1e-3)


def test_a_chain_is_as_long_as_each_is_read_by_the_next_only() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))
            self.head = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            y = torch.relu(self.a(x))
            z: Tensor = self.head((y + self.c(self.b(y))).mean((2, 3)))
            return z

    made = traced(Residual().eval().requires_grad_(False))
    assert chained(made)
    assert chains(made) == [1, 2]


def test_a_convolution_that_comes_last_keeps_its_features_within_reach() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1)).eval().requires_grad_(False)
    made = traced(net)
    assert chained(made)
    assert chains(made) == [1]


def test_unusual_convolutions_stay_as_they_are() -> None:
    net = layers(nn.Conv2d(3, 6, 3, dilation=2), nn.Conv2d(6, 6, 3, padding=1, padding_mode="reflect"))
    assert not chained(traced(net))


def test_other_sizes_other_precisions_and_copies() -> None:
    net = NETS["same, odd"]
    made = traced(net)
    chained(made)
    for side in (9, 10, 9):
        x = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(3))
        torch.testing.assert_close(said(made, x)[1], said(net, x)[1], rtol=1e-4, atol=1e-3)
    twin = copy.deepcopy(made)
    torch.testing.assert_close(twin(x), made(x))
    exact, expected = copy.deepcopy(made).double(), copy.deepcopy(net).double()
    torch.testing.assert_close(said(exact, x.double())[1], said(expected, x.double())[1])
    torch.testing.assert_close(exact.float()(x), made(x))


def test_the_gradient_that_a_chain_is_handed_is_not_written_to() -> None:
    made = traced(NETS["no padding"])
    chained(made)
    (chain,) = (layer for layer in made.modules() if isinstance(layer, Chain))
    x = torch.rand(1, 3, 12, 12, requires_grad=True)
    y = chain(x)
    g = torch.rand_like(y)
    before = g.clone()
    torch.autograd.grad(y, x, g)
    assert torch.equal(g, before)
