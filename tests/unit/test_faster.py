"""Surrogates in their faster form: the same function, and left as they are where that is not sure."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dowse.maths.losses import Objective
from dowse.models.layers import SameConv2d
from dowse.surrogates.faster import Alike, faster, widened
from dowse.surrogates.prior import SurrogatePrior

SHAPE = (3, 9, 9)
X = torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(1))


class Small(nn.Module):
    """Convolutions, batch norms that have seen something, a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = SameConv2d(3, 5, 3, 2, bias=False), nn.BatchNorm2d(5)
        self.block = nn.Sequential(nn.Conv2d(5, 5, 3, padding=1), nn.BatchNorm2d(5))
        self.head = nn.Linear(5, 4)
        rng = torch.Generator().manual_seed(0)
        for norm in (self.bn1, self.block[1]):
            for name in ("weight", "bias", "running_mean", "running_var"):
                getattr(norm, name).data = torch.rand(5, generator=rng) + 0.3
        self.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        logits: Tensor = self.head((y + self.block(y)).mean((2, 3)))
        return logits


class Twice(Small):
    """A convolution that is called twice, with a batch norm behind it once."""

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.block[0](self.block(self.conv1(x))).mean((2, 3)))
        return logits


class Heard(Small):
    """What stands before the batch norm is used elsewhere too."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(x)
        logits: Tensor = self.head((y + self.bn1(y)).mean((2, 3)))
        return logits


class ByValue(Small):
    """Goes another way where the image is dark."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if x.mean() > 0.1 else 1 - x)


def norms(net: nn.Module) -> int:
    return sum(isinstance(layer, nn.BatchNorm2d) for layer in net.modules())


def test_a_folded_network_has_the_same_logits_gradients_and_features() -> None:
    net = Small()
    net.steady = True  # type: ignore[assignment]
    before = {name: value.clone() for name, value in net.state_dict().items()}
    made = faster(net, SHAPE)
    assert (norms(net), norms(made)) == (2, 0)
    assert made.steady
    assert not any(p.requires_grad for p in made.parameters())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    torch.testing.assert_close(made(X), net(X))
    plain, fast = (SurrogatePrior(one, Objective("ce", "logits", False)) for one in (net, made))
    y = torch.tensor([0, 1, 2, 3])
    torch.testing.assert_close(fast.gradient(X, y), plain.gradient(X, y))
    seen, expected = (prior.see(X, torch.zeros(4, dtype=torch.int64)) for prior in (fast, plain))
    torch.testing.assert_close(seen[0].features.float(), expected[0].features.float())  # computed in float32


def test_what_cannot_be_traced_is_left_as_it_is() -> None:
    net = ByValue()
    assert faster(net, SHAPE) is net


@pytest.mark.parametrize(("kind", "left"), [(Heard, 1), (Twice, 1)])
def test_a_batch_norm_behind_a_convolution_that_others_hear_stays(kind: type[Small], left: int) -> None:
    net = kind()
    made = faster(net, SHAPE)
    assert norms(made) == left
    torch.testing.assert_close(made(X), net(X))


class Mixing(Small):
    """A row's answer depends on the rows beside it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1e-3 * x.mean()


LARGE = (3, 72, 72)


def test_rows_share_a_pass_only_where_they_have_the_bits_of_each_alone() -> None:
    assert faster(Mixing(), LARGE).alike is None
    made = faster(Small(), LARGE)
    x, y = torch.rand(6, *LARGE, generator=torch.Generator().manual_seed(2)), torch.tensor([0, 1, 2, 3, 0, 1])
    passes: list[int] = []
    made.register_forward_pre_hook(lambda net, given: passes.append(len(given[0])))
    prior = SurrogatePrior(made, Objective("ce", "logits", False))
    together = prior.gradient(x, y)
    assert passes == ([4, 1, 1] if made.alike else [1] * 6)
    alone = torch.cat([prior.gradient(x[i : i + 1], y[i : i + 1]) for i in range(6)])
    assert torch.equal(together, alone)  # seen to be so by `faster`, or the same passes
    few = SurrogatePrior(made, Objective("ce", "logits", False), batch_size=2)
    passes.clear()
    few.gradient(x, y)
    assert passes == [1] * 6


def test_small_images_share_wider_and_half_passes_only_where_that_changes_no_bit() -> None:
    assert faster(Mixing(), SHAPE).alike is None
    made = faster(Small(), SHAPE)
    x, y = torch.rand(51, *SHAPE, generator=torch.Generator().manual_seed(2)), torch.zeros(51, dtype=torch.int64)
    passes: list[int] = []
    prior = SurrogatePrior(made, Objective("ce", "logits", False))
    prior.gradient(x[:16], y[:16])  # where wider passes are tried
    wide = made.alike and widened(made, made.alike).sizes
    made.register_forward_pre_hook(lambda net, given: passes.append(len(given[0])))
    together, few, many = (prior.gradient(x[:n], y[:n]) for n in (51, 3, 7))
    of_each = {(32, 16, 8, 4): [32, 16, 4], (16, 8, 4): [16] * 3 + [4], (8, 4): [8] * 6 + [4]}
    assert passes == (of_each[wide] + [4, 8] if wide else [8] * 7 + [8, 8])
    assert torch.equal(together[:3], few)  # seen to be so by `faster`, or the same passes
    assert torch.equal(together[:7], many)


class Wide(Small):
    """A row's last bits depend on whether the pass is a wide one."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1 + 1e-6 * (x.shape[0] > 16))


def test_of_wider_passes_only_those_with_the_same_bits_are_taken() -> None:
    usual = Alike((8, 4), SHAPE)
    assert widened(Wide().eval().requires_grad_(False), usual).sizes in ((16, 8, 4), (8, 4))
    assert widened(Mixing().eval().requires_grad_(False), usual) == usual


def test_training_weights_that_learn_and_hooks_are_left_alone() -> None:
    training, learning, hooked = Small().train(), Small().requires_grad_(True), Small()
    hooked.head.register_forward_hook(lambda layer, given, made: made * 2)
    for net in (training, learning, hooked):
        assert faster(net, SHAPE) is net


def test_a_net_that_fails_on_the_noise_is_left_as_it_is() -> None:
    net = Small()
    assert faster(net, (4, 9, 9)) is net


def test_a_folded_form_that_answers_otherwise_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from dowse.surrogates import folding

    monkeypatch.setattr(folding, "fuse_conv_bn_eval", lambda conv, norm: conv)
    net = Small()
    assert faster(net, SHAPE) is net
