"""What an attack may ask and what it hears back: the whole interface between an attack and the world.

An attack is a generator about one image. It yields questions and receives answers; it holds no model, no query
counter, no budget and no loop limit. The driver (`dowse.core.driver`) answers, charges and ends it.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from dowse.maths.losses import Objective


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


class Weights(NamedTuple):
    """A linear function of what a surrogate says, aᵀz + bᵀφ, or m of them at once; what is None is left out.

    Attributes:
        logits: a, (K,) or (m, K): a weight for each of the target's classes; a class the surrogate lacks has no say.
        features: b, (F,) or (m, F): a weight for each feature of the surrogate's last layer.
    """

    logits: Tensor | None = None
    features: Tensor | None = None


class Seen(NamedTuple):
    """What one surrogate makes of one image.

    Attributes:
        logits: z, (K,) float64 on the CPU, by the target's class numbers where the surrogate has a class offset. A
            class of the target that the surrogate lacks stands as low as its lowest, and so does one whose logit is
            not finite; zero where none is.
        features: φ, (F,) float64 on the CPU: the input of its last linear layer, or z where it has none; finite alike.
        gradient: The gradient that was pulled, (*s), like the image, or those of m weights, (m, *s); zero where the
            surrogate's is not finite.
    """

    logits: Tensor
    features: Tensor
    gradient: Tensor | None = None


Weighing = Weights | Callable[[Seen], Weights]
"""What a surrogate is weighted by: weights, or a function that makes them of what the surrogate says there."""


class Look(NamedTuple):
    """Ask the surrogates numbered `of`, all of them for None, what they say at x, (*s); free."""

    x: Tensor
    of: tuple[int, ...] | None = None


class Pull(NamedTuple):
    """Ask the surrogates, each by its number, for the gradient at x, (*s), of what the weights make of them; free.

    Where `soft`, a gradient that transfers better is asked for (`dowse.surrogates.softened`), if a surrogate has one.
    """

    x: Tensor
    weights: Mapping[int, Weighing]
    soft: bool = False


class Begin(NamedTuple):
    """Ask what was known when the attack began; free."""


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


class Opening(NamedTuple):
    """What is known as an attack begins: the answer about the unchanged image, paid for already, and what is wanted.

    Attributes:
        answer: The answer about the unchanged image, of one row. Whoever reads its scores says `uses_scores`.
        label: The image's label y, which the target gave it if nobody else did.
        wanted: The class to be reached, of a targeted attack.
        objective: What f means; `objective.outputs` says whether scores are "logits" or "probs".
        surrogates: How many surrogates there are to look at and to pull.
    """

    answer: Answer
    label: int
    wanted: int | None
    objective: Objective
    surrogates: int


Question = Query | PriorAt | Look | Pull | Begin | Note
R = TypeVar("R")
Flow = Generator[Question, Any, R]
"""What a conversation is to a type checker: a generator of questions that returns an R."""


def ask(points: Tensor) -> Flow[Answer]:
    """Ask about probes, (n, *s): costs n queries."""
    answer: Answer = yield Query(points)
    return answer


def check(x: Tensor) -> Flow[float]:
    """Ask about an iterate, (*s): costs one query, gives f(x), and the attack ends here if it is adversarial."""
    answer: Answer = yield Query(x.unsqueeze(0), candidate=True)
    return float(answer.loss)


def examine(x: Tensor) -> Flow[Answer]:
    """As `check`, for an attack that reads the whole answer about an iterate, (*s), its scores too: costs one query."""
    answer: Answer = yield Query(x.unsqueeze(0), candidate=True)
    return answer


def gradient_at(x: Tensor) -> Flow[Tensor]:
    """Ask a white-box target for its gradient at the iterate x, (*s): costs one query."""
    answer: Answer = yield Query(x.unsqueeze(0), candidate=True, gradient=True)
    assert answer.gradient is not None
    return answer.gradient[0]


def prior_at(x: Tensor) -> Flow[Tensor]:
    """Ask the surrogate for its gradient of f at x, (*s): free."""
    gradient: Tensor = yield PriorAt(x)
    return gradient


def look(x: Tensor, of: tuple[int, ...] | None = None) -> Flow[dict[int, Seen]]:
    """Ask surrogates, all or those numbered `of`, what they say at x, (*s), by their number: free."""
    seen: dict[int, Seen] = yield Look(x, of)
    return seen


def pull(x: Tensor, weights: Mapping[int, Weighing], *, soft: bool = False) -> Flow[dict[int, Seen]]:
    """Ask surrogates for the gradient at x, (*s), of a linear function of their logits or features: free.

    `weights` names the surrogates that are asked, by number; each of them costs one forward and one backward pass, the
    others nothing. A value is `Weights(logits=(K,), features=(F,))`, either of them None, or (m, K) and (m, F) for m
    gradients by m backward passes behind one forward pass; or a function that makes such weights of the `Seen` at x,
    so that a surrogate's own margin, say, needs no look first.

    `soft=True` asks for a gradient that is not quite the surrogate's own and holds for other networks more often
    (`dowse.surrogates.softened`); a surrogate that has none gives its own.

    Returns:
        What each surrogate asked says at x, by number, with `gradient`, (*s) or (m, *s).
    """
    seen: dict[int, Seen] = yield Pull(x, weights, soft)
    return seen


def opening() -> Flow[Opening]:
    """Ask for the answer about the unchanged image, its label and the class wanted: free, for it is paid already."""
    known: Opening = yield Begin()
    return known


def note(**values: float) -> Flow[None]:
    """Leave named numbers for traces and figures: free."""
    yield Note(values)
