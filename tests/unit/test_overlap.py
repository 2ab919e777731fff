"""A target that answers several calls at once: nobody waits for another image, and nothing else changes.

No test depends on wall time: answers come in an order that the target decides, by what it was asked before.
"""

import threading
from collections import Counter as Count
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import dowse
from dowse.core.calls import Calls
from dowse.core.oracle import Oracle
from dowse.core.outcome import End
from dowse.core.reply import Request
from dowse.core.result import Result
from dowse.core.target import Delivery, Target
from dowse.errors import InputError
from dowse.experiment.file import make_experiment
from dowse.maths.losses import Objective
from dowse.running.engines import LocalEngine
from dowse.running.interrupt import Interrupt
from dowse.running.progress import Reporter, Snapshot
from dowse.running.run_experiment import run_experiment
from dowse.store import Store
from dowse.store.events import Stopped
from tests.support import Noisy, Tanh, attack_anyway, labels_of, pictures
from tests.victims import ROWS, image_file, rows_seen, tables

NET = Tanh(0)
SURROGATE = Tanh(1, near=NET)
X = pictures(6)
Y = labels_of(NET, X)
LONG = 20.0  # seconds after which a test that waits has failed


class Served(Target):
    """Answers up to `calls_at_once` calls together; keeps its books by the image that a row is nearest to."""

    def __init__(self, calls_at_once: int = 6, net: Any = NET) -> None:
        self.calls_at_once, self.net = calls_at_once, net
        self.takes_row_seeds = getattr(net, "takes_row_seeds", False)
        self.lock, self.rows, self.calls = threading.Condition(), Count[int](), Count[int]()
        self.now = self.most = 0

    def __call__(self, points: Tensor, seeds: Tensor | None = None) -> Tensor:
        if not len(points):
            return torch.empty(0, 4)
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            return self.answer(points, seeds)
        finally:
            with self.lock:
                self.now -= 1

    def answer(self, points: Tensor, seeds: Tensor | None) -> Tensor:
        with self.lock:
            owners = whose(points)
            self.rows.update(owners)
            self.calls.update(set(owners))
            self.lock.notify_all()
        scores: Tensor = self.net(points) if seeds is None else self.net(points, seeds=seeds)
        return scores


def whose(points: Tensor) -> list[int]:
    return (points.unsqueeze(1) - X).flatten(2).norm(dim=2).argmin(1).tolist()


class Slow(Served):
    """Keeps the second question about image 0 until the other images have asked ten times each."""

    def answer(self, points: Tensor, seeds: Tensor | None) -> Tensor:
        if whose(points) == [0] * len(points) and self.calls[0] == 1:
            with self.lock:
                enough = self.lock.wait_for(lambda: all(self.calls[i] >= 10 for i in range(1, 6)), LONG)
            assert enough, "the other images waited for this one"
        return super().answer(points, seeds)


def waiting(reached: threading.Event, until: threading.Event) -> None:
    reached.set()
    assert until.wait(LONG)


def attack(target: Any, **more: Any) -> Result:
    said = {"method": "rgf", "q": 3, "eps": 0.02, "budget": 50, "concurrency": 6}
    return attack_anyway(target, X, Y, **(said | more))


def same(one: Result, other: Result) -> bool:
    return (
        one.end == other.end
        and torch.equal(one.queries, other.queries)
        and torch.equal(one.sent, other.sent)
        and torch.equal(one.adversarial, other.adversarial)
    )


def test_a_slow_image_does_not_hold_up_the_others() -> None:
    assert same(attack(Slow(), eps=0.001, budget=40), attack(NET, eps=0.001, budget=40))


@pytest.mark.parametrize("method", ["rgf", "prgf", "square", "gfcs", "bandits"])
@pytest.mark.parametrize(("calls", "concurrency"), [(2, 6), (6, 3)])
def test_results_and_counts_are_those_of_rounds(method: str, calls: int, concurrency: int) -> None:
    more = {"method": method, "eps": 0.2, "budget": 40, "concurrency": concurrency, "surrogate": SURROGATE}
    if method not in ("rgf", "prgf"):
        more["q"] = None
    more = {name: value for name, value in more.items() if value is not None}
    said = {"eps": 0.2} | more
    target = Served(calls)
    overlapping = attack_anyway(target, X, Y, **said)
    assert same(overlapping, attack_anyway(NET, X, Y, **said))
    assert [target.rows[i] for i in range(6)] == overlapping.sent.tolist()
    assert target.most <= calls


def test_noise_is_drawn_from_the_image_and_not_from_the_order() -> None:
    noisy = Noisy(NET, 0.05)
    said = {"repeats": 2, "verify": 3, "eps": 0.3}
    assert same(attack(Served(net=noisy), **said), attack(noisy, **said))


PASS = 8
LONE = {"q": 4 * PASS, "eps": 0.001, "budget": 70, "concurrency": 1, "batch_size": PASS}


class Side(Served):
    """A network of this process; with two calls no pass of probes is answered before another one is under way."""

    steady = exact = True

    def __init__(self, calls_at_once: int, failing: int = 0) -> None:
        super().__init__(calls_at_once)
        self.passes, self.failing, self.met = Count[int](), failing, threading.Barrier(calls_at_once)

    def answer(self, points: Tensor, seeds: Tensor | None) -> Tensor:
        scores = super().answer(points, seeds)
        with self.lock:
            self.passes[len(points)] += 1
            number = self.passes[PASS]
        if len(points) == PASS:
            self.met.wait(LONG)
            if number == self.failing:
                raise MemoryError("no room for this pass")
        return scores


def test_the_passes_of_a_lone_question_are_spread_over_the_calls() -> None:
    together, in_turn = Side(2), Side(1)
    assert same(attack(together, **LONE), attack(in_turn, **LONE))
    assert together.passes == in_turn.passes
    assert together.passes[PASS] > len(X)


def test_a_piece_that_fails_ends_its_image_and_all_that_was_sent_counts() -> None:
    target = Side(2, failing=3)
    result = attack(target, **LONE)
    assert [end is End.TARGET_FAILED for end in result.end] == [True] + [False] * 5
    assert "no room for this pass" in str(result.outcomes[0].cause)
    assert result.sent.tolist() == [target.rows[i] for i in range(6)]


def test_images_that_wait_share_the_calls_there_are() -> None:
    """Six images and two calls: rows travel together rather than wait for a free one."""
    sizes: list[int] = []

    class Sizes(Served):
        def answer(self, points: Tensor, seeds: Tensor | None) -> Tensor:
            sizes.append(len(set(whose(points))))
            return super().answer(points, seeds)

    attack(Sizes(2))
    assert max(sizes[1:]) >= 3
    assert sum(sizes) / len(sizes) > 1.5


def test_more_images_than_slots_enter_as_others_end() -> None:
    assert same(attack(Served(3), concurrency=2), attack(NET, concurrency=2))


class Dead(Served):
    """Fails on the third question about image 2 and on every one about image 4 after its first."""

    def answer(self, points: Tensor, seeds: Tensor | None) -> Tensor:
        scores = super().answer(points, seeds)
        owners = set(whose(points))
        if (2 in owners and self.calls[2] == 3) or (4 in owners and self.calls[4] > 1):
            raise ConnectionError("nobody listens")
        return scores


def test_what_fails_ends_its_own_image_and_counts() -> None:
    target = Dead()
    result, plain = attack(target), attack(NET)
    assert [end is End.TARGET_FAILED for end in result.end] == [False, False, True, False, True, False]
    assert [target.rows[i] for i in range(6)] == result.sent.tolist()
    for i in (0, 1, 3, 5):
        assert result.queries[i] == plain.queries[i]
        assert torch.equal(result.adversarial[i], plain.adversarial[i])
    assert result.queries.tolist()[2] == 1 + 3
    assert result.queries.tolist()[4] == 1


def test_a_method_that_fails_leaves_no_thread_waiting() -> None:
    def broken(progress: Any) -> None:
        if progress.queries > 30:
            raise ValueError("an observer's own fault")

    with pytest.raises(ValueError, match="own fault"):
        dowse.attack(Served(), X, Y, method="rgf", q=3, eps=0.02, budget=90, on_progress=broken)


def test_a_stream_can_be_left_while_answers_are_under_way() -> None:
    target = Served()
    outcomes = dowse.stream(target, list(zip(X, Y.tolist(), strict=True)), method="rgf", q=3, eps=0.3, budget=90)
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert not attack(target, eps=0.3).queries.eq(0).any(), "the same target can be asked again"


def test_a_number_of_calls_that_is_none_is_refused() -> None:
    def target(x: Tensor) -> Tensor:
        return NET(x)

    target.calls_at_once = 0  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="calls_at_once"):
        dowse.attack(target, X, Y, method="rgf")


class Resends(Served):
    """Hands every row over twice, and says so."""

    def tell_resends(self, tell: Any) -> None:
        self.tell = tell

    def deliver(self, points: Tensor, seeds: Tensor | None = None) -> Delivery:
        self.tell(slice(0, len(points)))
        n = len(points)
        return Delivery(self(points, seeds), torch.full((n,), 2), torch.ones(n, dtype=torch.bool))


def test_what_is_sent_again_is_told_in_the_thread_that_asks() -> None:
    home, told = threading.get_ident(), []
    oracle = Oracle(Resends(), Objective())

    def reserve(rows: Any) -> None:
        assert threading.get_ident() == home
        told.append(list(rows))

    request = Request(X[:3], 0)
    assert oracle.ask([request], reserve)[0].sent == 6
    hold, reached = threading.Event(), threading.Event()
    other = oracle.calls.begin(lambda: waiting(reached, hold))
    assert reached.wait(LONG)
    assert oracle.ask([request], reserve)[0].sent == 6  # now in a thread, beside another
    hold.set()
    assert oracle.calls.over(wait=True) == [other]
    assert told == [[3]] * 4


def test_who_is_given_up_is_refused_what_it_wishes() -> None:
    calls, begun = Calls(2), threading.Event()
    causes: list[BaseException] = []

    def work() -> None:
        begun.set()
        try:
            calls.at_home(lambda: None)
        except RuntimeError as error:
            causes.append(error)
        done.set()

    done = threading.Event()
    calls.begin(work)
    assert begun.wait(LONG)
    calls.give_up()
    assert done.wait(LONG)
    assert "given up" in str(causes[0])


def test_what_a_call_raises_is_raised_by_whoever_waits_for_it() -> None:
    calls, hold = Calls(2), threading.Event()
    calls.begin(lambda: waiting(threading.Event(), hold))

    def fail() -> None:
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        calls.do(fail)
    hold.set()
    assert len(calls.over(wait=True)) == 1
    assert calls.over(wait=True) == []


# in a store


def served(calls: int = 4) -> Any:
    """A module that writes down its rows, as a target that answers several calls at once."""
    from tests.victims import target

    module = target().eval()
    module.calls_at_once = calls  # type: ignore[assignment]
    return module


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ROWS, str(tmp_path / "rows"))
    return tmp_path / "rows"


def run(out: Path, said: dict[str, Any], live: Any = None, **more: Any) -> Any:
    engine = LocalEngine({} if live is None else {said["target"]: live})
    return run_experiment(make_experiment(said, source="test"), out, engine, **more)[0]


def told_of(finished: Any) -> list[tuple[Any, ...]]:
    return [(row.name, row.end, row.queries, row.sent, row.loss) for row in finished.rows]


def test_a_wish_to_stop_waits_for_what_is_under_way_and_nothing_is_asked_twice(tmp_path: Path, rows: Path) -> None:
    said = tables(image_file(tmp_path, 6), budget=60)
    interrupt, reporter = Interrupt(), Reporter()

    def progressed(snapshot: Snapshot) -> None:
        interrupt.wanted = interrupt.wanted or snapshot.queries > 60

    reporter.progressed = progressed  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        run(tmp_path / "out", said, served(), report=reporter, interrupt=interrupt)
    with Store(tmp_path / "out") as store:
        (session,) = store.sessions()
        assert session.queries == sum(rows_seen(rows).values()), "what was under way is answered and kept"
        assert session.holds == 0
    finished = run(tmp_path / "out", said, served())
    asked = rows_seen(rows)
    rows.unlink()
    whole = run(tmp_path / "whole", said)  # in rounds
    assert told_of(finished) == told_of(whole)
    assert asked == rows_seen(rows)


def test_a_run_that_ends_at_once_counts_what_was_under_way_and_goes_on(tmp_path: Path, rows: Path) -> None:
    said = tables(image_file(tmp_path, 6), budget=60)
    reporter = Reporter()

    def progressed(snapshot: Snapshot) -> None:
        if snapshot.queries > 60:
            raise KeyboardInterrupt

    reporter.progressed = progressed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out", said, served(), report=reporter)
    finished = run(tmp_path / "out", said, served())
    seen = sum(rows_seen(rows).values())
    whole = run(tmp_path / "whole", said)
    assert [(row.end, row.queries, row.loss) for row in finished.rows] == [
        (row.end, row.queries, row.loss) for row in whole.rows
    ]
    sent, queries = (sum(getattr(row, name) for row in finished.rows) for name in ("sent", "queries"))
    in_flight = said["concurrency"] * (1 + said["method"]["q"])
    assert seen <= sent <= queries + in_flight
