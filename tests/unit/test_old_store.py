"""A store that older code began: half done by version 0.1.0, gone on with by this one.

`old_store/half_done.sql` is the dump of a store whose process was killed in its 26th call of the target, one image
done, two in the middle; `uninterrupted.json` are the rows and traces that the same version left when nobody killed it.
"""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dowse.experiment.file import make_experiment
from dowse.running.engines import LocalEngine
from dowse.running.run_experiment import run_experiment
from dowse.store import Store, StoreWriter, schema
from tests.victims import ROWS, rows_seen, tables

OLD = Path(__file__).parents[1] / "old_store"
BY_A_CLOCK = ("seconds", "finished", "session")
SINCE = {"refused": 0, "queries_until_detected": None}  # columns that the older version did not know


@pytest.fixture
def half_done(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    database = sqlite3.connect(tmp_path / "out" / schema.FILE)
    database.executescript((OLD / "half_done.sql").read_text())
    database.close()
    return tmp_path / "out"


def test_rows_are_those_of_an_uninterrupted_run_of_the_older_code(
    half_done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ROWS, str(tmp_path / "rows"))
    said = tables(OLD / "images.safetensors", budget=40, concurrency=2)
    run_experiment(make_experiment(said, source="test"), half_done, LocalEngine())
    expected = json.loads((OLD / "uninterrupted.json").read_text())
    with Store(half_done) as store:
        (run,) = store.runs()
        found = [{"row": _told(vars(row)), "trace": store.trace(row.task)} for row in store.rows()]
        replayed = store.replays(run.id)
    assert found == [{"row": _nearly(_told(one["row"])) | SINCE, "trace": _columns(one["trace"])} for one in expected]
    assert (replayed["replayed"], replayed["restarts"]) == (18, 0)
    paid_for = sum(one["row"]["queries"] for one in expected)
    assert sum(rows_seen(tmp_path / "rows").values()) == paid_for - 50, "50 rows were answered before the kill"


def test_a_store_that_is_gone_on_with_has_the_tables_of_a_new_one(half_done: Path, tmp_path: Path) -> None:
    """Columns that came later are added, and nothing else: who wrote it can read it as before."""
    old = _tables(half_done)
    for folder in (tmp_path / "new", half_done):
        StoreWriter(folder).close()
    new = _tables(half_done)
    assert _tables(tmp_path / "new") == new
    assert new["rows"] - old["rows"] == {(name, "INTEGER", None, 0) for name in SINCE}
    assert old["rows"] <= new["rows"]
    assert {name: of for name, of in old.items() if name != "rows"} == {
        name: of for name, of in new.items() if name != "rows"
    }


def test_who_only_reads_changes_nothing(half_done: Path) -> None:
    before = _tables(half_done)
    with Store(half_done) as store:
        rows = list(store.rows())
    assert [(row.refused, row.queries_until_detected) for row in rows] == [(0, None)]
    assert _tables(half_done) == before


def _told(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in BY_A_CLOCK}


def _nearly(row: dict[str, Any]) -> dict[str, Any]:
    """A row's numbers as another machine may compute them."""
    return {name: pytest.approx(one, rel=1e-9) if isinstance(one, float) else one for name, one in row.items()}


def _columns(trace: dict[str, list[Any]]) -> dict[str, Any]:
    """A trace's columns, which are kept to six digits, the last of which may be rounded the other way."""
    return {
        name: [pytest.approx(one, rel=2e-5) if isinstance(one, float) else one for one in column]
        for name, column in trace.items()
    }


def _tables(folder: Path) -> dict[str, set[tuple[Any, ...]]]:
    """Each table's columns: name, type, default and whether it is the key; their order means nothing."""
    database = sqlite3.connect(folder / schema.FILE)
    names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {
        name: {(column, kind, default, key) for _, column, kind, _, default, key in _info(database, name)}
        for name in names
    }
    database.close()
    return found


def _info(database: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    return database.execute(f"PRAGMA table_info({table})").fetchall()
