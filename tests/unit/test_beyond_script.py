"""experiments/beyond.py: ours beside another method, on the images and within the budget that both have."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from dowse.core.outcome import End
from dowse.store import Row, Store
from dowse.store.pack import pack
from tests.scripts import EXPERIMENTS, experiment_script
from tests.stores import Made, make_store


@pytest.fixture(scope="module")
def beyond() -> ModuleType:
    return experiment_script("beyond")


@pytest.fixture
def sides(tmp_path: Path) -> list[dict[str, Row]]:
    runs = [Made("ours", [2, 2, 2, 2, 4, 12]), Made("theirs", [10, 20, 30, 40, None])]
    with Store(make_store(tmp_path, runs, budget=100)) as store:
        return [{row.checksum: row for row in store.rows(run.id)} for run in store.runs()]


def test_a_pair_stands_on_common_images_with_failures_at_the_budget(
    beyond: ModuleType, sides: list[dict[str, Row]]
) -> None:
    found = beyond.pair("theirs", 10_000, *sides)
    assert (found.ours.n, found.budget, found.given) == (5, 10_000, 100)  # nobody knows what becomes of the fifth
    assert found.ratio == pytest.approx(12 / 200)
    assert (found.means[1], found.shares[1], found.ratio_words) == ("≥ 40", "80% in ≥ 100", "≤ 0.06")
    assert found.meets(beyond.Setting("l2", 0.2, 2))
    assert not found.meets(beyond.Setting("l2", 0.05))
    assert not beyond.pair("ours", 10_000, *reversed(sides)).meets(beyond.Setting("l2", 100.0))  # fools fewer


def test_the_best_other_is_one_that_was_run_on_enough_images(beyond: ModuleType, sides: list[dict[str, Row]]) -> None:
    slow, far = (beyond.pair(name, 10_000, *sides) for name in ("slow", "far"))
    quick = replace(far, other="quick", theirs=replace(far.theirs, mean_queries_budget=10.0))
    few = replace(
        quick, other="few", ours=replace(quick.ours, n=2), theirs=replace(quick.theirs, mean_queries_budget=5.0)
    )
    assert [one.other for one in beyond.best_first([few, slow, quick])] == ["quick", "slow", "few"]
    assert beyond.best_first([]) == []


def test_too_few_common_images_say_nothing(beyond: ModuleType, sides: list[dict[str, Row]]) -> None:
    fewer = dict(list(sides[0].items())[:4])
    assert beyond.pair("theirs", 10_000, fewer, sides[1]) is None


def test_where_ours_fails_too_the_smallest_budget_of_a_failure_cuts_both_sides(
    beyond: ModuleType, sides: list[dict[str, Row]]
) -> None:
    early = {name: replace(row, budget=25) if row.end is End.BUDGET else row for name, row in sides[1].items()}
    last = list(sides[0])[4]
    failing = {**sides[0], last: replace(sides[0][last], end=End.BUDGET, queries=50, budget=50)}
    found = beyond.pair("theirs", 10_000, failing, early)
    assert (found.budget, found.given) == (25, 25)
    assert found.ratio_words == f"{found.ratio:.2f}"
    assert found.theirs.successes == 2
    assert found.theirs.mean_queries_budget == pytest.approx((10 + 20 + 25 + 25 + 25) / 5)


def test_where_ours_fails_with_all_of_the_budget_the_others_count_as_what_they_spent(
    beyond: ModuleType, sides: list[dict[str, Row]]
) -> None:
    *_, fourth, last = list(sides[0])[:5]
    failed = replace(sides[0][last], end=End.BUDGET, queries=500, budget=500)
    ours = {**sides[0], last: failed}
    theirs = {**sides[1], last: failed, fourth: replace(sides[1][fourth], end=End.BUDGET, queries=70, budget=70)}
    found = beyond.pair("theirs", 500, ours, theirs)
    assert (found.budget, found.given, found.ours.successes) == (500, 70, 4)
    assert found.ratio == pytest.approx((2 * 4 + 500) / (10 + 20 + 30 + 70 + 500))
    assert found.shares == ("80%", "60% in ≥ 70")
    may_fool_all = {**theirs, last: replace(failed, queries=300, budget=300)}
    assert beyond.pair("theirs", 500, ours, may_fool_all).budget == 70  # which is then the largest that is known of


def test_a_bound_above_the_bar_tells_nothing(beyond: ModuleType, sides: list[dict[str, Row]]) -> None:
    slow = {name: replace(row, queries=90 + row.queries) for name, row in sides[0].items()}
    found = beyond.pair("theirs", 10_000, slow, sides[1])
    assert (found.budget, found.ratio_words) == (10_000, "≤ 2.31")
    within = beyond.pair("theirs", 10_000, slow, sides[1], bar=0.5)
    assert (within.budget, within.given, within.ours.successes) == (100, 100, 5)
    assert beyond.pair("theirs", 100, slow, sides[1], bar=0.5).ratio_words == "2.31"


def test_a_run_cut_short_counts_up_to_its_first_unfinished_image(
    beyond: ModuleType, sides: list[dict[str, Row]]
) -> None:
    rows = list(sides[0].values())
    assert beyond.leading(rows) == rows
    assert beyond.leading([rows[0], rows[1], rows[3], rows[4]]) == rows[:2]
    assert beyond.leading([rows[1], rows[2], rows[0]]) == rows[:3]


def test_every_file_of_the_bar_has_its_place(beyond: ModuleType) -> None:
    files = {file.stem for file in (EXPERIMENTS / "beyond").glob("*.toml")}
    assert files == beyond.SETTINGS.keys() | {"useless", "robust"}


def test_a_packed_file_stands_for_its_store(beyond: ModuleType, tmp_path: Path) -> None:
    folder, file = make_store(tmp_path / "store", [Made("ours", [2, 4, None])]), tmp_path / "rows.jsonl"
    pack(folder, file)
    with Store(folder) as one, Store(file) as other:
        (run,) = one.runs()
        found = [beyond.attacked([store], run.id) for store in (one, other)]
    told = [[(image, row.end, row.queries, row.budget) for image, row in rows.items()] for rows in found]
    assert told[0] == told[1]
    assert len(told[0]) == 3


def test_a_defence_is_a_setting_of_the_model_behind_it(beyond: ModuleType, sides: list[dict[str, Row]]) -> None:
    found = [beyond.pair("theirs", 10_000, *sides)]
    tables = {
        "l2": {("A", "l2"): found, ("B", "l2"): []},
        "defences": {("JPEG 75 + A", "l2"): found},
    }
    heads, _, *lines = beyond.matrix(tables)
    assert heads == "| queries, ours : best other | A |"
    assert lines == [
        "| l2, the paper's ε, one surrogate | **2.4** : ≥ 40 theirs |",
        "| l2, JPEG 75 | **2.4** : ≥ 40 theirs |",
    ]
    assert list(beyond.missing(tables)) == ["- `l2`: B (l2)"]


def test_where_ours_fails_the_shares_are_said(beyond: ModuleType, sides: list[dict[str, Row]]) -> None:
    assert beyond.beside(beyond.pair("ours", 10_000, *reversed(sides))) == "**40 (80%)** : 2.4 (100%) ours"


def test_inception_has_the_bar_of_its_norm(beyond: ModuleType) -> None:
    setting = beyond.SETTINGS["inception"]
    assert [setting.in_norm(norm).bar for norm in ("l2", "linf")] == [0.2, 0.3]
    assert beyond.SETTINGS["none"].in_norm("linf").bar == 0.95
