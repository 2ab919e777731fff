"""The scheduler: holds many conversations at once, charges before it asks, and ends who succeeded or cannot pay."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from dowse.core.asked import Reserve
from dowse.core.conversation import Conversation, Rules
from dowse.core.ending import asked_again, judged, last_inside, outcome_of
from dowse.core.flow import Begin, Look, Note, PriorAt, Pull, Query
from dowse.core.gate import Gate
from dowse.core.ledger import Ledger
from dowse.core.observers import AnswerLog, Observer, Progress
from dowse.core.oracle import Oracle
from dowse.core.outcome import End, Outcome
from dowse.core.overlap import Overlap, Replies
from dowse.core.packing import AT_ONCE
from dowse.core.prior import Prior, answer_all
from dowse.core.reply import Reply, Request
from dowse.core.rounds import next_round
from dowse.core.seeds import row_seeds
from dowse.core.task import Task
from dowse.errors import InputError


def drive(
    tasks: Iterable[Task],
    rules: Rules,
    oracle: Oracle,
    prior: Prior | None = None,
    *,
    concurrency: int = AT_ONCE,
    observers: Sequence[Observer] = (),
    log: AnswerLog | None = None,
) -> Generator[Outcome, None, None]:
    """Attack tasks by the rules, `concurrency` at a time, and yield each outcome as it comes.

    Every round gathers the questions of one kind of all conversations, charges the ledger, asks once and sends the
    answers back. Surrogates come first, so that all ask the target together. Where passes are filled up with copies
    (`dowse.core.packing`) questions wait for others to share one, as long as anybody can go on without. As a task ends
    the next one enters, so batches stay full and memory does not grow with the number of tasks. What a log recalls is
    charged and judged like any other answer, and the target never sees it.

    A target that answers several calls at once (`Target.calls_at_once`) is not asked in rounds: a question is handed
    over as it comes, and its image goes on when its own answer is there.
    """
    return _Driver(rules, oracle, prior, concurrency, observers, log).run(iter(tasks))


class _Driver:
    def __init__(
        self,
        rules: Rules,
        oracle: Oracle,
        prior: Prior | None,
        concurrency: int,
        observers: Sequence[Observer],
        log: AnswerLog | None,
    ) -> None:
        self.rules, self.oracle, self.prior, self.log = rules, oracle, prior, log
        self.concurrency, self.observers = concurrency, observers
        self.gate = Gate(oracle)
        self.ledger = Ledger()
        self.active: list[Conversation] = []
        self.done = self.fooled = self.queries = 0

    def run(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        target = self.oracle.target
        overlapping = target.calls_at_once > 1 and target.detector is None  # which remembers queries in their order
        return self._overlapping(tasks) if overlapping else self._rounds(tasks)

    def _rounds(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        while True:
            yield from self._admit(tasks)
            if not self.active:
                return
            kind, asking = next_round(self.active, self.oracle, self.prior)
            if kind.surrogate:
                yield from self._ask_prior(asking)
            else:  # while answers are recalled, others wait
                payers = yield from self._payers(asking)
                yield from self._hear(self._recalled(payers) or self._asked(payers))
            self._progressed()

    def _overlapping(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        """The target is asked first, so that it never waits for a surrogate; waits only when nobody can go on."""
        with Overlap(self.oracle, None if self.log is None else self._kept) as under_way:
            while True:
                yield from self._admit(tasks)
                if not self.active:
                    return
                done, free = self.done, [one for one in self.active if one not in under_way]
                yield from self._hand_over([one for one in free if isinstance(one.question, Query)], under_way)
                if asking := [one for one in free if not isinstance(one.question, Query)]:
                    yield from self._ask_prior(next_round(asking, self.oracle, self.prior)[1])
                stuck = self.done == done and all(map(under_way.waits, self.active))
                yield from self._hear(self._kept(under_way.arrived(wait=stuck)))
                self._progressed()

    def _progressed(self) -> None:
        for observer in self.observers:
            observer.progressed(Progress(self.done, self.fooled, len(self.active), self.queries))

    def _admit(self, tasks: Iterator[Task]) -> Iterator[Outcome]:
        while len(self.active) < self.concurrency and (task := next(tasks, None)) is not None:
            self.ledger.open(task.index, self.rules.budget)
            conversation = Conversation(task, self.rules, self.gate.memory())
            self.active.append(conversation)
            yield from self._advance(conversation, None)

    def _hand_over(self, asking: Sequence[Conversation], under_way: Overlap) -> Iterator[Outcome]:
        """Whoever can pay and recalls no answer is charged and asked for; the first answers of a run are waited for."""
        payers = yield from self._payers(asking)
        recalled = self._recalled(payers)
        told = [conversation for conversation, _ in recalled]
        new = [one for one in payers if one not in told and self._can_pay(one)]
        if self.oracle.on_first_answers is not None and new:
            recalled += self._asked(new)
        elif new and under_way.has_room:
            under_way.hand_over(new, self._charged(new), self._reserve)
        yield from self._hear(recalled)

    def _payers(self, asking: Sequence[Conversation]) -> Generator[Outcome, None, list[Conversation]]:
        """Who can pay for the question; the others end."""
        payers: list[Conversation] = []
        for conversation in asking:
            if self._can_pay(conversation):
                payers.append(conversation)
            else:
                yield self._end(conversation, End.BUDGET)
        return payers

    def _hear(self, replies: Replies) -> Iterator[Outcome]:
        """Everyone hears the answer to the own question, and ends with it or goes on."""
        for (conversation, reply), inside in zip(replies, last_inside(replies, self.rules), strict=True):
            for observer in self.observers:
                observer.answered(conversation.task, conversation.query, reply)
            end = judged(conversation, reply, inside=inside, blocks=self.gate.ends)
            if end is not None:
                yield self._end(conversation, end, cause=reply.cause)
            else:
                yield from self._advance(conversation, reply.answer)

    def _asked(self, payers: Sequence[Conversation]) -> Replies:
        """Ask the target everyone's question; the answers are in the log before anybody hears one."""
        payers = [conversation for conversation in payers if self._can_pay(conversation)]
        replies = self.gate.ask(payers, self._charged(payers), self._reserve)
        return self._kept(list(zip(payers, replies, strict=True)))

    def _charged(self, payers: Sequence[Conversation]) -> list[Request]:
        """The requests of conversations, charged before anything is sent."""
        for conversation in payers:
            self.ledger.charge(conversation.task.index, conversation.cost)
        return [self._request(conversation) for conversation in payers]

    def _kept(self, replies: Replies) -> Replies:
        """Answers, settled and in the log."""
        for conversation, reply in replies:
            self._settle(conversation, reply)
            if self.log is not None:
                self.log.record(conversation.task, conversation.query, reply)
        if self.log is not None and replies:
            self.log.commit()
        return replies

    def _reserve(self, asking: Sequence[Conversation]) -> Reserve | None:
        """What the oracle calls before it hands over rows of these conversations, for the log to remember."""
        if (log := self.log) is None:
            return None
        return lambda rows: log.reserve([(c.task, n) for c, n in zip(asking, rows, strict=True) if n])

    def _recalled(self, payers: Sequence[Conversation]) -> Replies:
        """The answers among the payers' that were paid for before."""
        if self.log is None:
            return []
        replies: Replies = []
        for conversation in payers:
            task = conversation.task
            while self._can_pay(conversation):
                reply = self.log.recall(task, conversation.query)
                if reply is None:
                    break
                self.ledger.charge(task.index, conversation.cost)
                self._settle(conversation, reply)
                self.gate.heard_again(conversation, reply)
                if reply.answer is not None or reply.refused is not None:
                    replies.append((conversation, reply))
                    break
        return replies

    def _can_pay(self, conversation: Conversation) -> bool:
        return conversation.cost <= self.ledger.remaining(conversation.task.index)

    def _settle(self, conversation: Conversation, reply: Reply) -> None:
        charged = conversation.cost
        self.queries += reply.answered
        self.ledger.settle(
            conversation.task.index, charged=charged, answered=reply.answered, sent=reply.sent,
            refused=reply.refusals, first=reply.first_refusal,
        )  # fmt: skip

    def _request(self, conversation: Conversation) -> Request:
        task, query = conversation.task, conversation.query
        seeds = None
        if self.oracle.takes_row_seeds:
            first = self.ledger.account(task.index).queries
            seeds = row_seeds(self.rules.seed, task.id, first, conversation.cost, target=self.rules.target)
        return Request(query.points, conversation.goal, seeds, query.gradient, self.rules.repeats)

    def _ask_prior(self, asking: Sequence[Conversation]) -> Iterator[Outcome]:
        """One round of the surrogates: all who wait on them are answered at once."""
        if self.prior is None:
            raise InputError(f"method {self.rules.method!r} asks for a surrogate's gradient: give surrogate=")
        first = asking[0].first
        if first is not None and first.scores.shape[1]:  # of an older store's log it has none
            self.prior.expect(first.scores.shape[1])  # not every target tells its classes before it is asked
        asked = [c.question for c in asking if isinstance(c.question, PriorAt | Look | Pull)]
        answers = answer_all(self.prior, asked, [c.goal for c in asking], [c.turns for c in asking])
        for conversation, question, answer in zip(asking, asked, answers, strict=True):
            conversation.turns += not isinstance(question, Look)  # so a look and the pull after it see one draw
            yield from self._advance(conversation, answer)

    def _advance(self, conversation: Conversation, value: Any) -> Iterator[Outcome]:
        """Send an answer, hand on notes, say how it began, and stop at the next question that needs somebody else."""
        finished, returned = conversation.send(value)
        while not finished and isinstance(question := conversation.question, Note | Begin):
            if isinstance(question, Begin):
                surrogates = 0 if self.prior is None else len(self.prior.surrogates)
                known = conversation.known(self.oracle.objective, surrogates)
                finished, returned = conversation.send(known)
                continue
            for observer in self.observers:
                observer.noted(conversation.task, dict(question.values))
            finished, returned = conversation.send(None)
        if finished:
            yield self._end(conversation, End.EXHAUSTED, value=returned)

    def _end(
        self, conversation: Conversation, end: End, *, cause: Exception | None = None, value: Any = None
    ) -> Outcome:
        conversation.flow.close()
        self.active.remove(conversation)
        verified = 0
        if end is End.ADVERSARIAL and self.rules.verify:
            verified, sent = asked_again(conversation, self.oracle, self._reserve([conversation]))
            self.ledger.settle(conversation.task.index, charged=0, answered=0, sent=sent)
        account = self.ledger.close(conversation.task.index)
        outcome = outcome_of(conversation, end, account, verified=verified, cause=cause, value=value)
        self.done += 1
        self.fooled += outcome.success
        for observer in self.observers:
            observer.ended(outcome)
        return outcome
