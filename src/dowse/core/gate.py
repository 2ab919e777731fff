"""Between the conversations and the oracle: where a service remembers queries, it is here that some are refused."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dowse.core.asked import Reserve
from dowse.core.conversation import Conversation, Heard
from dowse.core.detection import Memory, Shown
from dowse.core.flow import Answer
from dowse.core.oracle import Oracle
from dowse.core.reply import Reply, Request

ReserveFor = Callable[[Sequence[Conversation]], Reserve | None]


class Gate:
    """Asks the oracle what a target's detector lets pass, and fills in what it refuses.

    A refused row is handed over, is a query, and has no scores. Where the attack goes on it hears of such a row what it
    heard of its last iterate: that nothing changed, and that it is not adversarial. Any attack can go on with that: a
    finite difference is zero, a candidate is no improvement, for its f is the next number below.

    Without a detector it is the oracle.
    """

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.detector = oracle, oracle.target.detector
        self._of_the_run = None if self.detector is None else Memory(self.detector)

    @property
    def ends(self) -> bool:
        """Whether a refusal ends its image."""
        return self.detector is not None and self.detector.then == "end"

    def memory(self) -> Memory | None:
        """The memory of a conversation that begins: its own, or the run's."""
        if self.detector is None or self.detector.account == "run":
            return self._of_the_run
        return Memory(self.detector)

    def ask(self, asking: Sequence[Conversation], requests: Sequence[Request], reserve: ReserveFor) -> list[Reply]:
        """The oracle's replies to rows that pass, and refusals; what fails behind the detector is not remembered."""
        if self.detector is None:
            return self.oracle.ask(requests, reserve(asking))
        shown = [_shown(conversation, request) for conversation, request in zip(asking, requests, strict=True)]
        passing = [_passing(request, one) for request, one in zip(requests, shown, strict=True)]
        places = [place for place, request in enumerate(passing) if len(request.points)]
        sent = self.oracle.ask([passing[place] for place in places], reserve([asking[place] for place in places]))
        replies = dict(zip(places, sent, strict=True))
        found = []
        for place, (conversation, request, one) in enumerate(zip(asking, requests, shown, strict=True)):
            reply = replies.get(place) or Reply(None, request.label, 0, 0, None)
            if one is not None and conversation.memory is not None:
                if reply.cause is not None:
                    conversation.memory.forget(one)
                elif one.refused.any():
                    reply = _completed(reply, one, conversation.heard, candidate=conversation.query.candidate)
            conversation.hear(reply)
            found.append(reply)
        return found

    def heard_again(self, conversation: Conversation, reply: Reply) -> None:
        """A logged answer was replayed: the account's memory is as it was after that question."""
        if conversation.memory is not None and reply.cause is None and _told(reply):
            conversation.memory.show(conversation.query.points[: reply.answered])
        conversation.hear(reply)


def _told(reply: Reply) -> bool:
    """Whether a question was answered or refused; one that failed was neither."""
    return reply.answer is not None or reply.refused is not None


def _shown(conversation: Conversation, request: Request) -> Shown | None:
    return None if conversation.memory is None else conversation.memory.show(request.points)


def _passing(request: Request, shown: Shown | None) -> Request:
    """The rows of a request that are not refused, each with its own seed."""
    if shown is None or not shown.refused.any():
        return request
    kept = ~shown.refused
    seeds = None if request.seeds is None else request.seeds[kept]
    return Request(request.points[kept.to(request.points.device)], request.label, seeds)


def _completed(reply: Reply, shown: Shown, heard: Heard | None, *, candidate: bool) -> Reply:
    """A reply about the rows that passed as one about all rows; nothing is known where the first query is refused."""
    refusals = int(shown.refused[: shown.asked].sum())
    counted = reply._replace(
        sent=reply.sent + refusals, answered=reply.answered + refusals, refused=shown.refused, answer=None
    )
    if heard is None:
        return counted
    kept, n = ~shown.refused, len(shown.refused)
    told = math.nextafter(heard.loss, -math.inf) if candidate else heard.loss  # no tie, which moves some attacks
    loss, adversarial = torch.full((n,), told, dtype=torch.float64), torch.zeros(n, dtype=torch.bool)
    scores = heard.scores.repeat(n, 1)
    if (answer := reply.answer) is not None:
        loss[kept], adversarial[kept] = answer.loss, answer.adversarial
        scores = _with_width(scores, answer.scores.shape[1])
        scores[kept] = answer.scores
    return counted._replace(answer=Answer(loss, adversarial, scores))


def _with_width(scores: Tensor, classes: int) -> Tensor:
    """Scores, (n, K); of a method that reads none a log keeps none, so nobody misses those of an answer replayed."""
    return scores if scores.shape[1] == classes else scores.new_zeros(len(scores), classes)
