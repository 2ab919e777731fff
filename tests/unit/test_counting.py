"""One rule for the rows that count, wherever a run is read: an outage of the target is no robustness."""

from dataclasses import replace
from pathlib import Path

import pytest

from dowse.core.outcome import End
from dowse.figures.figure2 import compute
from dowse.figures.figure_settings import FigureSettings
from dowse.figures.panel import Laboratory
from dowse.report import compare_stores
from dowse.report.data.gather import gather
from dowse.report.html.facts import failures
from dowse.store import Store, StoreWriter
from tests.stores import Made, make_store

ENDS = [End.ADVERSARIAL, End.ADVERSARIAL, End.BUDGET, End.TARGET_FAILED]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    runs = [Made("outage", [5, 7, None, 9], ends=ENDS, cause="OSError: gone"), Made("whole", [9, 9, 9, 9])]
    return make_store(tmp_path / "out", runs)


def test_the_report_leaves_it_out_of_the_numbers_and_names_it(folder: Path) -> None:
    with Store(folder) as store:
        report = gather(store)
    outage, whole = report.entries
    assert (outage.numbers.summary.n, outage.counted.unfinished, whole.numbers.summary.n) == (3, 1, 4)
    assert outage.numbers.summary.asr == pytest.approx(2 / 3)
    (pair,) = report.tables[0].groups[0].pairs().values()
    assert (pair.n, pair.wins, pair.losses) == (3, 2, 1)
    said = str(failures(report))
    assert End.TARGET_FAILED.sentence in said
    assert "0003.png" in said
    assert "OSError: gone" in said


def test_a_comparison_of_stores_leaves_it_out(folder: Path, tmp_path: Path) -> None:
    make_store(tmp_path / "other", [Made("outage", [5, 7, 8, 9])])
    (match,) = compare_stores(folder, tmp_path / "other").matches
    assert (match.paired.n, match.paired.wins, match.paired.losses) == (3, 0, 1)


def test_figure_2_leaves_it_out(folder: Path) -> None:
    (panel,) = compute(Laboratory(replace(FigureSettings(), store=folder)))["panels"]
    assert [curve["attacked"] for curve in panel["curves"]] == [3, 4]


def test_a_smaller_budget_that_ran_out_is_no_loss(folder: Path) -> None:
    with StoreWriter(folder) as store:
        store._database.execute("UPDATE runs SET budget = 2000")
        store._database.execute("UPDATE rows SET budget = 2000 WHERE \"end\" = 'adversarial'")
    with Store(folder) as store:
        (pair,) = gather(store).tables[0].groups[0].pairs().values()
    assert (pair.n, pair.wins, pair.losses) == (2, 2, 0)
