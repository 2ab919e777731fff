"""Laws of the answer log: an attack gone through again is the same attack, and asks the target nothing twice."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

from dowse.attacks.registry import METHODS
from dowse.core.flow import Answer, Query
from dowse.core.inputs import Image
from dowse.core.outcome import End, Outcome
from dowse.core.reply import Reply
from dowse.core.task import Past
from dowse.prepare import Run
from dowse.running.replay import TOLERANCE, ReplayLog
from dowse.settings import AttackSettings
from dowse.store import logged_answer as sketches
from dowse.store.events import Event, NewAnswer, Replayed, Restarted
from dowse.store.logged_answer import LoggedAnswer
from tests.support import Counter, Faulty, Noisy, Tanh, pictures

TARGET = Tanh(0)
SURROGATE = Tanh(1, near=TARGET)
OPTIONS = {
    "pbo": {"starts": 1, "steps": 2},
    "bases": {"steps": 2},
    "rgf": {"q": 4},
    "prgf": {"q": 4},
    "averaging": {"q": 4},
    "nes": {"q": 4},
    "spsa": {"q": 4},
}
BLACK_BOX = [name for name, method in METHODS.items() if not method.whitebox]


class Attempt:
    """One process's share of a run, its log in memory."""

    def __init__(self, method: str, images: Tensor, logs: dict[int, list[bytes]], **more: object) -> None:
        target = more.pop("target", TARGET)
        self.counter = Counter(target)  # type: ignore[arg-type]
        self.logs = {i: list(logs.get(i, [])) for i in range(len(images))}
        self.events: list[Event] = []
        self.void: dict[int, int] = {}
        said = {"eps": 0.15, "budget": 60, "batch_size": 1000, "concurrency": 3, "options": OPTIONS.get(method, {})}
        settings = AttackSettings(method=method, **(said | more))  # type: ignore[arg-type]
        run = Run(self.counter, settings, images[0], surrogate=SURROGATE)
        log = ReplayLog(self.commit, run.oracle, accept=run.rules.accept, scores=run.attack.uses_scores)
        tasks = []
        for i, x in enumerate(images):
            task = run.task(i, Image(x))
            tasks.append(replace(task, past=Past(task.id, tuple(self.logs[i]))))
            log.open(tasks[-1])
        self.counter.rows = 0
        self.outcomes = sorted(run.outcomes(tasks, log), key=lambda outcome: outcome.index)
        for outcome in self.outcomes:
            rest = log.close(outcome.index)
            self.commit(rest)

    def commit(self, events: Sequence[Event]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, NewAnswer):
                self.logs[event.index][event.number :] = [event.block]
            if isinstance(event, Restarted):
                del self.logs[event.index][event.first :]
                self.void[event.index] = event.sent

    def told(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def same(one: Outcome, other: Outcome) -> bool:
    numbers = ("end", "queries", "sent", "label", "distance")
    return (
        all(getattr(one, name) == getattr(other, name) for name in numbers)
        and torch.equal(one.adversarial, other.adversarial)
        and (one.loss == other.loss or (math.isnan(one.loss) and math.isnan(other.loss)))
    )


def rows_of(block: bytes) -> int:
    return LoggedAnswer.unpack(block).reply.sent


@pytest.mark.parametrize("method", BLACK_BOX)
def test_any_part_of_a_log_gives_the_same_outcomes_and_asks_only_for_the_rest(method: str) -> None:
    images = pictures(4, seed=7)
    whole = Attempt(method, images, {})
    for share in (0.0, 0.4, 0.8, 1.0):
        logs = {i: log[: max(0, math.ceil(share * len(log)) - i)] for i, log in whole.logs.items()}
        resumed = Attempt(method, images, logs)
        assert all(map(same, resumed.outcomes, whole.outcomes))
        assert resumed.counter.rows == whole.counter.rows - sum(rows_of(b) for log in logs.values() for b in log)
        assert _without_seconds(resumed.logs) == _without_seconds(whole.logs)


@hypothesis_settings(max_examples=15)
@given(
    cuts=st.lists(st.integers(0, 40), min_size=3, max_size=3),
    concurrency=st.integers(1, 4),
    batch_size=st.integers(1, 20),
    noisy=st.booleans(),
    accept=st.sampled_from(["iterate", "any"]),
    norm=st.sampled_from(["l2", "linf"]),
    repeats=st.integers(1, 2),
)
def test_replay_does_not_depend_on_how_the_work_is_cut(
    cuts: list[int], concurrency: int, batch_size: int, noisy: bool, accept: str, norm: str, repeats: int
) -> None:
    images = pictures(3, seed=7)
    more = {"target": Noisy(TARGET, 0.01) if noisy else TARGET, "accept": accept, "norm": norm, "repeats": repeats}
    more["eps"] = 0.15 if norm == "l2" else 0.02
    whole = Attempt("prgf", images, {}, **more)
    logs = {i: log[:cut] for (i, log), cut in zip(whole.logs.items(), cuts, strict=True)}
    resumed = Attempt("prgf", images, logs, concurrency=concurrency, batch_size=batch_size, **more)
    assert all(map(same, resumed.outcomes, whole.outcomes))
    assert resumed.counter.rows == whole.counter.rows - sum(rows_of(b) for log in logs.values() for b in log)


def test_a_larger_budget_goes_on_from_the_end_of_a_smaller_one() -> None:
    images = pictures(4, seed=7)
    part, whole = (Attempt("prgf", images, {}, budget=budget) for budget in (20, 60))
    assert {outcome.end for outcome in part.outcomes} >= {End.BUDGET}
    resumed = Attempt("prgf", images, part.logs, budget=60)
    assert all(map(same, resumed.outcomes, whole.outcomes))
    assert resumed.counter.rows + part.counter.rows == whole.counter.rows


def test_a_smaller_budget_is_kept_by_recalled_answers_too() -> None:
    images = pictures(4, seed=7)
    whole = Attempt("prgf", images, {}, budget=60)
    again = Attempt("prgf", images, whole.logs, budget=25)
    assert again.counter.rows == 0
    assert all(outcome.queries <= 25 for outcome in again.outcomes)
    assert all(map(same, again.outcomes, Attempt("prgf", images, {}, budget=25).outcomes))


def test_answers_about_other_points_are_never_believed() -> None:
    images = pictures(2, seed=3)
    first = Attempt("prgf", images, {}, budget=40)
    other_stream = Attempt("prgf", images, first.logs, budget=40, seed=1)
    fresh = Attempt("prgf", images, {}, budget=40, seed=1)
    restarted = other_stream.told(Restarted)
    assert sorted((event.index, event.first) for event in restarted) == [(0, 2), (1, 2)]
    for outcome, expected in zip(other_stream.outcomes, fresh.outcomes, strict=True):
        assert other_stream.void[outcome.index] == sum(map(rows_of, first.logs[outcome.index][2:]))
        assert same(outcome, expected)
    kept = sum(rows_of(block) for log in first.logs.values() for block in log[:2])
    assert other_stream.counter.rows == fresh.counter.rows - kept, "what was asked before the first draw still holds"


def test_what_fits_of_a_log_is_kept_where_the_rest_does_not() -> None:
    """A branch that rounding decided: the answers before it are heard again, those behind it are asked for again."""
    images = pictures(2, seed=3)
    whole = Attempt("rgf", images, {}, budget=40)
    logs = {i: [*log[:4], *(_moved(block, 1.0) for block in log[4:])] for i, log in whole.logs.items()}
    again = Attempt("rgf", images, logs, budget=40)
    assert all(map(same, again.outcomes, whole.outcomes))
    assert again.counter.rows == whole.counter.rows - sum(rows_of(b) for log in logs.values() for b in log[:4])
    assert again.void == {i: sum(map(rows_of, log[4:])) for i, log in whole.logs.items()}


def test_points_that_differ_in_their_last_bits_are_told_and_used() -> None:
    images = pictures(2, seed=3)
    whole = Attempt("rgf", images, {}, budget=40)
    logs = {i: [_moved(block, 1e-9) for block in log[:-1]] for i, log in whole.logs.items()}
    again = Attempt("rgf", images, logs, budget=40)
    assert not again.told(Restarted)
    for event in again.told(Replayed):
        assert isinstance(event, Replayed)
        assert event.inexact == event.answers > 0
        assert 0 < event.largest < TOLERANCE * math.sqrt(images[0].numel())
    assert all(map(same, again.outcomes, whole.outcomes))


def test_a_success_must_be_the_very_image_the_target_was_asked_about() -> None:
    images = pictures(3, seed=7)
    whole = Attempt("prgf", images, {})
    (fooled, *_) = [outcome.index for outcome in whole.outcomes if outcome.end is End.ADVERSARIAL]
    logs = {i: [*log[:-1], _moved(log[-1], 1e-9)] if i == fooled else log for i, log in whole.logs.items()}
    again = Attempt("prgf", images, logs)
    assert again.counter.rows == 1
    assert again.outcomes[fooled].end is End.ADVERSARIAL
    assert again.outcomes[fooled].queries == whole.outcomes[fooled].queries
    assert again.outcomes[fooled].sent == whole.outcomes[fooled].sent + 1


def test_a_failed_question_is_counted_and_asked_again() -> None:
    images = pictures(1, seed=3)
    failed = Attempt("prgf", images, {}, target=Faulty(TARGET, [3]), budget=40)
    assert failed.outcomes[0].end is End.TARGET_FAILED
    resumed, whole = Attempt("prgf", images, failed.logs, budget=40), Attempt("prgf", images, {}, budget=40)
    lost = failed.outcomes[0].sent - failed.outcomes[0].queries
    assert lost > 0
    assert same(replace(resumed.outcomes[0], sent=whole.outcomes[0].sent), whole.outcomes[0])
    assert resumed.outcomes[0].sent == whole.outcomes[0].sent + lost
    assert resumed.counter.rows + failed.counter.rows == whole.counter.rows + lost


def test_a_white_box_attack_starts_anew_and_keeps_what_was_sent() -> None:
    images = pictures(1, seed=3)
    whole = Attempt("whitebox", images, {}, eps=0.02, options={"steps": 5})
    again = Attempt("whitebox", images, {0: whole.logs[0][:3]}, eps=0.02, options={"steps": 5})
    assert again.outcomes[0].queries == whole.outcomes[0].queries
    assert again.void == {0: 2}, "what was asked without a gradient still holds"


@given(
    rows=st.integers(1, 20),
    classes=st.integers(0, 5),
    label=st.none() | st.integers(0, 2**31 - 1),
    answered=st.booleans(),
    finite=st.booleans(),
)
def test_a_logged_answer_is_read_as_it_was_written(
    rows: int, classes: int, label: int | None, answered: bool, finite: bool
) -> None:
    points = torch.rand(rows, 3, 2, 2)
    answer = Answer(torch.randn(rows).double(), torch.rand(rows) < 0.5, torch.randn(rows, classes + 1).double())
    reply = Reply(answer if answered else None, label, rows + 1, rows, None, label, 0.5, finite)
    logged = LoggedAnswer.of(Query(points), reply, with_scores=classes > 0, seconds=1.5)
    again = LoggedAnswer.unpack(logged.pack())
    assert again.asked == sketches.sketch(points)
    heard = again.reply
    assert heard._replace(answer=None) == reply._replace(answer=None)
    if answered:
        assert heard.answer is not None
        assert torch.equal(heard.answer.loss, answer.loss)
        assert torch.equal(heard.answer.adversarial, answer.adversarial)
        assert torch.equal(heard.answer.scores, answer.scores[:, : None if classes else 0])
    with pytest.raises(ValueError, match="logged answer"):
        LoggedAnswer.unpack(logged.pack() + b"x")
    with pytest.raises(ValueError, match="logged answer"):
        LoggedAnswer.unpack(b"")


@given(
    shape=st.sampled_from([(1, 3, 3, 3), (4, 3, 5, 5), (2, 1, 16, 16), (7, 2, 40, 30)]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    where=st.integers(0, 10**6),
    data=st.data(),
)
def test_a_sketch_notices_every_change(
    shape: tuple[int, ...], dtype: torch.dtype, where: int, data: st.DataObject
) -> None:
    points = torch.rand(shape, dtype=dtype, generator=torch.Generator().manual_seed(where))
    before = sketches.sketch(points)
    assert sketches.sketch(points.clone()) == before
    changed = points.clone().flatten()
    i = where % changed.numel()
    changed[i] = torch.nextafter(changed[i], torch.tensor(2.0, dtype=dtype))
    assert sketches.sketch(changed.view(shape)).digest != before.digest
    if len(points) > 1:
        order = data.draw(st.permutations(range(len(points))))
        if list(order) != list(range(len(points))):
            assert sketches.sketch(points[list(order)]).digest != before.digest
    assert sketches.sketch(points.transpose(2, 3).contiguous()).digest != before.digest


def test_the_distance_of_sketches_is_that_of_the_points_on_average() -> None:
    rng = torch.Generator().manual_seed(0)
    ratios = []
    for _ in range(400):
        points = torch.rand(5, 3, 8, 8, generator=rng, dtype=torch.float64)
        δ = 1e-4 * torch.randn(5, 3, 8, 8, generator=rng, dtype=torch.float64)
        apart = sketches.distance(sketches.sketch(points), sketches.sketch(points + δ))
        ratios.append(apart**2 / float((δ.flatten(1) ** 2).sum(1).mean()))
    mean, error = torch.tensor(ratios).mean(), torch.tensor(ratios).std() / math.sqrt(len(ratios))
    assert abs(float((mean - 1) / error)) < 4


def _moved(block: bytes, far: float) -> bytes:
    """The log of a question whose points were so far away."""
    logged = LoggedAnswer.unpack(block)
    asked = logged.asked._replace(digest=b"another!", projections=tuple(p + far for p in logged.asked.projections))
    return replace(logged, asked=asked).pack()


def _without_seconds(logs: dict[int, list[bytes]]) -> dict[int, list[bytes]]:
    return {i: [replace(LoggedAnswer.unpack(b), seconds=0.0).pack() for b in log] for i, log in logs.items()}
