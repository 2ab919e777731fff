"""What a report compares: runs on the same images only, in the direction of the test, and in two stores alike."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dowse.core.outcome import End
from dowse.report import compare_stores, write_html, write_text
from dowse.report.data.cells import best, fill, how_ranked
from dowse.report.data.gather import gather
from dowse.report.data.model import Report
from dowse.report.data.statistics import rank_sum, wilcoxon
from dowse.store import Store
from tests.stores import CELL, Made, data_of, make_store

EASY, HARD = [1, 2, 3, 4], [10, 20, 30, 40, 50, 60, 70, None]


def read(folder: Path) -> Report:
    with Store(folder) as store:
        return gather(store)


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """Two methods on eight images, and one that looks better than both on the first four."""
    return make_store(tmp_path / "out", [Made("RGF", HARD), Made("NES", [90] * 8), Made("P-RGF", EASY)])


def test_best_is_chosen_among_runs_on_the_same_images(uneven: Path) -> None:
    (table,) = read(uneven).tables
    assert [entry.method for entry in table.groups[0].comparable] == ["RGF", "NES"]
    cells = {method: groups[0] for method, groups in fill(table).items()}
    assert [[cell.best for cell in cells[method]] for method in ("RGF", "NES", "P-RGF")] == [
        [False, True, True], [True, False, False], [False, False, False],
    ]  # fmt: skip
    assert [cells[method][0].images for method in ("RGF", "P-RGF")] == ["", "4 images"]
    assert "ResNet-18, 2 of 3 methods on 8 images" in how_ranked(table)


def test_every_form_says_of_how_many_images_a_cell_is(uneven: Path) -> None:
    page = write_html(uneven).read_text()
    assert "<small>4 images</small>" in page
    assert "<strong>RGF</strong> fools half of the images within" in page
    assert "Not ranked: 1 method on other or fewer images." in page
    assert "4 to 8 of images" in page
    for form in ("markdown", "latex"):
        assert "4 images" in write_text(uneven, form)
        assert "2 of 3 methods on 8 images" in write_text(uneven, form)


def test_equal_images_need_no_words(tmp_path: Path) -> None:
    folder = make_store(tmp_path, [Made("RGF", HARD), Made("P-RGF", HARD[::-1])])
    assert how_ranked(read(folder).tables[0]) == ""
    assert "<small>8 images</small>" not in write_html(folder).read_text()


def test_nothing_is_best_where_no_two_attacked_the_same_images(tmp_path: Path) -> None:
    folder = make_store(tmp_path, [Made("RGF", HARD), Made("P-RGF", EASY)])
    (table,) = read(folder).tables
    assert not any(cell.best for groups in fill(table).values() for cell in groups[0])
    assert "no two methods attacked the same images" in write_html(folder).read_text()


def test_the_only_finite_median_is_best_and_infinite_ones_never_are() -> None:
    assert best([math.inf, 60.0, math.inf, math.nan], largest=False) == {1}
    assert best([math.inf, math.inf], largest=False) == set()
    assert best([60.0, math.nan], largest=False) == set()
    assert best([0.5, 0.5, 0.25], largest=True) == {0, 1}


def test_the_rank_sum_tells_the_direction_where_wins_tell_another(tmp_path: Path) -> None:
    differences = np.array([-1.0] * 12 + [100.0 + i for i in range(10)])  # fewer on 12 images, far more on 10
    assert rank_sum(differences) == sum(range(13, 23)) - 12 * 6.5
    assert rank_sum(-differences) == -rank_sum(differences)
    assert wilcoxon(np.array([-1.0, 100.0, 101, 102, 103, 104, 105, 106, 107])) < 0.05
    first = [49] * 12 + [200 + i for i in range(10)]
    folder = make_store(tmp_path, [Made("first", first), Made("second", [50] * 12 + [100] * 10)])
    (pair,) = data_of(write_html(folder).read_text())["tables"][0]["groups"][0]["pairs"]
    assert (pair[3], pair[4], pair[8]) == (12, 10, 1)
    assert json.loads(write_text(folder, "json"))["tables"][0]["groups"][0]["paired"][0]["rank_sum"] == 97


def test_two_stores_are_measured_on_their_common_images(tmp_path: Path) -> None:
    before = make_store(tmp_path / "a", [Made("RGF", HARD)])
    after = make_store(tmp_path / "b", [Made("RGF", EASY, replace(CELL, seed=1))])
    (match,) = compare_stores(before, after).matches
    assert match.paired.n == 4
    assert [numbers.summary.n for numbers in match.numbers] == [4, 4]
    assert [numbers.summary.median_queries for numbers in match.numbers] == [25, 2.5]
    assert "ASR 100.0% → 100.0%" in compare_stores(before, after).to("text")


def test_two_stores_without_a_common_image_have_nothing_to_compare(tmp_path: Path) -> None:
    before = make_store(tmp_path / "a", [Made("RGF", HARD[:2])])
    wrong = [End.ALREADY_WRONG] * 2
    after = make_store(tmp_path / "b", [Made("RGF", EASY, ends=[*wrong, End.ADVERSARIAL, End.ADVERSARIAL])])
    text = compare_stores(before, after).to("text")
    assert "no images in common, so nothing to compare" in text
    assert "Wilcoxon" not in text


def test_an_infinite_median_of_a_comparison_reads_inf(tmp_path: Path) -> None:
    folder = make_store(tmp_path, [Made("RGF", [None] * 4)])
    versus = compare_stores(folder, folder)
    (match,) = json.loads(versus.to("json"))["matches"]
    assert (match["median_queries_before"], match["mean_queries_before"]) == ("inf", None)
    assert ",inf," in versus.to("csv")


def test_runs_that_differ_in_labels_alone_have_columns_of_their_own_name(tmp_path: Path) -> None:
    runs = [Made("RGF", EASY, replace(CELL, image_set=name)) for name in ("0123456789@8", "0123456789-target@8")]
    (table,) = read(make_store(tmp_path, runs)).tables
    first, second = (group.name for group in table.groups)
    assert first != second
    assert "the target's labels" in second
