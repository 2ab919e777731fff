"""The store: what is claimed, committed, kept and forgotten; and what it says when it cannot."""

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dowse.core.result import End
from dowse.errors import InputError
from dowse.experiment.spec import PlannedRun, RunSpec
from dowse.images.image_set import Entry
from dowse.store import Row, Store, StoreError, StoreWriter, images, owners, schema
from dowse.store.events import Answered, Ended, Replayed, Restarted, Round, Saved
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


def ended(task: int, end: End = End.ADVERSARIAL, **more: Any) -> Ended:
    values: dict[str, Any] = {
        "queries": 17, "sent": 18, "budget": 100, "label": 3, "target_label": None, "predicted": 4,
        "confidence": 0.75, "confidence_before": 0.5, "l2": 0.5,
        "linf": 0.1, "loss": 1.25, "seconds": 2.0, "cause": None, "verified": 0,
        "adversarial": torch.full((1, 2, 2), 1 / 3, dtype=torch.float64) if end is End.ADVERSARIAL else None,
        "trace": pack([{"queries": 1, "loss": 0.5}, {"queries": 3, "alpha": 0.25}]),
    }  # fmt: skip
    return Ended(task=task, end=end, **(values | more))


def claimed(store: StoreWriter, plan: PlannedRun = PLAN, limit: int = 3) -> int:
    claim = store.claim(plan, limit)
    assert claim is not None
    store.enter(claim.task, f"sum{claim.task}", torch.zeros(1, 2, 2))
    return claim.task


def test_a_row_comes_back_as_it_was_written(store: StoreWriter) -> None:
    task = claimed(store)
    store.write(PLAN, [ended(task)])
    (row,) = store.rows()
    assert isinstance(row, Row)
    assert (row.run, row.name, row.position, row.checksum, row.seed) == (SPEC.id, "a.png", 0, f"sum{task}", 0)
    assert (row.end, row.success, row.queries, row.sent, row.l2, row.loss) == (End.ADVERSARIAL, True, 17, 18, 0.5, 1.25)
    assert (row.predicted, row.confidence, row.confidence_before) == (4, 0.75, 0.5)
    assert (row.saved_adversarial, row.saved_inside, row.saved_queries) == (None, None, 0)
    image = store.adversarial(row)
    assert image is not None
    assert torch.equal(image, torch.full((1, 2, 2), 1 / 3, dtype=torch.float64))
    assert torch.equal(store.original(row), torch.zeros(1, 2, 2))
    assert store.trace(task) == {"queries": [1, 3], "loss": [0.5, None], "alpha": [None, 0.25]}
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
    store.write(PLAN, [ended(claimed(store), End.TARGET_FAILED, loss=float("nan"), cause="OSError: gone")])
    (row,) = store.rows()
    assert row.loss is None
    assert row.cause == "OSError: gone"


def test_a_picture_that_was_asked_about_again(store: StoreWriter) -> None:
    levels = torch.arange(12, dtype=torch.uint8).view(3, 2, 2)
    saved = Saved(levels, adversarial=False, inside=True, distance=0.25, queries=1)
    store.write(PLAN, [ended(claimed(store), saved=saved)])
    (row,) = store.rows()
    assert (row.saved_adversarial, row.saved_inside, row.saved_distance, row.saved_queries) == (False, True, 0.25, 1)
    assert row.file is not None
    assert row.file.endswith(".png")
    image = store.adversarial(row)
    assert image is not None
    assert torch.equal((image * 255).round().byte(), levels)


def test_every_image_is_claimed_once(store: StoreWriter) -> None:
    assert [claimed(store) for _ in range(3)] == [1, 2, 3]
    assert store.claim(PLAN, 3) is None


def test_the_limit_leaves_the_rest_alone(store: StoreWriter) -> None:
    claimed(store, limit=1)
    assert store.claim(PLAN, 1) is None


def test_another_process_gets_the_others_images(store: StoreWriter) -> None:
    first = claimed(store)
    with StoreWriter(store.folder) as other:
        others = [claimed(other) for _ in range(2)]
        assert other.claim(PLAN, 3) is None
        assert other.held_by_others(SPEC.id) == 1
        assert store.held_by_others(SPEC.id) == 2
    assert {first, *others} == {1, 2, 3}
    assert claimed(store) in others  # given back as the other one ended


def test_the_images_of_a_dead_process_are_free(store: StoreWriter) -> None:
    task = claimed(store)
    with StoreWriter(store.folder) as other:
        other._database.execute("UPDATE sessions SET process = 'before' WHERE id = ?", (store.session,))
        assert claimed(other) == task
        theirs = torch.ones(1, 2, 2)
        other.write(PLAN, [ended(task, queries=1, adversarial=theirs)])
        with pytest.raises(StoreError, match="another process has taken over"):
            store.write(PLAN, [ended(task)])
    (row,) = store.rows()
    assert row.queries == 1
    assert torch.equal(store.adversarial(row), theirs)  # type: ignore[arg-type]


def test_a_process_elsewhere_counts_as_alive_while_it_beats() -> None:
    now = 1000.0
    assert owners.is_alive("elsewhere", 1, "0", now - owners.LEASE / 2, now)
    assert not owners.is_alive("elsewhere", 1, "0", now - owners.LEASE * 2, now)
    here = owners.machine()
    assert owners.is_alive(here, os.getpid(), owners.process_start(os.getpid()) or "", 0.0, now)
    assert not owners.is_alive(here, os.getpid(), "another start", now, now)
    assert not owners.is_alive(here, 2**22 + 1, "1", now, now)


def test_the_heartbeat_beats(store: StoreWriter) -> None:
    store._database.execute("UPDATE sessions SET beat = 0")
    store._beat()
    (beat,) = store._database.execute("SELECT beat FROM sessions").fetchone()
    assert beat > 0


def test_answers_are_kept_while_an_image_can_go_on(store: StoreWriter) -> None:
    going_on, over, failed = (claimed(store) for _ in range(3))
    for task in (going_on, over, failed):
        store.write(PLAN, [Answered(task, 0, b"first"), Answered(task, 1, b"second"), Round(1, 2, 0.5)])
    assert store.logged(SPEC.id) == (6, 33)
    ends = (End.BUDGET, End.ADVERSARIAL, End.TARGET_FAILED)
    store.write(PLAN, [ended(task, end) for task, end in zip((going_on, over, failed), ends, strict=True)])
    assert store.logged(SPEC.id) == (4, 22)
    assert store.claim(PLAN, 3) is None  # the failed one is not tried twice by one process
    larger = replace(PLAN, spec=replace(SPEC, budget=200))
    claim = store.claim(larger, 3)
    assert claim is not None
    assert (claim.task, claim.answers, claim.checksum) == (going_on, (b"first", b"second"), f"sum{going_on}")
    assert store.claim(larger, 3) is None
    with StoreWriter(store.folder) as later:
        again = later.claim(PLAN, 3)
        assert again is not None
        assert again.task == failed
    assert store.sessions()[0].queries == 6


def test_answers_stay_if_asked_to(tmp_path: Path) -> None:
    with StoreWriter(tmp_path, keep_answers=True) as store:
        store.begin(PLAN, "", ENTRIES)
        task = claimed(store)
        store.write(PLAN, [Answered(task, 0, b"first"), ended(task)])
        assert store.logged(SPEC.id) == (1, 5)


def test_a_log_is_rewritten_from_where_it_is_voided(store: StoreWriter) -> None:
    task = claimed(store)
    store.write(PLAN, [Answered(task, i, b"old") for i in range(4)])
    store.write(PLAN, [Answered(task, 1, b"new")])
    assert store.logged(SPEC.id) == (2, 6)
    store.write(PLAN, [Restarted(task, 40, 0.5)])
    assert store.logged(SPEC.id) == (0, 0)
    assert store.replays(SPEC.id) == {"replayed": 0, "inexact": 0, "largest": 0, "restarts": 1}
    store.write(PLAN, [Replayed(task, 5, 2, 1e-6), ended(task, End.BUDGET)])
    assert store.replays(SPEC.id) == {"replayed": 5, "inexact": 2, "largest": 1e-6, "restarts": 1}
    claim = store.claim(replace(PLAN, spec=replace(SPEC, budget=200)), 3)
    assert claim is not None
    assert claim.sent == 40


def test_an_image_that_cannot_be_read_is_left_out(store: StoreWriter) -> None:
    claim = store.claim(PLAN, 3)
    assert claim is not None
    store.skip(claim.task, "no picture")
    assert store.skipped(SPEC.id) == {"a.png": "no picture"}
    assert [claimed(store), claimed(store)] == [2, 3]
    assert store.claim(PLAN, 3) is None
    assert store.runs()[0].skipped == {"a.png": "no picture"}


def test_another_process_tries_to_read_what_was_left_out(store: StoreWriter) -> None:
    claim = store.claim(PLAN, 3)
    assert claim is not None
    assert not claim.skipped
    store.skip(claim.task, "too many open files")
    with StoreWriter(store.folder) as later:
        again = later.claim(PLAN, 3)
        assert again is not None
        assert (again.task, again.skipped) == (claim.task, True)
        later.enter(again.task, "sum", torch.zeros(1, 2, 2))
    assert store.skipped(SPEC.id) == {}


def test_events_are_committed_together_or_not_at_all(store: StoreWriter) -> None:
    task = claimed(store)
    with pytest.raises(StoreError):
        store.write(PLAN, [Answered(task, 0, b"kept"), Answered(task + 1, 0, b"not mine")])
    assert store.logged(SPEC.id) == (0, 0)
    store.write(PLAN, [Answered(task, 0, b"kept")])
    assert store.logged(SPEC.id) == (1, 4)


def test_a_row_can_be_read_with_a_smaller_budget(store: StoreWriter) -> None:
    store.write(PLAN, [ended(claimed(store), queries=17), ended(claimed(store), End.BUDGET, queries=98)])
    fooled, failed = store.rows()
    assert fooled.within(17) == replace(fooled, budget=17)
    assert failed.within(99) == replace(failed, budget=99)
    assert fooled.within(200) is fooled


@pytest.mark.parametrize("end", [End.ADVERSARIAL, End.BUDGET, End.EXHAUSTED, End.NONFINITE, End.TARGET_FAILED])
def test_a_budget_that_ends_an_attack_on_its_way_leaves_nothing_of_its_end(store: StoreWriter, end: End) -> None:
    store.write(PLAN, [ended(claimed(store), end, queries=17, verified=3, cause="a cause")])
    (row,) = store.rows()
    cut = row.within(16)
    assert (cut.end, cut.queries, cut.budget, cut.success) == (End.BUDGET, 16, 16, False)
    assert (cut.predicted, cut.confidence, cut.l2, cut.linf, cut.loss) == (None,) * 5
    assert (cut.cause, cut.file, cut.verified) == (None, None, 0)
    assert (cut.sent, cut.label, cut.confidence_before) == (row.sent, row.label, row.confidence_before)


def test_images_that_go_on_are_unfinished_and_do_not_count(store: StoreWriter) -> None:
    ends = (End.ADVERSARIAL, End.TARGET_FAILED, End.BUDGET)
    store.write(PLAN, [ended(claimed(store), end, queries=50) for end in ends])
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
    claim = store.claim(plan, 2)
    assert claim is not None
    store.skip(claim.task, "no picture")
    assert store.begin(plan, "images.npz", ENTRIES) == (3, 2)
    store.write(PLAN, [ended(claimed(store)), ended(claimed(store))])
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
            claim = other.claim(PLAN, 3)
            assert claim is not None
            other.skip(claim.task, "no picture")
    assert store.begin(plan, "images.npz", ENTRIES) == (3, 1)
    assert (store.runs()[0].count, store.skipped(SPEC.id, 1)) == (1, {"a.png": "no picture"})


def test_skipped_images_further_on_are_none_of_those_asked_for(store: StoreWriter) -> None:
    for _ in range(2):
        claimed(store)
    claim = store.claim(PLAN, 3)
    assert claim is not None
    store.skip(claim.task, "no picture")
    assert store.begin(replace(PLAN, count=2), "images.npz", ENTRIES) == (2, 2)
    assert store.runs()[0].count == 2


def test_a_store_can_be_read_while_it_is_written_and_afterwards(store: StoreWriter, tmp_path: Path) -> None:
    store.write(PLAN, [ended(claimed(store))])
    with Store(tmp_path / "out") as reader:
        assert len(list(reader.rows(SPEC.id))) == 1
        assert list(reader.rows("other")) == []
        store.write(PLAN, [ended(claimed(store))])
        assert len(list(reader.rows())) == 2
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._database.execute("DELETE FROM rows")
    store.close()
    assert not (tmp_path / "out" / f"{schema.FILE}-wal").exists()
    with Store(tmp_path / "out") as reader:
        assert len(list(reader.rows())) == 2
        assert not reader.sessions()[0].alive
        with StoreWriter(tmp_path / "out") as later:
            later.write(PLAN, [ended(claimed(later))])
            assert len(list(reader.rows())) == 3
    assert [path.name for path in (tmp_path / "out").glob(f"{schema.FILE}*")] == [schema.FILE]


def test_a_store_can_be_read_where_sqlite_cannot_make_its_files(store: StoreWriter, tmp_path: Path) -> None:
    store.write(PLAN, [ended(claimed(store))])
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
    file = tmp_path / images.ORIGINALS / "sum.safetensors"
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
    assert done == [".part", "named", ""]


def test_a_store_of_another_format_is_refused(tmp_path: Path) -> None:
    StoreWriter(tmp_path).close()
    with sqlite3.connect(tmp_path / schema.FILE) as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    for kind in (Store, StoreWriter):
        with pytest.raises(StoreError, match="format 99"):
            kind(tmp_path)
