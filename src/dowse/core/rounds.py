"""Whose questions are asked next, so that few passes of a network are filled up with copies."""

from collections.abc import Sequence
from typing import NamedTuple

from dowse.core.conversation import Conversation
from dowse.core.flow import Look, PriorAt, Pull, Query
from dowse.core.oracle import Oracle
from dowse.core.packing import fill
from dowse.core.prior import Prior


class Kind(NamedTuple):
    """Which questions are asked in passes together.

    Attributes:
        surrogate: Whether the surrogates answer; the target otherwise.
        gradient: Whether a gradient is wanted.
        pass_size: How many rows a pass is filled up to: 1 for those that need no company, 0 for those that want all
            there is.
    """

    surrogate: bool
    gradient: bool
    pass_size: int


def next_round(active: Sequence[Conversation], oracle: Oracle, prior: Prior | None) -> tuple[Kind, list[Conversation]]:
    """Whose questions come next: those of the kind that fills its passes best, the surrogates' first among equals.

    Nobody is told anything else for having waited; what waits for company is asked without it when all wait.
    """
    rounds: dict[Kind, list[Conversation]] = {}
    for conversation in active:
        rounds.setdefault(_kind(conversation, oracle, prior), []).append(conversation)
    rows = {kind: sum(1 if kind.surrogate else c.cost for c in asking) for kind, asking in rounds.items()}
    chosen = max(rounds, key=lambda kind: (fill(rows[kind], kind.pass_size), kind.surrogate))
    return chosen, rounds[chosen]


def _kind(conversation: Conversation, oracle: Oracle, prior: Prior | None) -> Kind:
    question = conversation.question
    if isinstance(question, Query):
        return Kind(False, question.gradient, oracle.pass_size(question.points, conversation.cost))
    assert isinstance(question, PriorAt | Look | Pull)
    return Kind(True, not isinstance(question, Look), 1 if prior is None else prior.pass_size(question))
