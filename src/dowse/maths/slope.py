"""The slope of a function over an image, learnt from the differences that are paid for anyway: recursive least squares.

A network that was trained to be robust is close to linear inside its ball, so each answer measures one component of a
slope that hardly changes, and what all answers say together finds the sign of pixels nobody has tried one by one.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dowse.maths.cosines import cosines

GREY, COLOUR = 24, 8  # frequencies a side, of the mean of the channels and of their differences
RIDGE = 0.1  # what of a difference is not explained by a slope, relative to a slope of the prior


@dataclass(frozen=True)
class Waves:
    """Cosines over the channels, the rows and the columns of an image, (C, H, W), as far as slopes reach into them.

    The mean of the channels has the most frequencies, all expected alike; the differences between them have few, and
    the coarser a wave the more of it is expected.

    >>> waves = Waves.of(3, 224, 224)
    >>> len(waves), waves.analyse(torch.zeros(3, 224, 224)).shape
    (704, torch.Size([704]))
    """

    channels: Tensor
    rows: Tensor
    columns: Tensor
    expected: Tensor

    @classmethod
    def of(cls, C: int, H: int, W: int) -> "Waves":
        """Those of images of a shape."""
        rows, columns = cosines(H, min(GREY, H)), cosines(W, min(GREY, W))
        a, b = (torch.arange(min(COLOUR, n), dtype=torch.float64) for n in (H, W))
        return cls(cosines(C, C), rows, columns, 1.2 / (1 + (a[:, None] ** 2 + b**2).sqrt() / 2))

    def __len__(self) -> int:
        return len(self.rows) * len(self.columns) + (len(self.channels) - 1) * self.expected.numel()

    def analyse(self, δ: Tensor) -> Tensor:
        """The coefficients, (m,) float64, of a difference of images, (C, H, W), each times what is expected of it."""
        waves = self.rows @ (self.channels @ δ.double().flatten(1)).view(δ.shape) @ self.columns.T
        a, b = self.expected.shape
        return torch.cat([waves[0].flatten(), (self.expected * waves[1:, :a, :b]).flatten()])

    def synthesise(self, w: Tensor) -> Tensor:
        """The slope with coefficients w, (m,), as an image, (C, H, W): ⟨slope, δ⟩ = ⟨w, analyse(δ)⟩."""
        a, b = self.expected.shape
        waves = torch.zeros(len(self.channels), len(self.rows), len(self.columns), dtype=torch.float64)
        grey = waves[0].numel()
        waves[0] = w[:grey].view_as(waves[0])
        waves[1:, :a, :b] = self.expected * w[grey:].view(-1, a, b)
        image = self.rows.T @ waves @ self.columns
        return (self.channels.T @ image.flatten(1)).view_as(image)


@dataclass(frozen=True)
class Slope:
    """What is known of a slope: mean and covariance of its coefficients, N(0, 1) before anything is.

    Attributes:
        waves: What the coefficients are of.
        mean: (m,) float64.
        covariance: (m, m) float64, relative to the prior's.

    >>> step = torch.ones(1, 2, 2)
    >>> Slope.unknown(step).after(step, rise=4.4).image().round(decimals=6)  # over four pixels, less the ridge
    tensor([[[1., 1.],
             [1., 1.]]], dtype=torch.float64)
    """

    waves: Waves
    mean: Tensor
    covariance: Tensor

    @classmethod
    def unknown(cls, x: Tensor) -> "Slope":
        """Nothing is known of the slope over images such as x, (C, H, W)."""
        waves = Waves.of(*x.shape)
        m = len(waves)
        return cls(waves, torch.zeros(m, dtype=torch.float64), torch.eye(m, dtype=torch.float64))

    def after(self, δ: Tensor, rise: float) -> "Slope":
        """What is known once a step δ, (C, H, W), was seen to raise the function by so much: Kalman's update."""
        h = self.waves.analyse(δ)
        size = float(h @ h)
        if size == 0 or not math.isfinite(rise):
            return self
        Ph = self.covariance @ h
        gain = Ph / (RIDGE * size + float(h @ Ph))
        mean = self.mean + gain * (rise - float(h @ self.mean))
        return replace(self, mean=mean, covariance=self.covariance - torch.outer(gain, Ph))

    def image(self) -> Tensor:
        """The mean, (C, H, W) float64."""
        return self.waves.synthesise(self.mean)


def clearest(slope: Tensor, x: Tensor, x0: Tensor, eps: float, share: float) -> Tensor:
    """x, (*s), with the pixels that promise most set to x0 ± eps as the slope, (*s), has it: a share of all that gain.

    >>> clearest(torch.tensor([3.0, -2.0, 1.0, 0.5]), torch.zeros(4), torch.zeros(4), 1.0, share=0.5)
    tensor([ 1., -1.,  0.,  0.])
    """
    wanted = x0 + eps * slope.sign()
    promise = (wanted - x) * slope
    gaining = int((promise > 0).sum())
    if not gaining:
        return x
    least = promise.flatten().topk(max(1, int(share * gaining))).values[-1]
    return torch.where((promise >= least) & (promise > 0), wanted, x)
