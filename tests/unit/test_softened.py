"""Surrogates with softer gradients: the same outputs, and gradients that are known where the network is small."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dowse.core.flow import Pull, Weights
from dowse.core.prior import answer_all
from dowse.maths.losses import Objective
from dowse.models import registry
from dowse.surrogates.faster import faster
from dowse.surrogates.packed import Chain, can_pack
from dowse.surrogates.prior import SurrogatePrior
from dowse.surrogates.softened import BRANCH, LEAK, softened

X = torch.rand(2, 3, 9, 9, generator=torch.Generator().manual_seed(1))


def scaled(weight: float) -> nn.Conv2d:
    """A convolution that multiplies by a number."""
    layer = nn.Conv2d(1, 1, 1, bias=False)
    layer.weight.data.fill_(weight)
    return layer


class OnePixel(nn.Module):
    """relu(ax), then that and c·relu(b·it): two logits, the sum and its negative."""

    def __init__(self, a: float, b: float, c: float, activation: type[nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.first, self.second, self.third, self.activation = scaled(a), scaled(b), scaled(c), activation()
        self.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation(self.first(x))
        y = y + self.third(self.activation(self.second(y)))
        return torch.cat([y, -y], 1).flatten(1)


class Blocks(nn.Module):
    """Convolutions with batch norms, a shortcut and a shortcut with a convolution in it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU6())
        self.branch = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(6, 6, 1))
        self.wider = nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 1))
        self.shortcut, self.head = nn.Conv2d(6, 8, 1), nn.Linear(8, 4)
        self.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        y = F.relu(self.branch(y) + y)
        z = self.wider(y)
        z += self.shortcut(y)
        logits: Tensor = self.head(z.mean((2, 3)))
        return logits


class ByValue(Blocks):
    """Goes another way where the image is dark."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if x.mean() > 0.1 else 1 - x)


class Overwritten(Blocks):
    """Reads what an activation in place has written over."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem[0](x) - 0.5
        z = F.relu(y, inplace=True)
        logits: Tensor = self.head(self.wider((z * z).sqrt() + y).mean((2, 3)))
        return logits


class Scaled(Blocks):
    """Changes in place what its activation made: ReLU6 remembers what it was given, the softer one what it made."""

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.wider(F.relu6(self.stem[0](x)).div_(6)).mean((2, 3)))
        return logits


def gradient(net: nn.Module, x: Tensor, weights: Tensor) -> Tensor:
    """That of weightsᵀ logits at x."""
    x = x.clone().requires_grad_()
    (g,) = torch.autograd.grad((net(x) * weights).sum(), x)
    return g


@pytest.mark.parametrize(
    ("a", "b", "activation", "slope"),
    [
        (2.0, 3.0, nn.ReLU, 2 * (1 + BRANCH * 3 * 5)),
        (-2.0, 3.0, nn.ReLU, -2 * LEAK * (1 + BRANCH * 5 * LEAK * 3)),  # both ReLUs are shut
        (2.0, -3.0, nn.ReLU, 2 * (1 + BRANCH * 5 * LEAK * -3)),
        (20.0, 3.0, nn.ReLU6, 20 * LEAK * (1 + BRANCH * 5 * LEAK * 3)),  # and full
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_gets_through_is_known(
    a: float, b: float, activation: type[nn.Module], slope: float, packed: bool
) -> None:
    net: nn.Module = OnePixel(a, b, 5.0, activation)
    x = torch.full((1, 1, 1, 1), 0.5)
    soft = softened(faster(net, (1, 1, 1)) if packed else net, x)
    assert torch.equal(soft(x), net(x))
    got = gradient(soft, x, torch.tensor([[1.0, 0.0]]))
    assert got.item() == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_packed_convolutions_leak_as_the_layers_do(dtype: torch.dtype) -> None:
    net, x = Blocks().to(dtype), X.to(dtype)
    fast = faster(Blocks(), (3, 9, 9)).to(dtype)
    assert not can_pack() or any(isinstance(layer, Chain) for layer in fast.modules())
    plain, packed = softened(net, x[:1]), softened(fast, x[:1])
    w = torch.tensor([[1.0, -2.0, 0.5, 0.0]], dtype=dtype)
    torch.testing.assert_close(packed(x), net(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradient(packed, x, w), gradient(plain, x, w), rtol=1e-3, atol=1e-5)
    assert not torch.allclose(gradient(plain, x, w), gradient(net, x, w), rtol=0.05)


@pytest.mark.parametrize("net", [Blocks(), faster(Blocks(), (3, 9, 9))])
def test_the_network_itself_is_not_changed(net: nn.Module) -> None:
    w = torch.tensor([[1.0, -2.0, 0.5, 0.0]])
    own = gradient(net, X, w)
    assert softened(net, X[:1]) is not net
    assert torch.equal(gradient(net, X, w), own)


def heard() -> nn.Module:
    """A network to whose first layer somebody listens."""
    net = Blocks()
    net.stem.register_forward_hook(lambda layer, given, made: None)
    return net


@pytest.mark.parametrize(
    "net", [heard(), ByValue(), Overwritten(), Scaled(), nn.Sequential(nn.Flatten(), nn.Linear(243, 4))]
)
def test_a_network_that_cannot_be_softened_is_given_back(net: nn.Module) -> None:
    assert softened(net, X[:1]) is net


@pytest.mark.parametrize(
    "name", ["imagenet_mobilenetv2", "imagenet_resnet18", "imagenet_squeezenet10", "cifar10_resnet20"]
)
def test_built_in_networks_have_a_softer_form(name: str) -> None:
    net = registry.spec(name).build().eval().requires_grad_(False)
    x = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    soft = softened(net, x)
    assert soft is not net
    assert torch.equal(soft(x), net(x))


def test_both_gradients_are_given_in_one_round() -> None:
    prior = SurrogatePrior(Blocks(), Objective("margin", "logits", targeted=False))
    weights = {0: Weights(logits=torch.tensor([1.0, -1.0, 0.0, 0.0]))}
    asked = [Pull(X[0], weights), Pull(X[0], weights, soft=True), Pull(X[1], weights, soft=True)]
    own, soft, other = (one[0] for one in answer_all(prior, asked, [0, 0, 0], [0, 0, 0]))  # type: ignore[index]
    assert torch.equal(own.logits, soft.logits)
    assert torch.equal(own.features, soft.features)
    assert not torch.allclose(own.gradient, soft.gradient, rtol=0.05)
    alone = SurrogatePrior(Blocks(), Objective("margin", "logits", targeted=False))
    (again,) = answer_all(alone, asked[2:], [0], [0])
    assert torch.equal(again[0].gradient, other.gradient)  # type: ignore[index, arg-type]


def test_features_are_the_same_where_the_head_is_a_convolution_with_an_activation_in_place() -> None:
    """As in SqueezeNet, whose last activation writes over what the last convolution made."""
    head = [nn.Conv2d(6, 4, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), *head).eval().requires_grad_(False)
    prior = SurrogatePrior(net, Objective("margin", "logits", targeted=False))
    weights = {0: Weights(logits=torch.tensor([1.0, -1.0, 0.0, 0.0]))}
    answers = answer_all(prior, [Pull(X[0], weights, soft=True), Pull(X[0], weights)], [0, 0], [0, 0])
    soft, own = (one[0] for one in answers)  # type: ignore[index]
    assert own.features.shape == (6,)
    assert torch.equal(soft.features, own.features)
    assert not torch.equal(soft.gradient, own.gradient)
