"""Whatever a caller gives as a surrogate becomes a prior here, checked before any query."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from dowse.core.inputs import check_fits
from dowse.core.prior import AdaptedPrior, Prior
from dowse.errors import InputError, SurrogateWarning, warn
from dowse.maths.losses import Objective
from dowse.settings import Combine
from dowse.surrogates.ensemble import Ensemble
from dowse.surrogates.prior import SurrogatePrior
from dowse.surrogates.surrogate import Surrogate, SurrogateLike


def as_prior(
    surrogate: SurrogateLike | Sequence[SurrogateLike] | None,
    objective: Objective,
    like: Tensor,
    *,
    combine: Combine = "mean",
    batch_size: int | None = None,
    classes: int | None = None,
) -> Prior | None:
    """The prior of what the caller gave, checked against one image, (C, H, W), and the target's number of classes."""
    if surrogate is None:
        return None
    if isinstance(surrogate, list | tuple):
        return Ensemble([_as_prior(one, objective, like, batch_size, classes) for one in surrogate], combine)
    return _as_prior(surrogate, objective, like, batch_size, classes)


def _as_prior(surrogate: Any, objective: Objective, like: Tensor, batch_size: int | None, classes: int | None) -> Prior:
    if not isinstance(surrogate, nn.Module | Surrogate | str):
        return surrogate if isinstance(surrogate, Prior) else AdaptedPrior(surrogate)
    if not isinstance(surrogate, Surrogate):
        surrogate = Surrogate(surrogate)
    made = SurrogatePrior(surrogate, objective, batch_size, classes)
    check_fits("surrogate", made.target, like)
    if not made.target.differentiable:
        raise InputError(
            f"the surrogate {made.target.name} has no gradient: use the net behind it, or another surrogate"
        )
    if made.target.in_training:
        warn("the surrogate is in training mode: call surrogate.eval() first", SurrogateWarning)
    made.learn_classes(like)
    return made
