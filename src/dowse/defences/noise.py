"""Defences by noise, drawn per row: on the image, on the scores, or on the scores of unsure answers alone."""

import torch
from torch import Tensor

from dowse.core.seeds import normal_of
from dowse.core.target import TargetLike
from dowse.defences.base import Defence
from dowse.defences.scores import are_probabilities, as_logits, as_probabilities
from dowse.errors import fraction, positive


class InputNoise(Defence):
    """A classifier that sees each image with small Gaussian noise (RND; Qin et al. 2021, Byun et al. 2022).

    Args:
        net: From points to scores.
        sigma: The noise's standard deviation, pixels being in [0, 1]; what leaves [0, 1] is clipped.
    """

    prefix = "noise"
    draws_noise = True

    def __init__(self, net: TargetLike, sigma: float = 0.02) -> None:
        super().__init__(net)
        positive(sigma=sigma)
        self.sigma = sigma

    def transform(self, x: Tensor, seeds: Tensor) -> Tensor:
        """clip(x + σξ): (n, *s) -> (n, *s)."""
        return (x + self.sigma * normal_of(seeds, x[0].numel()).view(x.shape).to(x)).clamp(0, 1) if len(x) else x


class OutputNoise(Defence):
    """A classifier whose scores are shown with Gaussian noise (Aithal and Li 2022, "output noise perturbation").

    The noise is added to logits; probabilities are shown as the softmax of their noisy logarithms.

    Args:
        net: From points to scores.
        sigma: The noise's standard deviation.
    """

    prefix = "output-noise"
    draws_noise = True

    def __init__(self, net: TargetLike, sigma: float = 0.1) -> None:
        super().__init__(net)
        positive(sigma=sigma)
        self.sigma = sigma

    def shown(self, scores: Tensor, seeds: Tensor) -> Tensor:
        """z + σξ: (n, K) -> (n, K)."""
        return _noisy(scores, self.sigma * normal_of(seeds, scores.shape[1]))


class Boundary(Defence):
    """Noise on the scores of images near a boundary: where the best class is unsure (Aithal and Li 2022, BD(θ, σ)).

    Args:
        net: From points to scores.
        theta: The confidence below which an image counts as near a boundary; the paper's for ImageNet is 0.3.
        sigma: The standard deviation of the noise on its logits; the paper's is 0.1.
    """

    prefix = "boundary"
    draws_noise = True

    def __init__(self, net: TargetLike, theta: float = 0.3, sigma: float = 0.1) -> None:
        super().__init__(net)
        fraction(theta=theta)
        positive(sigma=sigma)
        self.theta, self.sigma = theta, sigma

    def shown(self, scores: Tensor, seeds: Tensor) -> Tensor:
        """z + σξ where max softmax(z) < θ, else z: (n, K) -> (n, K)."""
        unsure = as_probabilities(scores).amax(1, keepdim=True) < self.theta
        noise = self.sigma * normal_of(seeds, scores.shape[1])
        return torch.where(unsure, _noisy(scores, noise), scores)


def _noisy(scores: Tensor, noise: Tensor) -> Tensor:
    """Logits with noise added; of probabilities the softmax of their noisy logarithms: (n, K), (n, K) -> (n, K)."""
    z = as_logits(scores) + noise.to(scores)
    return torch.where(are_probabilities(scores), z.softmax(1), z)
