"""Packed stores: what was found goes on elsewhere, files grow, and what contradicts itself changes nothing."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dowse.core.outcome import End
from dowse.errors import InputError
from dowse.experiment.file import make_experiment
from dowse.running.engines import LocalEngine
from dowse.running.run_experiment import run_experiment
from dowse.store import Row, Store, StoreWriter, schema
from dowse.store.pack import pack, packed_of, unpack
from dowse.store.packed import ContradictionError, joined_rows, plain_row
from dowse.store.packed_file import packed_text
from tests.stores import CELL, Made, make_store
from tests.victims import ROWS, image_file, rows_seen, tables

OLD = Path(__file__).parents[1] / "old_store"


def rows(place: Path) -> list[Row]:
    with Store(place) as store:
        return [plain_row(row) for row in store.rows()]


def first(count: int, images: Path) -> dict[str, Any]:
    """An experiment on the first images of a set."""
    said = tables(images, budget=60)
    return {**said, "images": {"path": said["images"], "count": count}}


def attacked(out: Path, said: dict[str, Any]) -> None:
    run_experiment(make_experiment(said, source="test"), out, LocalEngine())


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of all rows that the target is asked about."""
    monkeypatch.setenv(ROWS, str(tmp_path / "rows"))
    return tmp_path / "rows"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    ends = [End.ADVERSARIAL, End.BUDGET, End.TARGET_FAILED, End.ALREADY_WRONG, End.NONFINITE]
    runs = [
        Made(
            "RGF λ → ∞ | \u2028", [10, None, 3, 1, 2], ends=ends, cause="nobody, “listens”\n", skipped="unreadable.png"
        ),
        Made("P-RGF", [10, 20]),
    ]
    return make_store(
        tmp_path / "store", runs, command=["dowse", "run", "/home/somebody/x.toml", "--out=/home/somebody/out"]
    )


def test_a_run_goes_on_after_what_was_unpacked(tmp_path: Path, seen: Path) -> None:
    images = image_file(tmp_path, 6)
    attacked(tmp_path / "whole", tables(images, budget=60))
    seen.unlink()
    attacked(tmp_path / "part", first(3, images))
    pack(tmp_path / "part", tmp_path / "part.jsonl")
    unpack([tmp_path / "part.jsonl"], tmp_path / "on")
    before = sum(rows_seen(seen).values())
    attacked(tmp_path / "on", first(3, images))
    assert sum(rows_seen(seen).values()) == before, "finished images are not attacked again"
    attacked(tmp_path / "on", tables(images, budget=60))
    assert max(rows_seen(seen).values()) == 1
    clockless = [replace(row, seconds=0, finished=0) for row in rows(tmp_path / "on")]
    assert clockless == [replace(row, seconds=0, finished=0) for row in rows(tmp_path / "whole")]


def test_an_image_without_its_log_starts_anew_with_a_larger_budget(tmp_path: Path, seen: Path) -> None:
    images = image_file(tmp_path, 6)
    attacked(tmp_path / "small", tables(images, budget=8))
    attacked(tmp_path / "large", tables(images, budget=60))
    assert End.BUDGET in {row.end for row in rows(tmp_path / "small")}
    pack(tmp_path / "small", tmp_path / "rows.jsonl")
    unpack([tmp_path / "rows.jsonl"], tmp_path / "on")
    attacked(tmp_path / "on", tables(images, budget=60))
    told = [[(row.end, row.queries, row.budget) for row in rows(tmp_path / name)] for name in ("on", "large")]
    assert told[0] == told[1]
    done = pack(tmp_path / "on", tmp_path / "rows.jsonl")
    assert (done.rows, rows(tmp_path / "rows.jsonl")) == (6, rows(tmp_path / "on"))


def test_a_store_of_the_first_version_is_packed(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    database = sqlite3.connect(tmp_path / "old" / schema.FILE)
    database.executescript((OLD / "half_done.sql").read_text())
    database.close()
    pack(tmp_path / "old", tmp_path / "old.jsonl")
    assert rows(tmp_path / "old.jsonl") == rows(tmp_path / "old") != []


def test_what_readers_see_of_a_file_and_of_its_store_is_the_same(store: Path, tmp_path: Path) -> None:
    pack(store, tmp_path / "rows.jsonl")
    unpack([tmp_path / "rows.jsonl"], tmp_path / "new")
    for place in (tmp_path / "rows.jsonl", tmp_path / "new"):
        with Store(store) as one, Store(place) as other:
            assert [replace(run, source="") for run in other.runs()] == [replace(run, source="") for run in one.runs()]
            assert other.sessions()[-1].versions == one.sessions()[-1].versions
            assert not any(session.alive for session in other.sessions())
            for run in one.runs():
                count = other.counted(run.id, run.budget, run.count)
                assert len(count.rows) == len(one.counted(run.id, run.budget, run.count).rows)
            found = list(other.rows())
            assert len({row.session for row in found}) == 1
            assert other.trace(found[0].task) == {}
            assert other.adversarial(found[0]) is None
            with pytest.raises(OSError, match="originals"):
                other.original(found[0])


def test_folders_of_one_machine_stay_behind(store: Path, tmp_path: Path) -> None:
    with StoreWriter(store) as writer:
        writer._database.execute("UPDATE runs SET source = '/home/somebody/pictures'")
    pack(store, tmp_path / "rows.jsonl")
    text = (tmp_path / "rows.jsonl").read_text()
    assert "/home" not in text
    assert '"source":"pictures"' in text
    assert '["dowse","run","x.toml","--out=out"]' in text


def test_nothing_is_written_where_nothing_is_new(store: Path, tmp_path: Path) -> None:
    file, new = tmp_path / "rows.jsonl", tmp_path / "new"
    assert pack(store, file).new == 7
    assert unpack([file], new).new == 7
    before = file.stat().st_mtime_ns, (new / schema.FILE).read_bytes()
    assert pack(store, file).new == unpack([file, file], new).new == pack(new, file).new == 0
    assert (file.stat().st_mtime_ns, (new / schema.FILE).read_bytes()) == before
    with Store(new) as opened:
        assert len(opened.sessions()) == 2, "the one that wrote the rows, and the one that unpacked them"


def test_a_file_grows_and_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    pack(make_store(tmp_path / "one", [Made("RGF", [10, 20])]), file)
    first = file.read_text().splitlines()
    other = replace(CELL, norm="linf", eps=0.05)
    assert pack(make_store(tmp_path / "two", [Made("RGF", [10, 20, 30]), Made("NES", [5], other)]), file).new == 2
    assert [(row.position, row.queries) for row in rows(file)] == [(0, 10), (1, 20), (2, 30), (0, 5)]
    lines = file.read_text().splitlines()
    assert sum(line not in lines for line in first) <= 2, "what changed is the run's count and the last line"
    unpack([file], tmp_path / "one")
    assert rows(tmp_path / "one") == rows(file)


@pytest.mark.parametrize("into_file", [True, False])
def test_what_contradicts_changes_nothing(tmp_path: Path, into_file: bool) -> None:
    one, two = (make_store(tmp_path / f"{n}", [Made("RGF", [n, 20])]) for n in (11, 12))
    file = tmp_path / "rows.jsonl"
    pack(one, file)
    before = file.read_bytes(), rows(two)
    words = r"image 0 \(0000.png\) of run \w+ \(RGF\) has two results: .* after 1\d .*keep the two apart"
    with pytest.raises(InputError, match=words):
        pack(two, file) if into_file else unpack([file], two)
    assert (file.read_bytes(), rows(two)) == before


ROW = Row(
    run="r", position=0, name="a", checksum="c", end=End.ADVERSARIAL, queries=50, sent=50, budget=100, label=1,
    target_label=None, predicted=2, confidence=0.5, confidence_before=0.5, l2=1.0, linf=0.1, loss=0.25, seconds=1.0,
    seed=0, cause=None,
)  # fmt: skip
OUT = replace(ROW, end=End.BUDGET, queries=95, budget=100)
FAILED = replace(ROW, end=End.TARGET_FAILED, queries=3, cause="nobody listens")
LATER = replace(ROW, queries=300, budget=1000)


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [
        (ROW, replace(ROW, seconds=2.0, finished=3.0, sent=60), ROW),
        (ROW, replace(ROW, l2=1.0001, saved_queries=2), ROW),
        (ROW, FAILED, ROW),
        (OUT, LATER, LATER),
        (OUT, replace(OUT, queries=995, budget=1000), replace(OUT, queries=995, budget=1000)),
        (ROW, replace(ROW, budget=1000), replace(ROW, budget=1000)),
    ],
)
def test_of_two_rows_the_one_that_went_further_is_kept(one: Row, other: Row, kept: Row) -> None:
    assert joined_rows(one, other) == kept
    assert replace(joined_rows(other, one), seconds=1.0, finished=0.0) == replace(
        kept, sent=joined_rows(other, one).sent, l2=joined_rows(other, one).l2,
        saved_queries=joined_rows(other, one).saved_queries,
    )  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        replace(ROW, queries=51), replace(ROW, checksum="d"), replace(ROW, predicted=3), replace(ROW, l2=1.1), OUT,
        replace(ROW, l2=None), replace(FAILED, checksum="d"), replace(OUT, budget=500), replace(OUT, budget=60),
    ],
)  # fmt: skip
def test_rows_that_contradict_each_other(other: Row) -> None:
    for pair in ((ROW, other), (other, ROW)):
        with pytest.raises(ContradictionError):
            joined_rows(*pair)


def test_an_image_that_a_living_process_attacks_is_its_own(tmp_path: Path) -> None:
    file, store = tmp_path / "rows.jsonl", tmp_path / "other"
    pack(make_store(tmp_path / "store", [Made("RGF", [10, 20, 30])]), file)
    unpack([file], store)
    with StoreWriter(store) as writer:
        writer._database.execute("DELETE FROM rows")
        (run,) = writer.runs()
        assert writer.claim(run.id, run.budget, 3) is not None
        done = unpack([file], store)
        assert (done.rows, done.new, done.held) == (2, 2, 1)
        assert [row.position for row in rows(store)] == [1, 2]
    assert unpack([file], store).new == 1
    assert rows(store) == rows(file)


def test_the_log_and_the_trace_of_what_is_replaced_go(tmp_path: Path) -> None:
    less, more = (
        make_store(tmp_path / name, [Made("RGF", [taken])]) for name, taken in (("less", None), ("more", 1500))
    )
    for folder, budget in ((less, 1000), (more, 2000)):
        with StoreWriter(folder) as writer:
            writer._database.execute("UPDATE rows SET budget = ?", (budget,))
            writer._database.execute("INSERT INTO answers VALUES (?, x'00')", (schema.answer_keys(1)[0],))
    pack(more, tmp_path / "rows.jsonl")
    assert unpack([tmp_path / "rows.jsonl"], less).new == 1
    with Store(less) as store:
        (row,) = store.rows()
        assert (row.queries, store.logged(row.run), store.trace(row.task)) == (1500, (0, 0), {})


def test_ten_thousand_rows_are_less_than_two_megabytes(tmp_path: Path) -> None:
    """By the bytes of one row, with numbers as long as they are."""
    long = {"l2": 12.266855785190774, "linf": 0.03162279725074768, "loss": 0.40879344940185547, "queries": 1234}
    sure = {"confidence": 0.343289, "confidence_before": 0.666971, "label": 305, "predicted": 302}
    with Store(make_store(tmp_path / "store", [Made("RGF", [10])])) as store:
        found = packed_of(store)
    (run,) = found.runs.values()
    alone = len(packed_text(found).encode())
    for place in range(1, 101):
        row = replace(run.rows[0], position=9000 + place, name="0000.jpg", checksum="a15edebca3adaa29", **long, **sure)
        run.rows[9000 + place], run.wrote[9000 + place] = replace(row, sent=1234, finished=1794921501.538), run.wrote[0]
    assert (len(packed_text(found).encode()) - alone) / 100 < 180


def test_a_file_is_json_a_line(store: Path, tmp_path: Path) -> None:
    pack(store, tmp_path / "rows.jsonl")
    head, *lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().split("\n")[:-1]]
    columns = head["columns"]
    told = [dict(zip(columns, line, strict=False)) for line in lines if isinstance(line, list)]
    assert [row["queries"] for row in told] == [row.queries for row in rows(store)]
