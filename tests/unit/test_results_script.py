"""experiments/results.py: cells, headings and claims as docs/results shows them."""

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from dowse.core.result import End
from dowse.store import Counted, Store, StoreWriter
from tests.scripts import experiment_script
from tests.stores import Made, make_store


@pytest.fixture(scope="module")
def results() -> ModuleType:
    return experiment_script("results")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    wrong = [End.ADVERSARIAL] * 11 + [End.ALREADY_WRONG]
    runs = [Made("better", [*range(10, 120, 10), 1], ends=wrong), Made("other", [None, *range(120, 220, 10), 1])]
    return Store(make_store(tmp_path, runs))


EMPTY = Counted([], [], [], unfinished=30)


def cell(store: Store, number: int, wanted: int = 12) -> Counted:
    return store.counted(store.runs()[number].id, 1000, wanted)


def test_a_cell_says_success_queries_median_and_how_much_is_missing(results: ModuleType, store: Store) -> None:
    assert results.words_of(cell(store, 0)) == "100.0% [74%, 100%] / 60 / 60 (11)"
    assert results.words_of(cell(store, 1, wanted=50)).endswith("(12, 12 of 50 images so far)")
    assert results.words_of(EMPTY) == "–"


def test_a_claim_compares_the_images_that_both_rows_attacked(results: ModuleType, store: Store) -> None:
    better, other = cell(store, 0).by_image(), cell(store, 1).by_image()
    (line,) = results.claim("first", 1, "net", better, other)
    assert line == "| first | 1 | net | 11 | 60 against 241 | 11 / 0 / 0 | 0.00098 | holds |"
    (line,) = results.claim("first", 1, "net", other, better)
    assert line.endswith("| 0 / 11 / 0 | 0.00098 | the opposite |")
    (line,) = results.claim("first", 1, "net", better, better)
    assert line.endswith("| 0 / 0 / 11 | 1 | open |")
    assert not list(results.claim("first", 1, "net", better, {}))


def test_all_targets_together_are_each_image_of_each(
    results: ModuleType, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = {"better": cell(store, 0), "other": cell(store, 1)}
    monkeypatch.setattr(results, "CLAIMS", [("first", (1,), *cells)])
    lines = list(results.claims({"table1": {"one net": cells, "other net": cells}}))
    assert lines[-1] == "| first | 1 | all | 22 | 60 against 241 | 22 / 0 / 0 | 4.8e-07 | holds |"
    assert [line.split(" | ")[2] for line in lines[-3:]] == ["one net", "other net", "all"]


def test_a_column_may_lack_rows(results: ModuleType, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = {"better": cell(store, 0), "other": cell(store, 1)}
    ours = {"one net": cells, "other net": {"better": cells["better"]}}
    monkeypatch.setattr(results, "CLAIMS", [("first", (1,), *cells)])
    assert [line.split(" | ")[2] for line in list(results.claims({"table1": ours}))[-2:]] == ["one net", "all"]
    *_, line = results.table(ours, {"columns": [], "rows": {}})
    assert line.startswith("| other |")
    assert line.endswith("| – |")


def test_failures_count_at_the_budget(results: ModuleType, tmp_path: Path) -> None:
    with Store(make_store(tmp_path, [Made("better", [10]), Made("other", [None])])) as store:
        (line,) = results.claim("first", 1, "net", cell(store, 0, 1).by_image(), cell(store, 1, 1).by_image())
    assert line == "| first | 1 | net | 1 | 10 against 1000 | 1 / 0 / 0 | 1 | open |"


def test_a_cell_is_whole_when_all_that_can_be_read_is_done(results: ModuleType, tmp_path: Path) -> None:
    ends = [End.ADVERSARIAL, End.TARGET_FAILED, End.BUDGET]
    make_store(tmp_path, [Made("whole", [10, 20]), Made("failed", [10, 20, 30], ends=ends)])
    with StoreWriter(tmp_path) as store:
        whole, failed = (SimpleNamespace(spec=run, budget=1000, count=3) for run in store.runs())
        store._database.execute(
            "UPDATE tasks SET position = position + 1 WHERE run = ? AND position = 1", [whole.spec.id]
        )
        store._database.execute(
            "INSERT INTO tasks (run, position, name, skipped) VALUES (?, 1, 'broken.png', 'no picture')",
            [whole.spec.id],
        )
        two = SimpleNamespace(spec=whole.spec, budget=1000, count=2)
        assert results.words_of(results.cell_of(two, store, 50)) == "100.0% [34%, 100%] / 15 / 15 (2)"
        assert results.words_of(results.cell_of(whole, store, 3)).endswith(
            "(2)"
        )  # the set has three images, one is broken
        assert results.words_of(results.cell_of(whole, store, 50)).endswith("(2, 2 of 3 images so far)")
        assert results.words_of(results.cell_of(failed, store, 3)).endswith("/ 10 / ∞ (2, 2 of 3 images so far)")


def test_a_prior_is_what_the_first_iterations_saw_of_it(results: ModuleType, tmp_path: Path) -> None:
    λ = [{"queries": 12, "alpha": 0.02, "lam": 1}, {"queries": 14, "alpha": 0.5, "lam": 0.5}]
    μ = [{"queries": 12, "mu": 0.41}, {"queries": 64, "mu": 0.42}, {"queries": 66, "mu": 1}, {"queries": 68, "mu": 1}]
    made = [Made("λ*", [10, 20, 30], points=λ), Made("μ*", [10, 20, 30], points=μ), Made("none", [5], traces=0)]
    with Store(make_store(tmp_path, made)) as store:
        prgf, averaging, none = (cell(store, number) for number in range(3))
        (line,) = results.prior(3, "net", prgf, averaging, store)
        assert line == "| 3 | net | 3 | 0.0200 (0.0200–0.0200) | 50% | 75% |"
        assert not list(results.prior(3, "net", none, averaging, store))


def test_a_heading_says_command_date_seed_and_versions(results: ModuleType, store: Store) -> None:
    lines = list(results.heading("table1", {"net": {"better": cell(store, 0)}}, store.sessions()))
    assert lines[0] == "# Table 1: normal models, l2"
    assert "    dowse run experiments/here/table1.toml --out out/here" in lines
    (run,) = (line for line in lines if line.startswith("Run "))
    assert ", seed 0, with dowse " in run
    assert "torch 2" in run
    assert "platform" not in run
    assert "Not run yet." in list(results.heading("table1", {"net": {"better": EMPTY}}, []))
