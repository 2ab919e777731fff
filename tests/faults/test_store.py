"""A full disk, a folder that cannot be written, a locked and a damaged store: said clearly, and nothing is lost."""

import errno
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dowse.core.outcome import End
from dowse.errors import TargetFailedError
from dowse.experiment.file import make_experiment
from dowse.running.engines import LocalEngine
from dowse.running.run_experiment import run_experiment
from dowse.store import Store, StoreError, StoreWriter, schema
from tests.victims import ROWS, image_file, rows_seen, tables


def run(out: Path, said: dict[str, Any], **more: Any) -> Any:
    return run_experiment(make_experiment(said, source="test"), out, LocalEngine(), **more)


def ends(out: Path) -> list[tuple[int, End, int]]:
    with Store(out) as store:
        return [(row.position, row.end, row.queries) for row in store.rows()]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv(ROWS, str(tmp_path / "rows"))
    return tables(image_file(tmp_path, 6), budget=60)


def test_a_full_disk_ends_the_run_and_loses_nothing(
    tmp_path: Path, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out, rows = tmp_path / "whole", tmp_path / "out", tmp_path / "rows"
    run(whole, said)
    once = rows_seen(rows)
    rows.unlink()

    begin = StoreWriter.begin

    def on_a_small_disk(self: StoreWriter, *arguments: Any) -> tuple[int, int]:
        found = begin(self, *arguments)
        (pages,) = self._database.execute("PRAGMA page_count").fetchone()
        self._database.execute(f"PRAGMA max_page_count = {pages}")
        return found

    monkeypatch.setattr(StoreWriter, "begin", on_a_small_disk)
    with pytest.raises(StoreError, match=r"disk is full.*make room.*Everything committed so far is kept"):
        run(out, said)
    monkeypatch.setattr(StoreWriter, "begin", begin)
    in_flight = rows_seen(rows)
    with Store(out) as store:
        assert store.logged(store.runs()[0].id)[0] > 0
    run(out, said)
    assert ends(out) == ends(whole)
    twice = rows_seen(rows) - once
    assert not once - rows_seen(rows)
    assert sum(twice.values()) <= 4 * 10  # no more than a round of four images
    assert twice <= in_flight


def test_no_room_for_an_image_leaves_no_row_that_names_it(
    tmp_path: Path, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("safetensors.torch.save_file", full)
        with pytest.raises(StoreError, match=r"No space left.*The disk is full: make room"):
            run(tmp_path / "out", said)
    run(tmp_path / "out", said)
    run(tmp_path / "whole", said)
    assert ends(tmp_path / "out") == ends(tmp_path / "whole")
    assert not list((tmp_path / "out").rglob("*.partial"))


@pytest.mark.parametrize("place", ["a file/out", "/proc/out"])
def test_a_folder_that_cannot_be_written(tmp_path: Path, said: dict[str, Any], place: str) -> None:
    (tmp_path / "a file").touch()
    with pytest.raises(StoreError, match=r"cannot write to .*out.*Give a folder that can be written"):
        run(tmp_path / place, said)
    assert not rows_seen(tmp_path / "rows")


def test_a_database_that_can_only_be_read(
    tmp_path: Path, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    StoreWriter(out).close()
    monkeypatch.setattr(schema, "_address", lambda file, mode="": f"{file.as_uri()}?mode=ro")
    with pytest.raises(StoreError, match="Give a folder that can be written"):
        run(out, said)
    assert not rows_seen(tmp_path / "rows")


def test_a_locked_store(tmp_path: Path, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    StoreWriter(out).close()
    monkeypatch.setattr(schema, "WAIT", 0.05)
    other = sqlite3.connect(out / schema.FILE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=r"locked.*Another process"):
        run(out, said)
    other.execute("ROLLBACK")
    other.close()
    run(out, said)
    assert len(ends(out)) == 6


@pytest.mark.parametrize("where", [0, 4096 + 100])
def test_a_damaged_store_is_refused_before_anything_is_asked(tmp_path: Path, said: dict[str, Any], where: int) -> None:
    out = tmp_path / "out"
    run(out, said)
    seen = rows_seen(tmp_path / "rows")
    file = out / schema.FILE
    content = bytearray(file.read_bytes())
    content[where : where + 4000] = bytes(b ^ 0x5A for b in content[where : where + 4000])
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged or no store at all"):
        run(out, said)
    with pytest.raises(StoreError, match=r"damaged or no store at all"):
        ends(out)
    assert rows_seen(tmp_path / "rows") == seen
    assert bytes(content) == file.read_bytes()


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        Store(tmp_path)


def test_a_damaged_log_starts_its_image_anew(tmp_path: Path, said: dict[str, Any]) -> None:
    run(tmp_path / "out", said | {"budget": 20})
    run(tmp_path / "whole", said)
    with sqlite3.connect(tmp_path / "out" / schema.FILE) as raw:
        raw.execute("UPDATE answers SET block = x'00' WHERE key IN (SELECT max(key) FROM answers)")
    raw.close()
    run(tmp_path / "out", said)
    assert ends(tmp_path / "out") == ends(tmp_path / "whole")
    with Store(tmp_path / "out") as store:
        assert store.replays(store.runs()[0].id)["restarts"] == 1


def test_a_dead_target_ends_the_run_with_its_cause_and_is_tried_again_later(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    out = tmp_path / "out"
    dead = said | {"target": "torch:tests.victims:sometimes_dead", "images": str(image_file(tmp_path, 30))}
    file = tmp_path / "dead"
    file.touch()
    dead["target"] += f"#file={file}"
    with pytest.raises(TargetFailedError, match=r"10 images in a row.*ConnectionError: nobody listens"):
        run(out, dead)
    assert {end for _, end, _ in ends(out)} == {End.TARGET_FAILED}
    file.unlink()
    run(out, dead)
    assert len(ends(out)) == 30
    assert End.TARGET_FAILED not in {end for _, end, _ in ends(out)}
