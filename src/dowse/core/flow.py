"""What an attack may ask and what it hears back: the whole interface between an attack and the world.

An attack is a generator about one image. It yields questions and receives answers; it holds no model, no query
counter, no budget and no loop limit. The driver (`dowse.core.driver`) answers, charges and ends it.
"""

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeVar

from torch import Tensor


class Query(NamedTuple):
    """Ask the target about images; costs one query a row.

    Attributes:
        points: Images in the target's range, (n, *s). They belong to the attack again once it has the answer.
        candidate: True when the rows are iterates, where success is looked for; False for probes.
        gradient: True to ask for the gradient of the loss too, which only a white-box target can give.
    """

    points: Tensor
    candidate: bool = False
    gradient: bool = False


class PriorAt(NamedTuple):
    """Ask the surrogate for its gradient of the loss at x, (*s); free."""

    x: Tensor


class Note(NamedTuple):
    """Tell whoever observes about the attack's inner values; free."""

    values: Mapping[str, float]


class Answer(NamedTuple):
    """What one forward pass says about n images.

    Attributes:
        loss: f at each row, the attack's objective, to be increased, (n,) float64 on the CPU.
        adversarial: Whether each row is misclassified as wanted, (n,) bool on the CPU.
        scores: The target's scores, (n, K) float64 on the CPU.
        gradient: The gradient of f at each row, (n, *s), if it was asked for.
    """

    loss: Tensor
    adversarial: Tensor
    scores: Tensor
    gradient: Tensor | None = None


Question = Query | PriorAt | Note
R = TypeVar("R")
Flow = Generator[Question, Any, R]


def ask(points: Tensor) -> Flow[Answer]:
    """Ask about probes, (n, *s): costs n queries."""
    answer: Answer = yield Query(points)
    return answer


def check(x: Tensor) -> Flow[float]:
    """Ask about an iterate, (*s): costs one query, gives f(x), and the attack ends here if it is adversarial."""
    answer: Answer = yield Query(x.unsqueeze(0), candidate=True)
    return float(answer.loss[0])


def gradient_at(x: Tensor) -> Flow[Tensor]:
    """Ask a white-box target for its gradient at the iterate x, (*s): costs one query."""
    answer: Answer = yield Query(x.unsqueeze(0), candidate=True, gradient=True)
    assert answer.gradient is not None
    return answer.gradient[0]


def prior_at(x: Tensor) -> Flow[Tensor]:
    """Ask the surrogate for its gradient of f at x, (*s): free."""
    gradient: Tensor = yield PriorAt(x)
    return gradient


def note(**values: float) -> Flow[None]:
    """Leave named numbers for traces and figures: free."""
    yield Note(values)
