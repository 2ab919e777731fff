"""How a conversation ends: what an answer decides about it, and the outcome that is left of it."""

import warnings
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from dowse.core.asked import Reserve
from dowse.core.conversation import Accept, Conversation, Rules
from dowse.core.flow import Answer
from dowse.core.ledger import Account
from dowse.core.oracle import Oracle
from dowse.core.outcome import End, Outcome
from dowse.core.reply import Reply, Request
from dowse.core.seeds import row_seeds
from dowse.maths.geometry import copies_inside


def last_inside(replies: Sequence[tuple[Conversation, Reply]], rules: Rules) -> list[Tensor | None]:
    """Copies of the last rows that were answered about iterates and lie in the ball, (*s); found all at once."""
    inside: list[Tensor | None] = [None] * len(replies)
    if rules.accept is not Accept.NEVER:
        told = [
            (place, one.query.points[row], one.task.x)
            for place, (one, reply) in enumerate(replies)
            if one.query.candidate and not one.opening and (row := reply.last) is not None
        ]
        copies = copies_inside(rules.ball, [point for _, point, _ in told], [x0 for *_, x0 in told])
        for (place, *_), copy in zip(told, copies, strict=True):
            inside[place] = copy
    return inside


def judged(conversation: Conversation, reply: Reply, *, inside: Tensor | None, blocks: bool) -> End | None:
    """Look for an end in an answer; None if the conversation goes on.

    Args:
        conversation: Whose question was answered; the best iterate is remembered in it.
        reply: The answer.
        inside: A copy of its last row, if that is an iterate in the ball.
        blocks: Whether a refused query ends the account.
    """
    if reply.answer is None:
        return End.TARGET_FAILED if reply.refused is None else End.DETECTED
    if not reply.finite:
        return End.NONFINITE
    if conversation.opening:
        end = _opened(conversation, reply, reply.answer)
    else:
        end = End.ADVERSARIAL if _found(conversation, reply, reply.answer, inside) else None
    return End.DETECTED if end is None and blocks and reply.refused is not None else end


def _opened(conversation: Conversation, reply: Reply, answer: Answer) -> End | None:
    """The answer about the unchanged image: what is known from now on, and whether there is anything to attack."""
    task = conversation.task
    conversation.opening, conversation.first = False, answer
    conversation.loss = float(answer.loss[0])
    conversation.label = reply.predicted if task.label is None else task.label
    already_wrong = reply.predicted != conversation.label or reply.predicted == task.target_label
    return End.ALREADY_WRONG if already_wrong and conversation.rules.accept is not Accept.NEVER else None


def _found(conversation: Conversation, reply: Reply, answer: Answer, inside: Tensor | None) -> bool:
    """Look for success in an answer."""
    query, accept = conversation.query, conversation.rules.accept
    if accept is Accept.NEVER:
        return False
    last = reply.last if query.candidate else None
    if last is not None and inside is not None:
        conversation.remember(inside, answer, last)
    if query.candidate or accept is Accept.ANY:
        for row, adversarial in enumerate(answer.adversarial.tolist()):
            if adversarial and (inside is not None if row == last else conversation.remembers(answer, row)):
                return True
    return False


def asked_again(conversation: Conversation, oracle: Oracle, reserve: Reserve | None) -> tuple[int, int]:
    """How many of `verify` further answers about an adversarial image find it adversarial too, and the rows sent."""
    task, rules, n = conversation.task, conversation.rules, conversation.rules.verify
    points = conversation.iterate.detach().expand(n, *task.x.shape)
    seeds = row_seeds(rules.seed, task.id, 0, n, "verify", rules.target) if oracle.takes_row_seeds else None
    reply = oracle.ask([Request(points, conversation.goal, seeds)], reserve)[0]
    if reply.answer is None:
        warnings.warn(f"image {task.id} could not be verified: {reply.cause!r}", stacklevel=2)
        return 0, reply.sent
    return int((reply.answer.adversarial & reply.answer.scores.isfinite().all(1)).sum()), reply.sent


def outcome_of(
    conversation: Conversation, end: End, account: Account, *, verified: int, cause: Exception | None, value: Any
) -> Outcome:
    """What became of the image that a conversation, which is over, was about; `Outcome` says what each word means."""
    task, adversarial = conversation.task, conversation.iterate.detach().clone()  # no part of a round's copies
    return Outcome(
        index=task.index,
        id=task.id,
        end=end,
        queries=account.queries,
        sent=account.sent,
        budget=conversation.rules.budget,
        label=conversation.label,
        adversarial=adversarial,
        distance=float(conversation.rules.ball.distance(adversarial.unsqueeze(0), task.x)[0]),
        loss=conversation.loss,
        cause=cause,
        value=value,
        verified=verified,
        refused=account.refused,
        queries_until_detected=account.detected,
    )
