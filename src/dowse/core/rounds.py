"""Whose questions are asked next, so that few passes of a network are filled up with copies."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from dowse.core.conversation import Conversation
from dowse.core.flow import Look, PriorAt, Pull, Query
from dowse.core.oracle import Oracle
from dowse.core.packing import fill
from dowse.core.prior import Prior


class Turn(IntEnum):
    """When questions of a kind are asked; the greatest comes first."""

    FAR = 0  # of any number of rows, but each call is waited for: last, about all there is
    COPIES = 1  # in passes that would be filled up with copies, the fuller ones first
    ANY_SIZE = 2  # in passes of any size, which have no copies now and would have none later
    FULL = 3  # in passes that are full now, and may not be later


class RoundKind(NamedTuple):
    """Which questions are asked in passes together.

    Attributes:
        surrogate: Whether the surrogates answer; the target otherwise.
        gradient: Whether a gradient is wanted.
        pass_size: How many rows a pass is filled up to: 1 for those that need no company, 0 for those of any size.
    """

    surrogate: bool
    gradient: bool
    pass_size: int


def next_round(
    active: Sequence[Conversation], oracle: Oracle, prior: Prior | None
) -> tuple[RoundKind, list[Conversation]]:
    """Whose questions come next: those of the kind whose turn it is, the surrogates' first among equals.

    Nobody is told anything else for having waited; what waits for company is asked without it when all wait.
    """
    rounds: dict[RoundKind, list[Conversation]] = {}
    for conversation in active:
        rounds.setdefault(_kind(conversation, oracle, prior), []).append(conversation)

    def order(kind: RoundKind) -> tuple[Turn, float, bool]:
        rows = sum(1 if kind.surrogate else conversation.cost for conversation in rounds[kind])
        share = fill(rows, kind.pass_size)
        return _turn(kind, share, remote=oracle.target.remote), share, kind.surrogate

    chosen = max(rounds, key=order)
    return chosen, rounds[chosen]


def _turn(kind: RoundKind, share: float, *, remote: bool) -> Turn:
    """When a kind is asked, of whose rows a share are no copies."""
    if kind.pass_size:
        return Turn.FULL if share == 1 else Turn.COPIES
    return Turn.FAR if remote else Turn.ANY_SIZE


def _kind(conversation: Conversation, oracle: Oracle, prior: Prior | None) -> RoundKind:
    question = conversation.question
    if isinstance(question, Query):
        return RoundKind(False, question.gradient, oracle.pass_size(question.points, conversation.cost))
    assert isinstance(question, PriorAt | Look | Pull)
    return RoundKind(True, not isinstance(question, Look), 1 if prior is None else prior.pass_size(question))
