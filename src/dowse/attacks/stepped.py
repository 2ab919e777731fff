"""An attack by probes on a target whose scores come in steps: σ starts where they move."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from dowse.attacks.base import Attack
from dowse.attacks.pgd import PGD
from dowse.core.flow import Flow, opening
from dowse.core.method import take_facts
from dowse.estimators.sigma import SIGMA_LIMIT
from dowse.maths.geometry import Ball
from dowse.maths.grid import grid_options
from dowse.maths.steps import step_of_answer


@dataclass(frozen=True)
class Stepped(Attack):
    """An attack whose σ is as long as the step of the scores that the image's first answer shows, if it was shorter.

    A probe of σ a pixel moves a probability by about σ‖∇p‖, and ‖∇p‖ is about 1 where a classifier hesitates. On a
    target whose scores have all their decimals the attack is what it is (docs/decisions/0003-sigma.md).

    Attributes:
        attack: The attack, whose σ nobody chose.
    """

    attack: Attack

    def __post_init__(self) -> None:
        take_facts(self, self.attack)

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[Any]:
        """Attack x, (*s), by the attack with the σ that the answer about x tells."""
        known = yield from opening()
        attack = with_sigma(self.attack, self.sigma_for(known.answer.scores[0]))
        return (yield from attack.flow(x, f, ball, rng))

    def check(self, x: Tensor) -> None:
        """Raise what the attack has against an image like x, (*s), before any query."""
        self.attack.check(x)

    @property
    def sigma(self) -> float:
        """σ of the method itself."""
        return float(_probing(self.attack).sigma)

    def sigma_for(self, scores: Tensor) -> float:
        """σ for an image that is answered with these scores, (K,)."""
        step = step_of_answer(scores)
        if step is None or step < 1.1 * self.sigma:  # a step is known to some digits only
            return self.sigma
        return max(self.sigma, min(step, SIGMA_LIMIT))


def stepped(attack: Attack, *, quantize: bool) -> Attack:
    """The attack with a σ that starts where scores move, if it has one and nobody chose it; else the attack.

    A σ is taken for the method's own if it has that value, whether it was written or not: runs are named by values.
    """
    method = _probing(attack)
    if method is None:
        return attack
    defaults = type(method).options()
    own = defaults | (grid_options(defaults) if quantize else {})
    return Stepped(attack) if method.sigma == own["sigma"] else attack


def with_sigma(attack: Attack, sigma: float) -> Attack:
    """The attack, which takes probes of σ a pixel, with another σ."""
    method = replace(_probing(attack), sigma=sigma)
    changed: Attack = replace(attack, estimator=method) if isinstance(attack, PGD) else method
    return changed


def _probing(attack: Attack) -> Any:
    """The method that takes probes of σ a pixel, the attack or the estimator in it; None if there is none.

    An attack around another has the other's facts and no σ of its own: a single estimate (`dowse.estimate`) is one.
    """
    method = attack.estimator if isinstance(attack, PGD) else attack
    return method if method.sigma_per_pixel and "sigma" in type(method).options() else None
