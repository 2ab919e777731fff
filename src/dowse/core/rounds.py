"""Whose questions are asked next, so that few passes of a network are filled up with copies."""

from collections.abc import Sequence
from typing import NamedTuple

from dowse.core.conversation import Conversation
from dowse.core.flow import Look, PriorAt, Pull, Query
from dowse.core.oracle import Oracle
from dowse.core.packing import fill
from dowse.core.prior import Prior

NO_COPIES = 0.999  # the fill of passes of any size: they come after full ones


class Kind(NamedTuple):
    """Which questions are asked in passes together.

    Attributes:
        surrogate: Whether the surrogates answer; the target otherwise.
        gradient: Whether a gradient is wanted.
        pass_size: How many rows a pass is filled up to: 1 for those that need no company, 0 for those of any size.
    """

    surrogate: bool
    gradient: bool
    pass_size: int


def next_round(active: Sequence[Conversation], oracle: Oracle, prior: Prior | None) -> tuple[Kind, list[Conversation]]:
    """Whose questions come next: those of the kind that fills its passes best, the surrogates' first among equals.

    A target that takes passes of any size is asked before a surrogate whose passes would have copies in them, unless it
    is far away, where each call is waited for: then it is asked last, about all there is. Nobody is told anything else
    for having waited; what waits for company is asked without it when all wait.
    """
    rounds: dict[Kind, list[Conversation]] = {}
    for conversation in active:
        rounds.setdefault(_kind(conversation, oracle, prior), []).append(conversation)
    rows = {kind: sum(1 if kind.surrogate else c.cost for c in asking) for kind, asking in rounds.items()}
    any_size = 0.0 if oracle.target.remote else NO_COPIES

    def order(kind: Kind) -> tuple[float, bool]:
        return fill(rows[kind], kind.pass_size) if kind.pass_size else any_size, kind.surrogate

    chosen = max(rounds, key=order)
    return chosen, rounds[chosen]


def _kind(conversation: Conversation, oracle: Oracle, prior: Prior | None) -> Kind:
    question = conversation.question
    if isinstance(question, Query):
        return Kind(False, question.gradient, oracle.pass_size(question.points, conversation.cost))
    assert isinstance(question, PriorAt | Look | Pull)
    return Kind(True, not isinstance(question, Look), 1 if prior is None else prior.pass_size(question))
