"""The law of memory: how an image lies in memory changes nothing, for any method, in either precision."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import dowse
from dowse.attacks.registry import METHODS
from dowse.maths.losses import Objective
from dowse.surrogates.prior import SurrogatePrior
from tests.support import Tanh, labels_of, pictures

SHAPE = (3, 6, 4)  # height and width differ, so that swapped axes show
SMALL = {"q": 8, "coordinates": 4, "norm_samples": 4, "memory": 8, "steps": 4, "starts": 1}  # several iterations, soon
LAYOUTS = {
    "NHWC": lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),  # torch's channels_last is the same
    "columns first": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "every second pixel": lambda x: x.repeat_interleave(2, dim=3)[..., ::2],
}


def run(method: str, x: Tensor, norm: str, **more: object) -> list[tuple[object, ...]]:
    """All of what an attack finds, to the last bit; the target's rows are sums of products, each by itself."""
    target = Tanh(0, shape=SHAPE, dtype=x.dtype)
    result = dowse.attack(
        target,
        x,
        labels_of(target, x.contiguous()),
        method=method,
        surrogate=Tanh(1, near=target, apart=2.0, shape=SHAPE, dtype=x.dtype),
        norm=norm,
        eps=0.3 if norm == "l2" else 0.05,
        budget=32,
        **{name: value for name, value in SMALL.items() if name in METHODS[method].options()},
        **more,
    )
    return [
        (o.id, o.end, o.queries, o.sent, o.label, o.loss, o.distance, o.adversarial.numpy().tobytes())
        for o in result.outcomes
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_a_result_does_not_depend_on_the_layout(method, dtype):
    x = pictures(2, dtype=dtype, shape=SHAPE)
    for norm in METHODS[method].norms:
        expected = run(method, x, norm)
        for name, layout in LAYOUTS.items():
            assert run(method, layout(x), norm) == expected, name


def test_the_layouts_are_odd_and_the_images_the_same():
    x = pictures(2, shape=SHAPE)
    for layout in LAYOUTS.values():
        assert torch.equal(layout(x), x)
        assert not layout(x)[0].is_contiguous()
    assert LAYOUTS["NHWC"](x).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("method", METHODS)
def test_nor_on_the_grid(method):
    x = (pictures(2, dtype=torch.float32, shape=SHAPE) * 255).round() / 255
    norm = METHODS[method].norms[0]
    assert run(method, LAYOUTS["NHWC"](x), norm, quantize=True) == run(method, x, norm, quantize=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_stream_and_an_estimate_take_any_layout(layout):
    target = Tanh(0, shape=SHAPE)
    x = pictures(2, shape=SHAPE)
    odd = LAYOUTS[layout](x)
    streamed = [[o.adversarial for o in dowse.stream(target, images, method="zoo", budget=40)] for images in (odd, x)]
    assert all(map(torch.equal, *streamed))
    estimates = [dowse.estimate(target, images, method="rgf", q=6, subspace=2).gradient for images in (odd, x)]
    assert torch.equal(*estimates)


@dataclass(frozen=True)
class Prior:
    """A surrogate whose gradients lie in memory as `layout` has it, channels last for instance as a CPU's network."""

    net: Tanh
    layout: Callable[[Tensor], Tensor]

    def gradient(self, x: Tensor, labels: Tensor) -> Tensor:
        return self.layout(SurrogatePrior(self.net, Objective()).gradient(x, labels))


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("method", ["prgf", "averaging", "transfer"])
def test_nor_on_the_layout_of_a_transfer_gradient(method, norm):
    x, target = pictures(2, shape=SHAPE), Tanh(0, shape=SHAPE)
    surrogate = Tanh(1, near=target, apart=2.0, shape=SHAPE)
    found = [
        dowse.attack(target, x, method=method, surrogate=Prior(surrogate, layout), norm=norm, eps=0.03, budget=60)
        for layout in (torch.clone, *LAYOUTS.values())
    ]
    assert all(torch.equal(one.queries, found[0].queries) for one in found)
    assert all(torch.equal(one.adversarial, found[0].adversarial) for one in found)
