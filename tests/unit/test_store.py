"""The store: what is claimed, committed, kept and forgotten; and what it says when it cannot."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dowse.core.outcome import End
from dowse.core.task import Past
from dowse.errors import InputError
from dowse.experiment.spec import PlannedRun, RunSpec
from dowse.images.image_set import Entry
from dowse.machine.locks import LifeLock, is_held
from dowse.store import Row, Store, StoreError, StoreWriter, images, schema
from dowse.store.events import Ended, NewAnswer, Replayed, Restarted, Round
from dowse.store.images import original_of
from dowse.store.reader import lock_of
from dowse.store.traces import pack

SPEC = RunSpec(
    target="dowse:a",
    surrogate=("dowse:s",),
    image_set="set",
    method="prgf",
    options={"q": 5, "pair": (1, 2)},
    budget=100,
)
PLAN = PlannedRun(spec=SPEC, title="ours", count=None)
ENTRIES = [Entry("a.png", 3), Entry("b.png", 1), Entry("c.png", 1)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreWriter]:
    with StoreWriter(tmp_path / "out", ["dowse", "run"]) as made:
        made.begin(PLAN, "images.npz", ENTRIES)
        yield made


def ended(index: int, end: End = End.ADVERSARIAL, *, image: torch.Tensor | None = None, **more: Any) -> Ended:
    values: dict[str, Any] = {
        "queries": 17, "sent": 18, "budget": 100, "label": 3, "target_label": None, "predicted": 4,
        "confidence": 0.75, "confidence_before": 0.5, "l2": 0.5,
        "linf": 0.1, "loss": 1.25, "seconds": 2.0, "seed": SPEC.seed, "cause": None,
    }  # fmt: skip
    row = Row(run=SPEC.id, position=index, name="", checksum=f"sum{index}", end=end, **(values | more))
    if image is None and end is End.ADVERSARIAL:
        image = torch.full((1, 2, 2), 1 / 3, dtype=torch.float64)
    return Ended(row, pack([{"queries": 1, "loss": 0.5}, {"queries": 3, "alpha": 0.25}]), image)


def claimed(store: StoreWriter, budget: int = 100, limit: int = 3) -> int:
    """The index of a task that is claimed and entered."""
    index, _ = claim(store, budget, limit)
    store.enter(SPEC.id, index, f"sum{index}", torch.zeros(1, 2, 2))
    return index


def claim(store: StoreWriter, budget: int = 100, limit: int = 3) -> tuple[int, Past]:
    found = store.claim(SPEC.id, budget, limit)
    assert found is not None
    return found


def nothing_to_claim(store: StoreWriter, budget: int = 100, limit: int = 3) -> bool:
    return store.claimable(SPEC.id, budget, limit, most=9) == 0 and store.claim(SPEC.id, budget, limit) is None


def test_a_row_keeps_what_was_refused_and_a_smaller_budget_cuts_it(store: StoreWriter) -> None:
    store.write(SPEC.id, [ended(claimed(store), End.BUDGET, queries=90, refused=45, queries_until_detected=20)])
    (row,) = store.rows()
    assert (row.refused, row.queries_until_detected, row.refused_share) == (45, 20, 0.5)
    before, after = row.within(19), row.within(20)
    assert (before.refused, before.queries_until_detected, before.refused_share) == (0, None, 0.0)
    assert (after.refused, after.queries_until_detected, after.refused_share) == (None, 20, None)
    assert not replace(row, end=End.DETECTED).goes_on(1000)


def test_a_row_comes_back_as_it_was_written(store: StoreWriter) -> None:
    store.write(SPEC.id, [ended(claimed(store))])
    (row,) = store.rows()
    assert isinstance(row, Row)
    assert (row.run, row.name, row.position, row.checksum, row.seed) == (SPEC.id, "a.png", 0, "sum0", 0)
    assert (row.end, row.success, row.queries, row.sent, row.l2, row.loss) == (End.ADVERSARIAL, True, 17, 18, 0.5, 1.25)
    assert (row.predicted, row.confidence, row.confidence_before) == (4, 0.75, 0.5)
    assert (row.saved_adversarial, row.saved_inside, row.saved_queries) == (None, None, 0)
    image = store.adversarial(row)
    assert image is not None
    assert torch.equal(image, torch.full((1, 2, 2), 1 / 3, dtype=torch.float64))
    assert torch.equal(store.original(row), torch.zeros(1, 2, 2))
    assert store.trace(row.task) == {"queries": [1, 3], "loss": [0.5, None], "alpha": [None, 0.25]}
    assert store.trace(99) == {}


def test_runs_and_the_manifest(store: StoreWriter) -> None:
    (run,) = store.runs()
    assert (run.id, run.title, run.source, run.budget, run.count) == (SPEC.id, "ours", "images.npz", 100, 3)
    assert run.content == SPEC.content()
    assert run.content["options"] == {"q": 5, "pair": [1, 2]}
    (session,) = store.sessions()
    assert session.command == ["dowse", "run"]
    assert session.alive
    assert {"dowse", "torch", "numpy", "python", "platform"} <= set(session.versions)


def test_numbers_that_are_not_finite_are_kept_as_nothing(store: StoreWriter) -> None:
    store.write(SPEC.id, [ended(claimed(store), End.TARGET_FAILED, loss=float("nan"), cause="OSError: gone")])
    (row,) = store.rows()
    assert row.loss is None
    assert row.cause == "OSError: gone"


def test_a_picture_that_was_asked_about_again(store: StoreWriter) -> None:
    levels = torch.arange(12, dtype=torch.uint8).view(3, 2, 2)
    saved = {"saved_adversarial": False, "saved_inside": True, "saved_distance": 0.25, "saved_queries": 1}
    store.write(SPEC.id, [ended(claimed(store), image=levels, **saved)])
    (row,) = store.rows()
    assert (row.saved_adversarial, row.saved_inside, row.saved_distance, row.saved_queries) == (False, True, 0.25, 1)
    assert row.file is not None
    assert row.file.endswith(".png")
    image = store.adversarial(row)
    assert image is not None
    assert torch.equal((image * 255).round().byte(), levels)


def test_every_image_is_claimed_once(store: StoreWriter) -> None:
    assert [claimed(store) for _ in range(3)] == [0, 1, 2]
    assert nothing_to_claim(store)


def test_the_limit_leaves_the_rest_alone(store: StoreWriter) -> None:
    assert store.claimable(SPEC.id, 100, 1, 9) == 1
    claimed(store, limit=1)
    assert nothing_to_claim(store, limit=1)


def test_a_task_that_is_given_back_goes_out_first_with_what_was_committed(store: StoreWriter) -> None:
    assert [claimed(store) for _ in range(2)] == [0, 1]
    store.write(SPEC.id, [NewAnswer(0, 0, b"first"), NewAnswer(0, 1, b"second"), Restarted(1, 5, None)])
    store.release(SPEC.id, [1, 0])
    assert store.claimable(SPEC.id, 100, 3, 9) == 3
    assert [claim(store) for _ in range(3)] == [
        (0, Past("sum0", (b"first", b"second"), 0)),
        (1, Past("sum1", (), 5)),
        (2, Past()),
    ]
    with pytest.raises(StoreError, match="another process has taken over"), StoreWriter(store.folder) as other:
        other.write(SPEC.id, [NewAnswer(0, 2, b"third")])


def test_another_process_gets_the_others_images(store: StoreWriter) -> None:
    first = claimed(store)
    with StoreWriter(store.folder) as other:
        others = [claimed(other) for _ in range(2)]
        assert nothing_to_claim(other)
        assert other.held_by_others(SPEC.id) == 1
        assert store.held_by_others(SPEC.id) == 2
    assert {first, *others} == {0, 1, 2}
    assert claimed(store) in others  # given back as the other one ended


def test_the_images_of_a_dead_process_are_free(store: StoreWriter) -> None:
    task = claimed(store)
    with StoreWriter(store.folder) as other:
        lock_of(store.folder, store.session).unlink()  # as if it had never been held
        assert claimed(other) == task
        theirs = torch.ones(1, 2, 2)
        other.write(SPEC.id, [ended(task, queries=1, image=theirs)])
        with pytest.raises(StoreError, match="another process has taken over"):
            store.write(SPEC.id, [ended(task)])
    (row,) = store.rows()
    assert row.queries == 1
    assert torch.equal(store.adversarial(row), theirs)  # type: ignore[arg-type]


def test_a_process_lives_until_its_lock_is_let_go_of(store: StoreWriter) -> None:
    with StoreWriter(store.folder) as other:
        assert [session.alive for session in store.sessions()] == [True, True]
        assert lock_of(store.folder, other.session).exists()
    assert [session.alive for session in store.sessions()] == [True, False]
    assert not lock_of(store.folder, other.session).exists()


def test_a_process_that_was_killed_is_dead_at_once(store: StoreWriter) -> None:
    script = "import os, sys, dowse.store; kept = dowse.store.StoreWriter(sys.argv[1]); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", script, str(store.folder)], check=False).returncode == -signal.SIGKILL
    assert [(session.ended, session.alive) for session in store.sessions()] == [(None, True), (None, False)]
    with StoreWriter(store.folder):
        assert not lock_of(store.folder, 2).exists(), "the next process clears away what the dead left"


def test_a_child_that_is_forked_does_not_keep_its_parent_alive(tmp_path: Path) -> None:
    lock = LifeLock(tmp_path / "lock")
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        theirs.send(b"I live")
        theirs.recv(1)  # until the parent lets it go
        os._exit(0)
    assert ours.recv(6) == b"I live"
    assert is_held(lock.path)
    os.close(lock._handle)  # type: ignore[arg-type]  # as the kernel does when the parent dies
    lock._handle = None
    assert not is_held(lock.path)
    ours.send(b".")
    os.waitpid(child, 0)
    ours.close()
    theirs.close()


def test_answers_are_kept_while_an_image_can_go_on(store: StoreWriter) -> None:
    going_on, over, failed = (claimed(store) for _ in range(3))
    for task in (going_on, over, failed):
        store.write(SPEC.id, [NewAnswer(task, 0, b"first"), NewAnswer(task, 1, b"second"), Round(1, 2, 0.5)])
    assert store.logged(SPEC.id) == (6, 33)
    ends = (End.BUDGET, End.ADVERSARIAL, End.TARGET_FAILED)
    store.write(SPEC.id, [ended(task, end) for task, end in zip((going_on, over, failed), ends, strict=True)])
    assert store.logged(SPEC.id) == (4, 22)
    assert nothing_to_claim(store)  # the failed one is not tried twice by one process
    assert claim(store, 200) == (going_on, Past(f"sum{going_on}", (b"first", b"second")))
    assert nothing_to_claim(store, 200)
    with StoreWriter(store.folder) as later:
        assert claim(later)[0] == failed
    assert store.sessions()[0].queries == 6


def test_answers_stay_if_asked_to(tmp_path: Path) -> None:
    with StoreWriter(tmp_path, keep_answers=True) as store:
        store.begin(PLAN, "", ENTRIES)
        task = claimed(store)
        store.write(SPEC.id, [NewAnswer(task, 0, b"first"), ended(task)])
        assert store.logged(SPEC.id) == (1, 5)


def test_a_log_is_rewritten_from_where_it_is_voided(store: StoreWriter) -> None:
    task = claimed(store)
    store.write(SPEC.id, [NewAnswer(task, i, b"old") for i in range(4)])
    store.write(SPEC.id, [NewAnswer(task, 1, b"new")])
    assert store.logged(SPEC.id) == (2, 6)
    store.write(SPEC.id, [Restarted(task, 40, "it does not fit")])
    assert store.logged(SPEC.id) == (0, 0)
    assert store.replays(SPEC.id) == {"replayed": 0, "inexact": 0, "largest": 0, "restarts": 1}
    store.write(SPEC.id, [Replayed(task, 5, 2, 1e-6), ended(task, End.BUDGET)])
    assert store.replays(SPEC.id) == {"replayed": 5, "inexact": 2, "largest": 1e-6, "restarts": 1}
    assert claim(store, 200)[1].sent == 40


def test_an_image_that_cannot_be_read_is_left_out(store: StoreWriter) -> None:
    store.skip(SPEC.id, claim(store)[0], "no picture")
    assert store.skipped(SPEC.id) == {"a.png": "no picture"}
    assert [claimed(store), claimed(store)] == [1, 2]
    assert nothing_to_claim(store)
    assert store.runs()[0].skipped == {"a.png": "no picture"}


def test_another_process_tries_to_read_what_was_left_out(store: StoreWriter) -> None:
    index, past = claim(store)
    assert past.unreadable is None
    store.skip(SPEC.id, index, "too many open files")
    with StoreWriter(store.folder) as later:
        assert claim(later) == (index, Past(unreadable="too many open files"))
        later.enter(SPEC.id, index, "sum", torch.zeros(1, 2, 2))
    assert store.skipped(SPEC.id) == {}


def test_events_are_committed_together_or_not_at_all(store: StoreWriter) -> None:
    task = claimed(store)
    with pytest.raises(StoreError):
        store.write(SPEC.id, [NewAnswer(task, 0, b"kept"), NewAnswer(task + 1, 0, b"not mine")])
    assert store.logged(SPEC.id) == (0, 0)
    store.write(SPEC.id, [NewAnswer(task, 0, b"kept")])
    assert store.logged(SPEC.id) == (1, 4)


def test_a_row_can_be_read_with_a_smaller_budget(store: StoreWriter) -> None:
    store.write(SPEC.id, [ended(claimed(store), queries=17), ended(claimed(store), End.BUDGET, queries=98)])
    fooled, failed = store.rows()
    assert fooled.within(17) == replace(fooled, budget=17)
    assert failed.within(99) == replace(failed, budget=99)
    assert fooled.within(200) is fooled


@pytest.mark.parametrize("end", [End.ADVERSARIAL, End.BUDGET, End.EXHAUSTED, End.NONFINITE, End.TARGET_FAILED])
def test_a_budget_that_ends_an_attack_on_its_way_leaves_nothing_of_its_end(store: StoreWriter, end: End) -> None:
    store.write(SPEC.id, [ended(claimed(store), end, queries=17, verified=3, cause="a cause")])
    (row,) = store.rows()
    cut = row.within(16)
    assert (cut.end, cut.queries, cut.budget, cut.success) == (End.BUDGET, 16, 16, False)
    assert (cut.predicted, cut.confidence, cut.l2, cut.linf, cut.loss) == (None,) * 5
    assert (cut.cause, cut.file, cut.verified) == (None, None, 0)
    assert (cut.sent, cut.label, cut.confidence_before) == (row.sent, row.label, row.confidence_before)


def test_images_that_go_on_are_unfinished_and_do_not_count(store: StoreWriter) -> None:
    ends = (End.ADVERSARIAL, End.TARGET_FAILED, End.BUDGET)
    store.write(SPEC.id, [ended(claimed(store), end, queries=50) for end in ends])
    counted = store.counted(SPEC.id, 100, 3)
    assert [row.end for row in counted.rows] == [End.ADVERSARIAL, End.BUDGET]
    assert [row.end for row in counted.going_on] == [End.TARGET_FAILED]
    assert (counted.unfinished, len(counted.stored)) == (1, 3)
    larger = store.counted(SPEC.id, 200, 3)
    assert [(row.end, row.budget) for row in larger.rows] == [(End.ADVERSARIAL, 200)]
    assert larger.unfinished == 2
    smaller = store.counted(SPEC.id, 40, 3)  # which had not fooled the target by then, whatever became of it later
    assert [(row.end, row.budget, row.queries) for row in smaller.rows] == [(End.BUDGET, 40, 40)] * 3
    assert smaller.unfinished == 0


def test_an_image_that_makes_up_for_a_skipped_one_counts(store: StoreWriter) -> None:
    plan = replace(PLAN, count=2)
    assert store.begin(plan, "images.npz", ENTRIES) == (2, 2)
    store.skip(SPEC.id, claim(store)[0], "no picture")
    assert store.begin(plan, "images.npz", ENTRIES) == (3, 2)
    store.write(SPEC.id, [ended(claimed(store)), ended(claimed(store))])
    assert store.runs()[0].count == 2
    counted = store.counted(SPEC.id, 100, 2)
    assert ([row.position for row in counted.rows], counted.unfinished) == ([1, 2], 0)
    assert [row.position for row in store.counted(SPEC.id, 100, 1).rows] == [1]
    assert store.counted(SPEC.id, 100, 3).unfinished == 1
    assert store.begin(replace(PLAN, count=3), "images.npz", ENTRIES) == (3, 2)  # there is no further image


def test_what_another_process_skipped_is_made_up_for(store: StoreWriter) -> None:
    plan = replace(PLAN, count=1)
    with StoreWriter(store.folder) as other:
        for _ in range(2):
            other.skip(SPEC.id, claim(other)[0], "no picture")
    assert store.begin(plan, "images.npz", ENTRIES) == (3, 1)
    assert (store.runs()[0].count, store.skipped(SPEC.id, 1)) == (1, {"a.png": "no picture"})


def test_skipped_images_further_on_are_none_of_those_asked_for(store: StoreWriter) -> None:
    for _ in range(2):
        claimed(store)
    store.skip(SPEC.id, claim(store)[0], "no picture")
    assert store.begin(replace(PLAN, count=2), "images.npz", ENTRIES) == (2, 2)
    assert store.runs()[0].count == 2


def test_a_store_can_be_read_while_it_is_written_and_afterwards(store: StoreWriter, tmp_path: Path) -> None:
    store.write(SPEC.id, [ended(claimed(store))])
    with Store(tmp_path / "out") as reader:
        assert len(list(reader.rows(SPEC.id))) == 1
        assert list(reader.rows("other")) == []
        store.write(SPEC.id, [ended(claimed(store))])
        assert len(list(reader.rows())) == 2
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._database.execute("DELETE FROM rows")
    store.close()
    assert not (tmp_path / "out" / f"{schema.FILE}-wal").exists()
    with Store(tmp_path / "out") as reader:
        assert len(list(reader.rows())) == 2
        assert not reader.sessions()[0].alive
        with StoreWriter(tmp_path / "out") as later:
            later.write(SPEC.id, [ended(claimed(later))])
            assert len(list(reader.rows())) == 3
    assert [path.name for path in (tmp_path / "out").glob(f"{schema.FILE}*")] == [schema.FILE]


def test_a_store_can_be_read_where_sqlite_cannot_make_its_files(store: StoreWriter, tmp_path: Path) -> None:
    store.write(SPEC.id, [ended(claimed(store))])
    store.close()
    (tmp_path / "out" / f"{schema.FILE}-wal").mkdir()  # hinders it as a folder does that can only be read
    with Store(tmp_path / "out") as reader:
        assert len(list(reader.rows())) == 1


def test_a_run_is_read_without_a_look_at_all_others(store: StoreWriter) -> None:
    asked: list[str] = []
    store._database.set_trace_callback(asked.append)
    list(store.rows(SPEC.id))
    store.logged(SPEC.id)
    store._database.set_trace_callback(None)
    for query in asked:
        plan = [step for *_, step in store._database.execute(f"EXPLAIN QUERY PLAN {query}")]
        assert not [step for step in plan if step.startswith("SCAN")], plan
    assert len(asked) == 2


def test_a_name_that_is_no_text_is_refused(store: StoreWriter) -> None:
    name = b"gr\xfcn.png".decode(errors="surrogateescape")
    with pytest.raises(InputError, match=r"'gr\\udcfcn.png' holds bytes that are no UTF-8.*another name"):
        store.begin(PLAN, "images", [Entry(name)])


def test_a_broken_original_is_written_again_and_a_whole_one_is_not(tmp_path: Path) -> None:
    file = original_of(tmp_path, "sum")
    images.save_original(tmp_path, "sum", torch.ones(1, 2, 2))
    whole, number = file.read_bytes(), file.stat().st_ino
    images.save_original(tmp_path, "sum", torch.ones(1, 2, 2))
    assert file.stat().st_ino == number
    file.write_bytes(whole[:-1])
    with pytest.raises(OSError, match=r"sum.safetensors is damaged"):
        images.load_image(file)
    images.save_original(tmp_path, "sum", torch.ones(1, 2, 2))
    assert file.read_bytes() == whole


def test_an_image_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    replace_file = os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(Path(f"/proc/self/fd/{handle}").readlink().suffix))
    monkeypatch.setattr(os, "replace", lambda old, new: done.append("named") or replace_file(old, new))
    images.save_adversarial(tmp_path, "run", 1, torch.ones(1, 2, 2))
    assert done == [".partial", "named", ""]


def test_a_store_of_another_format_is_refused(tmp_path: Path) -> None:
    StoreWriter(tmp_path).close()
    with sqlite3.connect(tmp_path / schema.FILE) as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    for kind in (Store, StoreWriter):
        with pytest.raises(StoreError, match="format 99"):
            kind(tmp_path)
