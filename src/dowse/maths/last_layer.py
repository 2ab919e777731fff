"""A Bayesian last layer: what n answers of a target say about all its scores, given what surrogates see.

About a pinned point a, the target's log-scores h (K of them) are modelled as

    h(x) − h(a) = λ (p(x) − p(a)) + B (ψ(x) − ψ(a)),    B ~ N(0, 1) entry by entry,

with p the surrogates' mean logits, the prior mean, and ψ the surrogates' last-layer features and the pixels side by
side. The posterior mean is closed form in the n × n matrix of inner products of ψ; its gradient in x is a linear
function of logits, features and pixels, so one `pull` gives it. docs/method.md explains it.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from dowse.settings import Outputs


class Example(NamedTuple):
    """One answered point.

    Attributes:
        x: Its displacement from the original, (D,), in the images' precision.
        features: φ, the surrogates' features side by side, (F,) float64; empty without a surrogate.
        prior: p, the surrogates' mean logits, (K,) float64; zero without a surrogate.
        scores: h, the target's log-scores, (K,) float64.

    >>> Example(torch.zeros(2), torch.zeros(0), torch.zeros(3), torch.ones(3)).scores
    tensor([1., 1., 1.])
    """

    x: Tensor
    features: Tensor
    prior: Tensor
    scores: Tensor


def log_scores(scores: Tensor, outputs: Outputs) -> Tensor:
    """h of an answer: log-scores, (K,) -> (K,); a probability shown as zero counts half of the least shown.

    >>> log_scores(torch.tensor([0.5, 0.5, 0.0]), "probs").exp()
    tensor([0.5000, 0.5000, 0.2500])
    """
    if outputs == "logits":
        return scores.clone()
    shown = scores[scores > 0]
    return scores.clamp_min(float(shown.min()) / 2 if len(shown) else 1.0).log()


@dataclass(frozen=True)
class Examples:
    """The answered points that are remembered, one of them pinned, and their inner products.

    Attributes:
        rows: From the oldest on.
        pinned: Which of them the model is about.
        pixels: xᵢᵀxⱼ, (n, n) float64.
        features: φᵢᵀφⱼ, (n, n) float64.

    >>> Examples.of(Example(torch.tensor([3.0, 4.0]), torch.zeros(0), torch.zeros(3), torch.zeros(3))).pixels.round()
    tensor([[25.]], dtype=torch.float64)
    """

    rows: tuple[Example, ...]
    pinned: int
    pixels: Tensor
    features: Tensor

    @classmethod
    def of(cls, row: Example) -> "Examples":
        """One row, pinned."""
        return cls((row,), 0, row.x.square().sum().double().view(1, 1), row.features.square().sum().view(1, 1))

    def add(self, row: Example, *, pin: bool, most: int) -> "Examples":
        """With one row more; past `most` the oldest that is not pinned goes.

        >>> zero = Example(torch.zeros(2), torch.zeros(0), torch.zeros(3), torch.zeros(3))
        >>> rows = Examples.of(zero).add(zero._replace(x=torch.tensor([3.0, 4.0])), pin=True, most=2)
        >>> rows.pixels.round() + 0
        tensor([[ 0.,  0.],
                [ 0., 25.]], dtype=torch.float64)
        >>> rows.add(zero, pin=False, most=2).pinned  # the first of the two went
        0
        """
        kept = [i for i in range(len(self.rows)) if not (len(self.rows) >= most and i == self._oldest)]
        rows = tuple(self.rows[i] for i in kept)
        pinned = len(rows) if pin else kept.index(self.pinned)
        pixels = torch.stack([(one.x @ row.x).double() for one in (*rows, row)])
        features = torch.stack([one.features @ row.features for one in (*rows, row)])
        return Examples(
            (*rows, row),
            pinned,
            _bordered(self.pixels[kept][:, kept], pixels),
            _bordered(self.features[kept][:, kept], features),
        )

    def unseen(self) -> "Examples":
        """The same points, of which no surrogate sees anything."""
        rows = (row._replace(features=row.features[:0], prior=torch.zeros_like(row.prior)) for row in self.rows)
        return replace(self, rows=tuple(rows), features=torch.zeros_like(self.features))

    def about(self, x: Tensor) -> bool:
        """Whether one of the rows is about a displacement, (D,)."""
        return any(torch.equal(row.x, x) for row in self.rows)

    @property
    def _oldest(self) -> int:
        return 1 if self.pinned == 0 else 0


@dataclass(frozen=True)
class ScoreModel:
    """What the rows say about any other point: the posterior mean of the target's log-scores.

    Attributes:
        pinned: The row that the model is about.
        scale: λ, how far the surrogates' logits are believed.
        coefficients: Of each other row, (n, K) float64: (K + noise)⁻¹(ΔH − λΔP).
        features: φᵢ − φ(a) of each other row, times its weight in the kernel, (n, F) float64.
        pixels: xᵢ − a of each other row, times its weight in the kernel, (n, D).

    Where nothing but the pinned point was answered, the surrogates' logits are the prediction:

    >>> at = Example(torch.zeros(1), torch.zeros(0).double(), torch.zeros(2).double(), torch.tensor([2, 1]).double())
    >>> model = fit(Examples.of(at), torch.tensor([0, 1]), ridge=0.05, pixels=0.3)
    >>> model.scores(torch.ones(1), at.features, torch.tensor([-1.0, 1.0]).double()).round()
    tensor([1., 2.], dtype=torch.float64)
    """

    pinned: Example
    scale: float
    coefficients: Tensor
    features: Tensor
    pixels: Tensor

    def scores(self, x: Tensor, features: Tensor, prior: Tensor) -> Tensor:
        """The log-scores expected at a displacement x, (D,), with φ, (F,), and p, (K,), there: (K,)."""
        along = self.features @ (features - self.pinned.features) + (self.pixels @ (x - self.pinned.x)).double()
        return self.pinned.scores + self.scale * (prior - self.pinned.prior) + along @ self.coefficients

    def slope(self, direction: Tensor) -> tuple[Tensor, Tensor]:
        """What a linear function of the scores, direction (K,), weighs features, (F,), and pixels, (D,), by."""
        by_row = self.coefficients @ direction
        return by_row @ self.features, by_row.to(self.pixels) @ self.pixels


def fit(rows: Examples, classes: Tensor, *, ridge: float, pixels: float) -> ScoreModel:
    """The posterior about the pinned row.

    Features and pixels are weighted by the inverse of their mean square, pixels `pixels` times that; the noise of a row
    is `ridge` times its own square, since the farther a row lies the less a linear model holds. λ is the generalised
    least squares fit over the chosen classes relative to the first of them, shrunk towards 1, and never negative.

    Args:
        rows: At least one.
        classes: Indices of the classes that λ is fitted on, the label first, (m,).
        ridge: Noise over signal.
        pixels: Weight of the pixels' kernel beside the features'.

    Half a step towards a point that was answered, half of what changed there is expected, but for the noise:

    >>> zero = torch.zeros(2).double()
    >>> rows = Examples.of(Example(torch.zeros(1), torch.zeros(0).double(), zero, zero))
    >>> rows = rows.add(Example(torch.ones(1), torch.zeros(0).double(), zero, zero + 1), pin=False, most=9)
    >>> fit(rows, torch.tensor([0, 1]), ridge=0.25, pixels=1.0).scores(torch.tensor([0.5]), zero[:0], zero)
    tensor([0.4000, 0.4000], dtype=torch.float64)
    """
    pinned, n = rows.rows[rows.pinned], len(rows.rows)
    others = [i for i in range(n) if i != rows.pinned]
    if not others:
        nothing = pinned.scores.new_zeros
        return ScoreModel(
            pinned,
            1.0,
            nothing(0, len(pinned.scores)),
            nothing(0, len(pinned.features)),
            pinned.x.new_zeros(0, len(pinned.x)),
        )
    Kφ, Kx = _about(rows.features, rows.pinned, others), _about(rows.pixels, rows.pinned, others)
    wφ, wx = _inverse(Kφ.diagonal().mean()), pixels * _inverse(Kx.diagonal().mean())
    K = wφ * Kφ + wx * Kx
    own = K.diagonal()
    noise = ridge * own.clamp_min(0.01 * float(own.mean())) + 1e-12
    factor = _factor(K, noise)
    ΔP = torch.stack([rows.rows[i].prior for i in others]) - pinned.prior
    ΔH = torch.stack([rows.rows[i].scores for i in others]) - pinned.scores
    λ = _scale(factor, ΔP[:, classes], ΔH[:, classes])
    return ScoreModel(
        pinned,
        λ,
        torch.cholesky_solve(ΔH - λ * ΔP, factor),
        wφ * (torch.stack([rows.rows[i].features for i in others]) - pinned.features),
        wx * (torch.stack([rows.rows[i].x for i in others]) - pinned.x),
    )


def _factor(K: Tensor, noise: Tensor) -> Tensor:
    """The Cholesky factor of K + noise, (n, n).

    Inner products of large images are off by rounding in float32, so that rows which all lie near the pinned one may
    leave K with eigenvalues below −noise: then the noise grows tenfold until it covers them.
    """
    factor: Tensor
    for power in range(12):
        factor, failed = torch.linalg.cholesky_ex(K + torch.diag(10.0**power * noise))
        if not failed:
            return factor
    factor = torch.linalg.cholesky(K + torch.diag(noise))  # raises, and says why
    return factor


def _scale(factor: Tensor, ΔP: Tensor, ΔH: Tensor) -> float:
    """λ = (⟨p, h⟩ + κ)/(⟨p, p⟩ + κ) in the metric of (K + noise)⁻¹, κ half a row's share of ⟨p, p⟩."""
    p, h = ΔP - ΔP[:, :1], ΔH - ΔH[:, :1]
    weighted = torch.cholesky_solve(p, factor)
    square = float((weighted * p).sum())
    κ = 0.5 * square / len(p) + 1e-12
    return max((float((weighted * h).sum()) + κ) / (square + κ), 0.0)


def _about(inner: Tensor, pinned: int, others: list[int]) -> Tensor:
    """Inner products of differences to the pinned row, (n − 1, n − 1), from inner products, (n, n)."""
    cross = inner[others, pinned]
    return inner[others][:, others] - cross[:, None] - cross + inner[pinned, pinned]


def _bordered(square: Tensor, last: Tensor) -> Tensor:
    """A symmetric matrix with one row and column more, (n, n), (n + 1,) -> (n + 1, n + 1)."""
    return torch.cat([torch.cat([square, last[:-1, None]], 1), last[None]])


def _inverse(value: Tensor) -> float:
    return 1 / float(value) if float(value) > 0 else 0.0
