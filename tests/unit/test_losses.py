"""The objective's slope, of which the margin's is written down, against torch's own."""

import pytest
import torch

from dowse.maths.losses import Objective
from tests.support import generator


@pytest.mark.parametrize("loss", ["ce", "margin"])
@pytest.mark.parametrize("targeted", [False, True])
def test_the_slope_is_that_of_the_value(loss: str, targeted: bool) -> None:
    objective = Objective(loss, targeted=targeted)
    z = 3 * torch.randn(40, 5, generator=generator(0), dtype=torch.float64)
    z[0, 1:] = 2.0  # others that are equal
    z[1] = 1e3 * z[1]
    labels = torch.randint(5, (40,), generator=generator(1))
    labels[0] = 0
    (expected,) = torch.autograd.grad(objective.value(z.requires_grad_(), labels).sum(), z)
    assert torch.equal(objective.slope(z.detach(), labels), expected)
