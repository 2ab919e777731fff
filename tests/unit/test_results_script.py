"""experiments/results.py: cells, headings and claims as docs/results shows them."""

import doctest
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from dowse.core.outcome import End
from dowse.store import Counted, Store, StoreWriter
from dowse.store.pack import pack
from tests.scripts import experiment_script
from tests.stores import Made, make_store


@pytest.fixture
def results() -> ModuleType:
    return experiment_script("results")


@pytest.fixture
def claims(results: ModuleType) -> ModuleType:
    found: ModuleType = results.claims
    return found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    wrong = [End.ADVERSARIAL] * 11 + [End.ALREADY_WRONG]
    runs = [Made("better", [*range(10, 120, 10), 1], ends=wrong), Made("other", [None, *range(120, 220, 10), 1])]
    return Store(make_store(tmp_path, runs))


EMPTY = Counted([], [], [], unfinished=30)


def cell(store: Store, number: int, wanted: int = 12) -> Counted:
    return store.counted(store.runs()[number].id, 1000, wanted)


def test_a_cell_says_success_queries_median_and_how_much_is_missing(results: ModuleType, store: Store) -> None:
    assert results.words_of([cell(store, 0)]) == "100.0% [74%, 100%] / 60 / 60 (11)"
    assert results.words_of([cell(store, 1, wanted=50)]).endswith("(12, 12 of 50 images so far)")
    assert results.words_of([EMPTY]) == "–"


def cells_of(store: Store) -> dict[str, list[Counted]]:
    return {"better": [cell(store, 0)], "other": [cell(store, 1)]}


@pytest.fixture
def first_claim(claims: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "CLAIMS", [("first", ("table1",), "better", "other")])


def test_a_claim_compares_the_images_that_both_rows_attacked(
    claims: ModuleType, store: Store, first_claim: None
) -> None:
    ((line,), pooled) = claims.lines_of({"table1": {"net": cells_of(store)}}, {"net": "Net"})
    assert (line.target, line.images, line.fewer, line.more) == ("Net", 11, 11, 0)
    assert line.means == pytest.approx((60, 241), abs=0.5)
    assert not pooled  # one target is not several
    text = list(claims.page([line]))
    assert "| first | 1 | holds on 1 | Net holds (11 : 0) |" in text
    assert text[-1] == "| first | 1 | Net | 11 | 60 against 241 | 11 / 0 / 0 | 0.00098 | 0.00098 | holds |"
    assert claims.lines_of({"table1": {"net": {"better": [EMPTY], "other": [EMPTY]}}}, {}) == ([], [])


def test_the_lines_of_a_claim_share_one_correction_and_targets_may_disagree(claims: ModuleType) -> None:
    def line(target: str, fewer: int, more: int) -> object:
        return claims.Line("first", "table1", target, fewer + more, (1.0, 2.0), fewer, more)

    lines = [line("a", 12, 0), line("b", 0, 12), line("c", 9, 2)]
    found = claims.judged(lines)
    assert [verdict for _, _, verdict in found] == ["holds", "the opposite", "open"]
    assert [p for _, p, _ in found] == pytest.approx([3 * 2 / 2**12, 3 * 2 / 2**12, 0.0654], abs=1e-4)
    ((_, word, each),) = claims.verdicts(lines)
    assert word == "**targets disagree**"
    assert each == "a holds (12 : 0), b the opposite (0 : 12), c open (9 : 2)"
    ((_, word, _),) = claims.verdicts([line("a", 12, 0), line("c", 9, 9)])
    assert word == "holds on 1; open on 1"


def test_a_photograph_on_two_targets_is_one_photograph(claims: ModuleType, store: Store, first_claim: None) -> None:
    one, other = cells_of(store), cells_of(store)
    lines, (pooled,) = claims.lines_of({"table1": {"one net": one, "other net": other}}, {})
    assert [line.target for line in lines] == ["one net", "other net"]
    assert pooled.images == 11
    assert pooled.p == pytest.approx(2 / 2**11, abs=6e-4)  # of 11 photographs, not the 5e-07 of 22 images
    assert any(line.startswith("| first | 1 | 11 | ") for line in claims.page(lines, [pooled]))


def test_an_image_counts_by_its_mean_over_seeds_and_the_table_has_their_spread(
    claims: ModuleType, results: ModuleType, tmp_path: Path, first_claim: None
) -> None:
    made = [Made("better", [10, 20, 30]), Made("again", [30, 40, None]), Made("other", [15, 35, 25])]
    with Store(make_store(tmp_path, made)) as store:
        first, again, other = (cell(store, number, 3) for number in range(3))
    ((line,), _) = claims.lines_of({"table1": {"net": {"better": [first, again], "other": [other]}}}, {})
    assert (line.fewer, line.more) == (1, 2)  # 20 against 15, 30 against 35, 515 against 25
    assert line.spread == ([20, pytest.approx(1070 / 3)], [25])
    (later, _) = claims.lines_of({"table1": {"net": {"better": [first, again, EMPTY], "other": [other]}}}, {})
    assert later == [line]  # a seed that has not begun says nothing
    words = results.words_of([first, again])
    assert words == "100.0% [44%, 100%] / 20 / 20 (3); 2 seeds 66.7%–100.0% / 20–35"


def test_a_column_may_lack_rows(claims: ModuleType, results: ModuleType, store: Store, first_claim: None) -> None:
    cells = cells_of(store)
    ours = {"one net": cells, "other net": {"better": cells["better"]}}
    lines, pooled = claims.lines_of({"table1": ours}, {})
    assert [line.target for line in lines] == ["one net"]
    assert not pooled
    *_, line = results.table(ours, {"columns": [], "rows": {}})
    assert line.startswith("| other |")
    assert line.endswith("| – |")


def test_ratios_stand_beside_the_papers(results: ModuleType, store: Store) -> None:
    cells = {"P-RGF (λ*)": [cell(store, 0)], "RGF": [cell(store, 1)]}
    *_, line = results.ratios({"Inception-v3 by ResNet-50": cells})
    assert line == "| P-RGF / RGF | Inception-v3 by ResNet-50 | 11 | 60 / 241 | 0.25 | 60 / 165 | 0.36 | 0.57 |"


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
        assert results.words_of([results.cell_of(two, store, 50)]) == "100.0% [34%, 100%] / 15 / 15 (2)"
        assert results.words_of([results.cell_of(whole, store, 3)]).endswith(
            "(2)"
        )  # the set has three images, one is broken
        assert results.words_of([results.cell_of(whole, store, 50)]).endswith("(2, 2 of 3 images so far)")
        assert results.words_of([results.cell_of(failed, store, 3)]).endswith("/ 10 / ∞ (2, 2 of 3 images so far)")


def test_a_prior_is_what_the_first_iterations_saw_of_it(results: ModuleType, tmp_path: Path) -> None:
    λ = [{"queries": 12, "alpha": 0.02, "lam": 1}, {"queries": 14, "alpha": 0.5, "lam": 0.5}]
    μ = [{"queries": 12, "mu": 0.41}, {"queries": 64, "mu": 0.42}, {"queries": 66, "mu": 1}, {"queries": 68, "mu": 1}]
    made = [Made("λ*", [10, 20, 30], points=λ), Made("μ*", [10, 20, 30], points=μ), Made("none", [5], traces=0)]
    with Store(make_store(tmp_path, made)) as store:
        prgf, averaging, none = (cell(store, number) for number in range(3))
        (line,) = results.prior(3, "net", prgf, averaging, store)
        assert line == "| 3 | net | 3 | 0.0200 (0.0200–0.0200) | 50% | 75% |"
        assert not list(results.prior(3, "net", none, averaging, store))


def test_pages_that_a_store_cannot_fill_stay_as_they_are(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of packed rows writes the tables that it has, and no page of the prior, for which it lacks the traces."""
    file, pages = tmp_path / "rows.jsonl", tmp_path / "pages"
    points = [{"queries": 12, "alpha": 0.02, "lam": 1, "mu": 1}]
    made = [Made("P-RGF (λ*)", [10, 20, 30], points=points), Made("Averaging (μ*)", [10, 20, 30], points=points)]
    pack(make_store(tmp_path / "store", made), file)
    pages.mkdir()
    (pages / "paper.json").write_bytes((results.RESULTS / "paper.json").read_bytes())

    def cells(name: str, store: Store) -> dict[str, dict[str, list[Counted]]]:
        there = {one.title: [cell(store, number, 3)] for number, one in enumerate(made)}
        return {"net": there} if name in there_are else {}

    monkeypatch.setattr(results, "RESULTS", pages)
    monkeypatch.setattr(results, "cells_of", cells)
    there_are = {"table3"}
    results.main(str(file))
    assert sorted(page.name for page in pages.glob("*.md")) == ["claims.md", "table3.md"]
    assert "prior.md stays as it is: nothing of table4, table5, table6 is in the store" in capsys.readouterr().err
    there_are |= {*results.PRIORS, "table1", "table2", "bandits"}
    results.main(str(file))
    assert not (pages / "prior.md").exists()
    assert "prior.md stays as it is: 24 images have no trace" in capsys.readouterr().err
    results.main(str(tmp_path / "store"))
    assert "| 3 | net | 3 | 0.0200" in (pages / "prior.md").read_text()


def test_the_examples_of_pages_run(results: ModuleType) -> None:
    assert not doctest.testmod(results.pages).failed


def test_a_cell_whose_rows_are_gone_stays_with_a_dagger(results: ModuleType, store: Store) -> None:
    page = ["- † Run long ago.", "- Else.", "", "| method | net | other net |", "|---|---|---|", "| better | 50% | – |"]
    page += ["| other | 60% † | 70% |", "", "| method | net |", "|---|---|", "| better | of another table |"]
    ours = {"net": {"better": [EMPTY], "other": [EMPTY]}, "other net": {"better": [EMPTY], "other": [cell(store, 1)]}}
    better, other = list(results.table(ours, {"columns": [], "rows": {}}, results.pages.cells(page)))[2:]
    assert better == "| better | 50% † | – |"
    assert other == f"| other | 60% † | {results.words_of([cell(store, 1)])} |"
    assert results.pages.notes(page) == ["- † Run long ago."]


def test_columns_that_differ_by_a_surrogate_count_the_rows_that_use_none_once(
    claims: ModuleType, store: Store, first_claim: None
) -> None:
    cells = cells_of(store)
    lines, pooled = claims.lines_of({"table1": {"net by one": cells, "net by another": dict(cells)}}, {})
    assert [line.target for line in lines] == ["net by one"]
    assert not pooled


def test_claims_keep_the_lines_whose_rows_are_gone(claims: ModuleType, results: ModuleType, first_claim: None) -> None:
    def line(target: str, fewer: int, seeds: tuple[list[float], list[float]] = ([], [])) -> object:
        return claims.Line("first", "table1", target, 20, (10.0, 20.0), fewer, 20 - fewer, seeds)

    old = [line("a", 12), line("b", 15, ([9.0, 11.0], [20.0]))]
    written = list(results.pages.rows(list(claims.page(old)), "claim", ""))
    together = [claims.Together("first", "table1", 20, 0.5)]
    lines, pooled = claims.grown([line("a", 13), line("c", 20)], together, written)
    assert lines == [line("a", 13), old[1], line("c", 20)]
    assert pooled == []  # of b there are no rows to turn
    assert claims.grown(lines, together, written) == (lines, together)


def test_a_row_that_the_first_column_lacks_stands_where_its_own_column_has_it(results: ModuleType) -> None:
    columns = {"one": ["a", "c"], "two": ["a", "b", "c", "d"], "three": ["z"]}
    ours = {target: {title: [EMPTY] for title in titles} for target, titles in columns.items()}
    assert results.titles_of(ours) == ["z", "a", "b", "c", "d"]


def test_a_page_says_its_budgets(results: ModuleType, tmp_path: Path) -> None:
    with Store(make_store(tmp_path / "a", [Made("a", [10])])) as one:
        most = {"net": {"a": [cell(one, 0, 1)]}, "other": {"a": [cell(one, 0, 1)]}, "none": {"a": [EMPTY]}}
    with Store(make_store(tmp_path / "b", [Made("a", [10])], budget=2000)) as two:
        more = {"third": {"a": [two.counted(two.runs()[0].id, 2000, 1)]}}
    assert results.budgets_of(most) == "Budget 1,000."
    assert results.budgets_of(most | more) == "Budget 1,000; 2,000 for third."


def test_a_heading_says_command_date_seed_and_versions(results: ModuleType, store: Store) -> None:
    lines = list(results.heading("table1", {"net": {"better": [cell(store, 0)]}}, store.sessions()))
    assert lines[0] == "# Table 1: normal models, l2"
    assert "    dowse run experiments/here/table1.toml --out out/here" in lines
    (run,) = (line for line in lines if line.startswith("Run "))
    assert ", seed 0, with dowse " in run
    assert "torch 2" in run
    assert "platform" not in run
    assert "Not run yet." in list(results.heading("table1", {"net": {"better": [EMPTY]}}, []))
