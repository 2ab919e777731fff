"""The law that equal bits stand on: a row is the same in any batch, on any processor, with any number of threads.

It holds for the small networks of tests/nets.py, and for what the program itself does to the rows of several images at
once. It does not hold for matrix products and convolutions, and the last test shows that the processor that
tests/rounding.py plays knows it.
"""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from dowse.maths.losses import Objective
from dowse.maths.sampling import unit
from dowse.surrogates.smoothing import smoothed
from dowse.surrogates.surrogate import resized
from tests import rounding
from tests.nets import D, Linear, Pooled, Tanh, Waves, generator
from tests.support import pictures

MOST = 64
NETS: dict[str, Callable[[torch.dtype], nn.Module]] = {
    "linear": lambda dtype: Linear(torch.randn(4, D, generator=generator(0)).to(dtype), torch.ones(4, dtype=dtype)),
    "tanh": lambda dtype: Tanh(0, dtype=dtype),
    "tanh, wide": lambda dtype: Tanh(1, classes=7, hidden=33, shape=(3, 9, 9), dtype=dtype),
    "pooled": lambda dtype: Pooled(dtype=dtype),
    "waves": lambda dtype: Waves(dtype=dtype),
}
SCORES = {"ce": Objective("ce"), "margin": Objective("margin"), "probabilities": Objective("ce", outputs="probs")}
STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "unit": lambda x: unit(x, batched=True),
    "larger": lambda x: resized(x, 11),
    "smaller": lambda x: resized(x, (3, 5)),
}
dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"], autouse=True)
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def images_for(name: str, dtype: torch.dtype) -> Tensor:
    return pictures(MOST, seed=1, dtype=dtype, shape=(3, 9, 9) if name == "tanh, wide" else (3, 4, 4))


def with_gradient(step: Callable[[Tensor], Tensor]) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """What a step makes of rows, and the gradient of a sum over all of it that no element enters like another."""

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().clone().requires_grad_()
        made = step(x)
        weights = torch.linspace(0.5, 1.5, made[0].numel(), dtype=made.dtype).view_as(made[0])
        (gradient,) = torch.autograd.grad((made * weights).sum(), x)
        return made.detach(), gradient

    return both


def assert_the_same_in_any_batch(step: Callable[[Tensor], tuple[Tensor, ...]], x: Tensor) -> None:
    whole = step(x)
    for size in range(1, len(x)) if torch.get_num_threads() == 1 else (1, 2, 5, 33):
        for one, parts in zip(whole, zip(*[step(part) for part in x.split(size)], strict=True), strict=True):
            assert torch.equal(torch.cat(parts), one), f"in batches of {size}"


@dtypes
@pytest.mark.parametrize("name", NETS)
def test_rows_of_the_small_networks(name: str, dtype: torch.dtype) -> None:
    assert_the_same_in_any_batch(with_gradient(NETS[name](dtype)), images_for(name, dtype))


@pytest.mark.parametrize("name", SCORES)
def test_rows_of_the_loss(name: str) -> None:
    scores = torch.randn(MOST, 10, generator=generator(2), dtype=torch.float64)
    if name == "probabilities":
        scores = scores.softmax(1)

    def loss(rows: Tensor) -> Tensor:
        return SCORES[name].value(rows, (rows.detach() == rows.detach().amin(1, keepdim=True)).long().argmax(1))

    assert_the_same_in_any_batch(with_gradient(loss), scores)


@dtypes
@pytest.mark.parametrize("name", STEPS)
def test_rows_of_what_is_done_to_several_images_at_once(name: str, dtype: torch.dtype) -> None:
    x = pictures(MOST, seed=3, dtype=dtype, shape=(3, 9, 7))
    assert_the_same_in_any_batch(lambda rows: (STEPS[name](rows),), x)


@dtypes
def test_the_processor_that_is_played_gives_rows_that_depend_on_the_batch(dtype: torch.dtype) -> None:
    """And by no more than a few units in the last place; the same call has the same answer."""
    torch.manual_seed(0)
    x = torch.rand(5, 3, 9, 9, dtype=dtype)
    nets = [nn.Sequential(nn.Flatten(), nn.Linear(243, 4)), nn.Conv2d(3, 4, 3)]
    for step in (*(net.to(dtype) for net in nets), lambda rows: smoothed(rows, 3)):
        plain = with_gradient(step)(x)
        with rounding.another_processor():
            whole, again, alone = (with_gradient(step)(rows) for rows in (x, x, x[:1]))
        for expected, a, b, c in zip(plain, whole, again, alone, strict=True):
            assert torch.equal(a, b)
            assert not torch.equal(a[:1], c)
            torch.testing.assert_close(a, expected)
            torch.testing.assert_close(a[:1], c)
