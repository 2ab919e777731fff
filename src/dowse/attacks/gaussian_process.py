"""A Gaussian process around a known function: y ~ GP(c + λ·p, s²·k), k Matérn 5/2, fitted in closed form."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

JITTER = 1e-6  # of the kernel's diagonal: answers are exact
LENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the search space's size: where the likelihood is looked at
FREE_FROM = 3  # observations from which λ is estimated; before, it is 1
LEAST_SCALE = 1e-12
LEAST_UNEXPLAINED = 1e-12


@dataclass(frozen=True)
class Posterior:
    """What is known after n observations.

    Attributes:
        at: Where they were made, (n, d) float64.
        constant: c.
        weight: λ, not negative.
        scale: s², the process's variance.
        length: The kernel's length.
        factor: The Cholesky factor of the kernel matrix, (n, n).
        coefficients: K⁻¹ times the residuals, (n,).
    """

    at: Tensor
    constant: float
    weight: float
    scale: float
    length: float
    factor: Tensor
    coefficients: Tensor

    def mean(self, z: Tensor, prior: float) -> float:
        """The mean of y at z, d numbers of any shape, where the known function is `prior`."""
        return self.constant + self.weight * prior + float(self._kernel(z) @ self.coefficients)

    def deviation(self, z: Tensor) -> float:
        """The standard deviation of y at z."""
        k = self._kernel(z)
        return math.sqrt(self.scale * self._unexplained(k, self._solved(k)))

    def bonus_slope(self, z: Tensor, beta: float) -> Tensor:
        """The gradient at z, shaped like z, of what the process adds to λ·p: its correction and β deviations.

        With u = 1 − kᵀK⁻¹k the bonus is kᵀc + β·s·√u, and its gradient by k is c − β·s·K⁻¹k/√u.
        """
        away = self._away(z)
        r = self._lengths(away)
        k = matern(r)
        solved = self._solved(k)
        unexplained, by_kernel = self._unexplained(k, solved), self.coefficients
        if unexplained > LEAST_UNEXPLAINED:
            by_kernel = by_kernel - beta * math.sqrt(self.scale / unexplained) * solved
        slope = (by_kernel * matern_slope(r)) @ away / self.length**2
        return torch.nan_to_num(slope).view(z.shape).to(z)

    def _away(self, z: Tensor) -> Tensor:
        """From the observations to z, (n, d)."""
        return z.detach().flatten().to("cpu", torch.float64) - self.at

    def _lengths(self, away: Tensor) -> Tensor:
        """How far that is, in lengths of the kernel, (n,)."""
        distances: Tensor = torch.linalg.vector_norm(away, dim=1)
        return distances / self.length

    def _kernel(self, z: Tensor) -> Tensor:
        """k, (n,)."""
        return matern(self._lengths(self._away(z)))

    def _solved(self, k: Tensor) -> Tensor:
        """K⁻¹k, (n,)."""
        return torch.cholesky_solve(k.unsqueeze(1), self.factor)[:, 0]

    def _unexplained(self, k: Tensor, solved: Tensor) -> float:
        """u, the share of the variance that the observations leave."""
        return max(1 + JITTER - float(solved @ k), LEAST_UNEXPLAINED)


def fitted(at: Tensor, y: Tensor, prior: Tensor, norm: str) -> Posterior:
    """The process that n observations make most likely.

    c and λ ≥ 0 are the generalised least-squares estimates, s² the mean square of what they leave, and the length the
    likeliest of a few. For fewer than three observations λ is 1.

    Args:
        at: Where y was observed, (n, d) float64.
        y: What was observed, (n,) float64.
        prior: The known function there, (n,) float64.
        norm: "linf" for a search in [−1, 1]^d, whose points lie some √d apart, "l2" for one in the unit ball.
    """
    size = math.sqrt(at.shape[1]) if norm == "linf" else 1.0
    distances = _distances(at, at)
    models = [_with_length(at, y, prior, distances, share * size) for share in LENGTHS]
    return max(models, key=lambda one: one[0])[1]


def matern(r: Tensor) -> Tensor:
    """Matérn's kernel of smoothness 5/2 at distances r in lengths; 1 at 0."""
    r = math.sqrt(5) * r
    return (1 + r + r.square() / 3) * torch.exp(-r)


def matern_slope(r: Tensor) -> Tensor:
    """Its derivative at r, divided by r: finite at 0 too."""
    r = math.sqrt(5) * r
    return -5 / 3 * (1 + r) * torch.exp(-r)


def _with_length(at: Tensor, y: Tensor, prior: Tensor, distances: Tensor, length: float) -> tuple[float, Posterior]:
    """The log-likelihood, up to a constant, of the best process of one length, and the process."""
    n = len(y)
    factor = torch.linalg.cholesky(matern(distances / length) + JITTER * torch.eye(n, dtype=torch.float64))
    constant, weight = _least_squares(factor, y, prior) if n >= FREE_FROM else (None, 1.0)
    if constant is None or weight < 0:
        weight = 1.0 if n < FREE_FROM else 0.0
        ones = torch.cholesky_solve(torch.ones(n, 1, dtype=torch.float64), factor)[:, 0]
        constant = float(ones @ (y - weight * prior) / ones.sum())
    residual = y - constant - weight * prior
    coefficients = torch.cholesky_solve(residual.unsqueeze(1), factor)[:, 0]
    scale = max(float(residual @ coefficients) / n, LEAST_SCALE)
    likelihood = -n / 2 * math.log(scale) - float(factor.diagonal().log().sum())
    return likelihood, Posterior(at, constant, weight, scale, length, factor, coefficients)


def _least_squares(factor: Tensor, y: Tensor, prior: Tensor) -> tuple[float | None, float]:
    """c and λ of the generalised least squares; (None, −1) where the known function does not vary."""
    columns = torch.stack([torch.ones_like(prior), prior], 1)
    solved = torch.cholesky_solve(columns, factor)
    normal = columns.T @ solved
    if float(torch.linalg.det(normal)) <= 1e-12 * float(normal[0, 0] * normal[1, 1]):
        return None, -1.0
    constant, weight = torch.linalg.solve(normal, solved.T @ y).tolist()
    return constant, weight


def _distances(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distances, (n, d), (m, d) -> (n, m)."""
    square = (a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T).clamp_min(0)
    return (square + 1e-18).sqrt()
