"""The audit's page in a real browser: the sentence, the curve and the gate's verdict are there to be read."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dowse.audit.requirements import parse_requirement
from dowse.audit.result import Audit, audit_of
from dowse.core.outcome import End
from tests.stores import CELL, Made, make_store
from tests.unit.test_audit import LOOK

pytestmark = pytest.mark.browser

TAKEN, SLOW = [2, 2, 3, 3, 9, 40, 60, None, 1], [20, 30, 2, None, 90, 300, 55, None, 1]
ENDS = [End.ADVERSARIAL] * 7 + [End.BUDGET, End.ALREADY_WRONG]
LINF = replace(CELL, norm="linf")


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    slow = [End.BUDGET if taken is None else end for taken, end in zip(SLOW, ENDS, strict=True)]
    runs = [
        Made("Dowse", TAKEN, ends=ENDS), Made("Square", SLOW, ends=slow),
        Made("Dowse", TAKEN, LINF, ends=ENDS), Made("Square", SLOW, LINF, ends=slow),
    ]  # fmt: skip
    wanted = [parse_requirement(text) for text in ("half >= 3", "accuracy@100 >= 0.3")]
    folder = make_store(tmp_path_factory.mktemp("audit"), runs)
    return audit_of(folder, None, LOOK, wanted, ["dowse", "audit", "--target", CELL.target, "--images", "pictures"])


@pytest.fixture(scope="module")
def page(audit: Audit) -> Path:
    audit.html(audit.folder / "audit.html")
    return audit.folder / "audit.html"


def test_the_sentence_comes_first_and_the_verdict_after_it(browser: Any, page: Path) -> None:
    browser.open(page)
    assert browser.complaints() == []
    assert [address for address in browser.requests() if not address.startswith("data:")] == [page.as_uri()]
    first = browser.find("h1 .sentence[data-norm=l2]").text.splitlines()
    assert first[-1] == (
        "Of the 8 pictures that your model gets right, half fall within 3 queries; 1 withstands 1,000 queries."
    )
    assert " ".join(browser.find("#verdict").text.split()) == "Not passed 2 of 4 requirements met"
    rows = browser.run("return [...document.querySelectorAll('.gate tbody tr')].map((row) => row.cells[2].innerText)")
    assert rows == ["met", "met", "not met", "not met"]


def test_the_curve_tells_the_accuracy_left(browser: Any, page: Path) -> None:
    browser.open(page)
    browser.wait("return document.querySelectorAll('.slot-left svg.chart').length === 2")
    charts = "[...document.querySelectorAll('.slot-left svg.chart')]"
    assert browser.run(f"return {charts}.map((chart) => chart.querySelectorAll('.curve').length)") == [3, 3]
    assert browser.run("return document.querySelectorAll('.slot-left .curve.heavy').length") == 2
    at = (
        "const svg = document.querySelector('.slot-left svg.chart'), box = svg.getBoundingClientRect();"
        "svg.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + arguments[0], clientY: box.top + 40}));"
        "return document.querySelector('.slot-left .tip').textContent"
    )
    start = browser.run(at, 47)
    assert "after 1 query" in start
    assert "88.9%" in start  # 8 of 9 are right unchanged
    width = browser.run("return document.querySelector('.slot-left svg.chart').clientWidth")
    end = browser.run(at, width - 13)
    assert "Strongest attack on each" in end
    assert "11.1%" in end  # 1 of 9 is left
    legend = "return document.querySelector('.slot-legend').textContent"
    assert "Strongest attack on each" in browser.run(legend)


def test_the_gallery_looks_as_in_the_report(browser: Any, page: Path) -> None:
    browser.open(page)
    browser.wait("return document.querySelector('.card .verdict')")
    assert browser.run("return getComputedStyle(document.querySelector('.card .verdict')).borderTopStyle") == "none"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_it_fits_every_window(browser: Any, page: Path, width: int, scheme: str) -> None:
    browser.open(page, width=width, scheme=scheme)
    browser.wait("return document.querySelectorAll('.slot-left svg.chart').length === 2")
    assert browser.overflow() <= 0
    browser.wait("return document.querySelector('[data-card]')")
    browser.click("[data-card]")
    browser.wait("return document.getElementById('dialog').open")
    assert browser.complaints() == []
