"""AAA, "Adversarial Attack on Attackers" (Chen et al. 2022, NeurIPS): scores whose margin leads a search astray."""

import torch
from torch import Tensor

from dowse.core.target import TargetLike
from dowse.defences.base import Defence
from dowse.defences.scores import are_probabilities, as_logits
from dowse.errors import positive

STEPS, RATE = 100, 0.1  # κ and the step of Adam, which the paper takes for all networks
DECAY, SQUARE_DECAY, TINY = 0.9, 0.999, 1e-8  # Adam's β₁, β₂ and ε


class AAA(Defence):
    """A classifier whose logits are changed so that its margin falls where it truly rises, but its class stays.

    The range of the margin m = z₁ − z₂ is cut into intervals of length τ. Within each, the shown margin is that of the
    true one mirrored at the middle, l_a − α (m − l_a) (AAA-linear), and the confidence stays the true one: Adam finds
    logits that minimise |margin − target| + β |confidence − true confidence|, of each row by itself.

    Differences to the original: losses are summed, not averaged, over rows, so that a row's answer does not depend on
    its neighbours; pixels are not rounded down to 8 bits first; the temperature is 1 unless given, where the original
    tunes it for each network on labelled images.

    Args:
        net: From points to scores; of probabilities the logarithms are changed.
        tau: The length τ of an interval; 4 as in the released code.
        alpha: How steeply the shown margin falls; 1 mirrors it.
        beta: The weight β of the confidence.
        temperature: Of the true confidence that is kept.
    """

    prefix = "aaa"
    has_gradient = False

    def __init__(
        self, net: TargetLike, tau: float = 4.0, alpha: float = 1.0, beta: float = 5.0, temperature: float = 1.0
    ) -> None:
        super().__init__(net)
        positive(tau=tau, alpha=alpha, beta=beta, temperature=temperature)
        self.tau, self.alpha, self.beta, self.temperature = tau, alpha, beta, temperature

    def shown(self, scores: Tensor, seeds: Tensor) -> Tensor:
        """Scores of the same kind whose margin misleads: (n, K) -> (n, K)."""
        z = as_logits(scores.detach())
        if not len(z) or z.shape[1] < 2:
            return scores
        best = z.argmax(1, keepdim=True)
        m = _margin(z)
        attractor = (torch.floor(m / self.tau) + 0.5) * self.tau  # l_a, the middle of the interval
        target = attractor - self.alpha * (m - attractor)
        confidence = (z / self.temperature).softmax(1).gather(1, best).squeeze(1)
        found = _optimized(z, best, target, confidence, self.beta)
        return torch.where(are_probabilities(scores), found.softmax(1), found)


def _optimized(z: Tensor, best: Tensor, target: Tensor, confidence: Tensor, beta: float) -> Tensor:
    """Logits near z, (n, K), that minimise |margin − target| + β |confidence of `best` − confidence|, row by row.

    Adam, with the gradient written out: it is that of autograd to the last bit, at a quarter of its time: a query of
    a small network costs less than a hundred steps of an optimiser.

    Args:
        z: True logits, (n, K).
        best: The class whose confidence is kept, (n, 1).
        target: The margin wanted, (n,).
        confidence: The confidence wanted, (n,).
        beta: The weight β of the confidence.
    """
    z = z.clone()
    target, confidence = target.unsqueeze(1), confidence.unsqueeze(1)
    mean, square, denominator = torch.zeros_like(z), torch.zeros_like(z), torch.empty_like(z)
    for step in range(1, STEPS + 1):
        p = z.softmax(1)
        kept = p.gather(1, best)
        pull = (kept - confidence).sign_().mul_(beta)  # of p at `best`
        gradient = torch.zeros_like(z).scatter_(1, best, pull).sub_(pull * kept).mul_(p)  # through the softmax
        two = z.topk(2, dim=1)
        sign = (two.values[:, :1] - two.values[:, 1:] - target).sign_()
        gradient.scatter_add_(1, two.indices, torch.cat([sign, -sign], 1))
        mean.lerp_(gradient, 1 - DECAY)
        square.mul_(SQUARE_DECAY).addcmul_(gradient, gradient, value=1 - SQUARE_DECAY)
        torch.sqrt(square, out=denominator)
        denominator.div_((1 - SQUARE_DECAY**step) ** 0.5).add_(TINY)
        z.addcdiv_(mean, denominator, value=-RATE / (1 - DECAY**step))
    return z


def _margin(z: Tensor) -> Tensor:
    """z₁ − z₂, the best class ahead of the second: (n, K) -> (n,)."""
    first, second = z.topk(2, dim=1).values.unbind(1)
    return first - second
