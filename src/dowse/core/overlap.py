"""Questions that are with the target while other images go on: for targets that answer several calls at once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from dowse.core.asked import Asked
from dowse.core.calls import Call
from dowse.core.conversation import Conversation
from dowse.core.flow import Query
from dowse.core.gate import ReserveFor
from dowse.core.oracle import Oracle
from dowse.core.reply import Reply, Request

Replies = list[tuple[Conversation, Reply]]


@dataclass(eq=False)
class _Group:
    """Questions that travel together, the pieces in which they do, a call each, and how many are still under way."""

    asking: Sequence[Conversation]
    asked: Asked
    pieces: Sequence[Asked]
    left: int

    def whole(self) -> Asked:
        """What was asked, with what has come of it."""
        if len(self.pieces) > 1:
            self.asked.join(self.pieces)
        return self.asked


class Overlap:
    """The questions of several images that are under way at once, each image's own answer taken up as it comes.

    Where more images wait than calls may be begun, they share those: nobody waits for a free one while others' rows
    could travel together. Where fewer do, the passes of one question are spread over the calls that are left.

    As a context it leaves nothing behind. Where answers are kept, those under way are waited for and kept too, however
    it is left, unless at once (KeyboardInterrupt): they are paid for.

    Args:
        oracle: Whom to ask.
        keep: Keeps answers for good, before anybody hears of them; None keeps none.
    """

    def __init__(self, oracle: Oracle, keep: Callable[[Replies], object] | None) -> None:
        self.oracle, self._keep = oracle, keep
        self._asking: dict[Call, _Group] = {}
        self._waiting: set[Conversation] = set()
        self._unheard: Replies = []

    def __contains__(self, conversation: Conversation) -> bool:
        return conversation in self._waiting

    def waits(self, conversation: Conversation) -> bool:
        """Whether nothing can be done about a conversation until an answer comes, to it or to others."""
        return conversation in self._waiting or (not self.has_room and isinstance(conversation.question, Query))

    @property
    def has_room(self) -> bool:
        """Whether another call may be begun now."""
        return self.oracle.calls.room > 0

    def hand_over(self, asking: Sequence[Conversation], requests: Sequence[Request], reserve: ReserveFor) -> None:
        """Begin as many calls as there is room for, the conversations spread over them.

        Args:
            asking: Whose questions they are.
            requests: What each asks; all are charged.
            reserve: What is told before rows of some conversations are handed over, at first of all together.
        """
        if (tell := reserve(asking)) is not None:
            tell([len(request.points) * request.repeats for request in requests])
        calls = max(1, self.oracle.calls.room // len(asking))
        for part in _spread(len(asking), self.oracle.calls.room):
            asked = Asked.of(requests[part], self.oracle.at_home(reserve(asking[part])), told=True)
            pieces = self.oracle.pieces(asked, calls)
            group = _Group(asking[part], asked, pieces, len(pieces))
            self._asking |= {self.oracle.calls.begin(_sending(self.oracle, piece)): group for piece in pieces}
            self._waiting.update(asking[part])

    def arrived(self, *, wait: bool) -> Replies:
        """The answers that have come by now; waits for one if that is wanted and any is under way."""
        calls = self.oracle.calls.over(wait=wait)
        there = []
        for call in calls:
            group = self._asking.pop(call)
            group.left -= call.error is None  # a group that lost a piece is never whole
            if group.left == 0:
                there.append(group)
        self._waiting.difference_update(*(group.asking for group in there))
        replies = self.oracle.replies([group.whole() for group in there])
        heard = list(zip([one for group in there for one in group.asking], replies, strict=True))
        for call in calls:
            if call.error is not None:
                self._unheard += heard
                raise call.error
        return heard

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._keep is not None and (error is None or isinstance(error, Exception | GeneratorExit)):
                self._keep_rest(self._keep)
        finally:
            self.oracle.give_up()

    def _keep_rest(self, keep: Callable[[Replies], object]) -> None:
        """Wait for all that is under way and keep it; whoever is told may want to stop, which is what happens."""
        while self._asking:
            with suppress(Exception):
                self._unheard += self.arrived(wait=True)
        with suppress(Exception):
            if self._unheard:
                keep(self._unheard)


def _spread(n: int, room: int) -> Iterator[slice]:
    """n in as many parts as there is room for, in order, of sizes that differ by one at most."""
    parts = min(n, room)
    return (slice(n * part // parts, n * (part + 1) // parts) for part in range(parts))


def _sending(oracle: Oracle, asked: Asked) -> Callable[[], None]:
    return lambda: oracle.send_all(asked)
