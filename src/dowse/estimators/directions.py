"""Directions that a surrogate gives: random mixtures of its outputs (ODS), and those of the attack's own goal."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from dowse.core.flow import Answer, Flow, Opening, Seen, Weighing, Weights, pull
from dowse.maths.losses import Objective
from dowse.maths.sampling import is_zero, sphere


def random_outputs(rng: torch.Generator, n: int | None = None) -> Callable[[Seen], Weights]:
    """w of output-diversified sampling (Tashiro et al. 2020, Eq. (1)): uniform on [−1, 1]^K, or n such, (n, K)."""

    def weights(seen: Seen) -> Weights:
        K = len(seen.logits)
        w = torch.rand((K,) if n is None else (n, K), generator=rng, dtype=torch.float64)
        return Weights(logits=2 * w - 1)

    return weights


def pulled(x: Tensor, surrogate: int, weights: Weighing, *, soft: bool = False) -> Flow[Tensor]:
    """The gradient of one surrogate at x, (*s), its own or a soft one: free."""
    seen = (yield from pull(x, {surrogate: weights}, soft=soft))[surrogate]
    assert seen.gradient is not None
    return seen.gradient


def ods(x: Tensor, known: Opening, rng: torch.Generator, *, soft: bool = False) -> Flow[Tensor]:
    """∇ₓ(wᵀz) of a random surrogate at x, (*s): free; a random direction where that is zero."""
    direction = yield from pulled(x, any_surrogate(known, rng), random_outputs(rng), soft=soft)
    return sphere(1, x, rng)[0] if is_zero(direction) else direction


def any_surrogate(known: Opening, rng: torch.Generator) -> int:
    """The number of one of the surrogates, each as likely."""
    return int(torch.randint(known.surrogates, (1,), generator=rng))


def towards_goal(known: Opening, answer: Answer) -> Weighing:
    """What to pull a surrogate by to reach the goal, given the target's last answer at the iterate, of one row.

    For the margin it is e_c − e_y, y the label and c the class that *the target* puts next to it; in a targeted attack
    e_w − e_c, w the class wanted and c the target's best other. For the cross-entropy it is the slope of the
    surrogate's own, ∂f/∂z.
    """
    if known.objective.loss != "margin":
        return slope_of_loss(known)
    return Weights(logits=_towards_next(_goal(known), answer.scores[0], targeted=known.objective.targeted))


def own_loss(known: Opening, seen: Seen) -> Tensor:
    """f of a surrogate's own logits, a number."""
    return _of_logits(known).value(seen.logits.unsqueeze(0), torch.tensor([_goal(known)]))[0]


def slope_of_loss(known: Opening) -> Callable[[Seen], Weights]:
    """∂f/∂z of a surrogate's own logits: pulled by it, a surrogate gives its gradient of f."""
    objective, goal = _of_logits(known), torch.tensor([_goal(known)])

    def weights(seen: Seen) -> Weights:
        return Weights(logits=objective.slope(seen.logits.unsqueeze(0), goal)[0])

    return weights


def own_margin(known: Opening) -> Callable[[Seen], Weights]:
    """What to pull a surrogate by to raise its own margin: as `towards_goal`, c being the surrogate's best other."""
    goal = _goal(known)

    def weights(seen: Seen) -> Weights:
        return Weights(logits=_towards_next(goal, seen.logits, targeted=known.wanted is not None))

    return weights


def _of_logits(known: Opening) -> Objective:
    """The objective, of a network that answers with logits, as surrogates do."""
    return Objective(known.objective.loss, "logits", known.objective.targeted)


def _goal(known: Opening) -> int:
    """The label that the objective is about."""
    return known.label if known.wanted is None else known.wanted


def _towards_next(goal: int, scores: Tensor, *, targeted: bool) -> Tensor:
    """e_c − e_goal, c being the best other class of scores (K,), or the opposite for a goal to be reached, (K,).

    In numpy, where a step on so few numbers takes a fraction of torch's time.
    """
    others = scores.numpy().copy()
    others[goal] = -np.inf
    weights = np.zeros(len(others))
    weights[others.argmax()], weights[goal] = 1, -1
    return torch.from_numpy(-weights if targeted else weights)
