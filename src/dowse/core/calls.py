"""Calls of a target that are under way, each in a thread of its own, while the thread that began them goes on."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from time import perf_counter
from typing import Any

GLANCE = 0.1  # seconds between two looks at whether everything was given up

Work = Callable[[], Any]


@dataclass(eq=False)
class Call:
    """Work in a thread of its own; once it is over, `value` is what it returned or `error` what it raised."""

    work: Work
    value: Any = None
    error: BaseException | None = None


@dataclass(eq=False)
class _Wish:
    """Something that a call wants done in the thread that began it, and waits for."""

    work: Work
    error: Exception | None = None
    granted: threading.Event = field(default_factory=threading.Event)


class Calls:
    """The calls that one thread has begun, its home; they are taken up and their wishes granted there and nowhere else.

    Args:
        most: How many may be under way at once.
        threads: Where they are, if somebody else has some; None makes its own.

    Attributes:
        given_up: Set when nobody takes up any more what is under way.
    """

    def __init__(self, most: int, threads: ThreadPoolExecutor | None = None) -> None:
        self.most, self._borrowed = most, threads is not None
        self._under_way: set[Call] = set()
        self._over: list[Call] = []
        self._said: SimpleQueue[Call | _Wish] = SimpleQueue()
        self._threads, self._away = threads, threading.local()
        self.given_up = threading.Event()
        self._lock, self._working, self._since, self._worked = threading.Lock(), 0, 0.0, 0.0

    @property
    def room(self) -> int:
        """How many more may be begun now."""
        return self.most - len(self._under_way)

    @property
    def busy(self) -> float:
        """Seconds during which at least one was at work, or the home thread on its own."""
        with self._lock:
            return self._worked + (perf_counter() - self._since if self._working else 0.0)

    def begin(self, work: Work) -> Call:
        """Do something in a thread of its own."""
        self._threads = self._threads or ThreadPoolExecutor(self.most, thread_name_prefix="dowse-call")
        call = Call(work)
        self._under_way.add(call)
        self._threads.submit(self._run, call)
        return call

    def over(self, *, wait: bool) -> list[Call]:
        """The calls that are over and were not taken up yet; waits for one, if there are any and that is wanted."""
        while not self._said.empty() or (wait and self._under_way and not self._over):
            self._hear()
        taken, self._over = self._over, []
        return taken

    def do(self, work: Work) -> None:
        """Do something at once and wait for it.

        While calls are under way it is one of them, so that what they wish meanwhile is granted: they may hold what it
        needs, a connection for example.
        """
        if not self._under_way:
            with _Working(self):
                work()
            return
        call = self.begin(work)
        while call in self._under_way:
            self._hear()
        self._over.remove(call)
        if call.error is not None:
            raise call.error

    def all(self, works: Sequence[Work]) -> list[Any]:
        """What each of some works comes to, all of them at the same time; a single one is done here."""
        if len(works) == 1:
            return [works[0]()]
        begun = [self.begin(work) for work in works]
        while self._under_way:
            self._hear()
        self._over.clear()
        for call in begun:
            if call.error is not None:
                raise call.error
        return [call.value for call in begun]

    def at_home(self, work: Work) -> None:
        """Have something done in the home thread, from whichever this is called, and raise what it raises."""
        if not getattr(self._away, "yes", False):
            work()
            return
        wish = _Wish(work)
        self._said.put(wish)
        while not wish.granted.wait(GLANCE):
            if self.given_up.is_set():
                raise RuntimeError("the call was given up")
        if wish.error is not None:
            raise wish.error

    def give_up(self) -> None:
        """Nobody takes up what is under way: what has not begun never does, and who wishes something is refused."""
        self.given_up.set()
        if self._threads is not None and not self._borrowed:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, call: Call) -> None:
        self._away.yes = True
        try:
            with _Working(self):
                call.value = call.work()
        except BaseException as error:  # whatever it is, it is raised at home
            call.error = error
        self._said.put(call)

    def _hear(self) -> None:
        """Wait until a call is over or wishes something, which is granted."""
        said = self._said.get()
        if isinstance(said, Call):
            self._under_way.remove(said)
            self._over.append(said)
            return
        try:
            said.work()
        except Exception as error:
            said.error = error
        said.granted.set()


class _Working:
    """Counts the time in which anybody works."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def __enter__(self) -> None:
        with self.calls._lock:
            if not self.calls._working:
                self.calls._since = perf_counter()
            self.calls._working += 1

    def __exit__(self, *error: object) -> None:
        with self.calls._lock:
            self.calls._working -= 1
            if not self.calls._working:
                self.calls._worked += perf_counter() - self.calls._since
