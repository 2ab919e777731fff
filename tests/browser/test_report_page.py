"""The report in a real browser: it opens from disk, and everything on it does what it says."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dowse.core.outcome import End
from tests.stores import CELL, Made

pytestmark = pytest.mark.browser

FAST, SLOW = [10, 20, 30, 40, None, 60, 70, 80], [100, 200, 300, None, None, 600, 700, 800]
OTHER = replace(CELL, target="dowse:imagenet_mobilenetv2")
EVIL = '</script><script>window.evil = 1</script><img src=x onerror="window.evil = 2">'


@pytest.fixture
def usual(page: Callable[..., Path]) -> Path:
    runs = [Made("RGF", SLOW), Made("P-RGF", FAST), Made("NES", [None] * 8), Made("RGF", FAST, OTHER)]
    return page("usual", [*runs, Made("RGF", SLOW, replace(CELL, norm="linf"))])


@pytest.fixture
def forty(page: Callable[..., Path]) -> Path:
    runs = [Made(f"method {i:02}", [5 + i + 20 * j for j in range(12)], pictures=3) for i in range(40)]
    return page("forty", runs)


@pytest.fixture
def many(page: Callable[..., Path]) -> Path:
    taken = [1 + i * 7 % 990 if i % 5 else None for i in range(5000)]
    return page("many", [Made(name, taken, pictures=30) for name in ("RGF", "P-RGF")])


def column(browser: Any, place: int) -> list[str]:
    return list(browser.run(
        "return [...document.querySelector('table.results').tBodies[0].rows].filter((row) => !row.hidden)"
        ".map((row) => row.children[arguments[0]].dataset.v)", place,
    ))  # fmt: skip


def sort_by(browser: Any, place: int) -> str:
    return str(browser.run(
        "const heads = [...document.querySelector('table.results').querySelectorAll('th[aria-sort]')];"
        "heads[arguments[0]].querySelector('button').click();"
        "return heads[arguments[0]].getAttribute('aria-sort')", place,
    ))  # fmt: skip


def test_it_opens_from_disk_with_no_complaint_and_no_request(browser: Any, usual: Path) -> None:
    browser.open(usual)
    assert browser.complaints() == []
    assert [address for address in browser.requests() if not address.startswith("data:")] == [usual.as_uri()]
    assert (
        browser.run("return performance.getEntriesByType('resource').filter((e) => !e.name.startsWith('data:')).length")
        == 0
    )
    browser.wait("return document.querySelectorAll('.slot-curves svg.chart').length === 3")


def test_a_click_on_a_heading_sorts(browser: Any, usual: Path) -> None:
    browser.open(usual)
    assert column(browser, 0) == ["RGF", "P-RGF", "NES"]
    assert sort_by(browser, 2) == "ascending"
    rising = column(browser, 2)
    assert rising[-1] == ""  # no success, no mean: last either way
    assert [float(v) for v in rising[:2]] == sorted(float(v) for v in rising[:2])
    assert sort_by(browser, 2) == "descending"
    assert column(browser, 2) == [rising[1], rising[0], ""]
    assert sort_by(browser, 3) == "ascending"
    assert column(browser, 3)[-1] == "inf"
    assert sort_by(browser, 0) == "ascending"
    assert column(browser, 0) == ["NES", "P-RGF", "RGF"]
    assert (
        browser.run("return document.querySelectorAll('table.results:first-of-type th[aria-sort=ascending]').length")
        == 1
    )


def test_methods_and_targets_are_filtered(browser: Any, usual: Path) -> None:
    browser.open(usual)
    browser.find("#filter").send_keys("p-rgf")
    assert column(browser, 0) == ["P-RGF"]
    assert browser.find("#shown").text == "1 of 4 rows"
    browser.run("const f = document.getElementById('filter'); f.value = ''; f.dispatchEvent(new Event('input'))")
    assert len(column(browser, 0)) == 3
    browser.run(
        "const t = document.getElementById('target'); t.value = 'MobileNetV2'; t.dispatchEvent(new Event('change'))"
    )
    heads = (
        "return [...document.querySelector('table.results').querySelectorAll('th.target')]"
        ".filter((head) => !head.hidden).map((head) => head.textContent)"
    )
    assert browser.run(heads) == ["MobileNetV2"]


def test_an_image_is_enlarged_and_closed_by_keyboard(browser: Any, usual: Path) -> None:
    browser.open(usual)
    browser.wait("return document.querySelector('[data-card=\"0\"]')")
    browser.run("document.querySelector('[data-card=\"0\"]').focus({preventScroll: true})")
    browser.press("ENTER")
    browser.wait("return document.getElementById('dialog').open")
    first = browser.find("#enlarged").text
    assert "goldfish →" in first
    text = "return document.querySelector('#dialog .large .note').textContent"
    assert browser.run(text).startswith("1 of")
    browser.press("ARROW_RIGHT")
    assert browser.run(text).startswith("2 of")
    browser.press("ARROW_LEFT")
    browser.press("ARROW_LEFT")
    number = int(browser.run(text).split()[0])
    assert number == browser.run("return document.querySelectorAll('[data-card]').length")
    browser.press("ESCAPE")
    browser.wait("return !document.getElementById('dialog').open")
    assert browser.run("return document.activeElement.dataset.card") == str(number - 1)
    browser.wait("return document.querySelector('.card img').naturalWidth === 24")
    assert browser.complaints() == []


def test_the_legend_chooses_and_the_chart_tells_its_values(browser: Any, usual: Path) -> None:
    browser.open(usual)
    lines = "return document.querySelector('.slot-curves .plot').querySelectorAll('path.curve').length"
    browser.wait(f"{lines} === 3")
    browser.click(".slot-legend button.method")
    assert browser.run(lines) == 2
    assert browser.find(".slot-legend button.method").get_attribute("aria-pressed") == "false"
    browser.click(".slot-legend button.method")
    browser.run("document.querySelector('.slot-curves svg.chart').focus()")
    browser.press("ARROW_RIGHT")
    tip = browser.run("return document.querySelector('.slot-curves .tip').textContent")
    assert "within" in tip
    assert "P-RGF" in tip
    browser.run(
        "const svg = document.querySelector('.slot-curves svg.chart'), box = svg.getBoundingClientRect();"
        "svg.dispatchEvent(new PointerEvent('pointermove', {clientX: box.right - 14, clientY: box.top + 50}))"
    )
    assert "87.5%" in browser.run("return document.querySelector('.slot-curves .tip').textContent")


def test_rows_are_found_and_paged(browser: Any, many: Path) -> None:
    browser.open(many)
    assert many.stat().st_size < 20_000_000
    assert browser.complaints() == []
    status = "return document.querySelector('.pager [role=status]').textContent"
    assert browser.run(status) == "1–25 of 10,000"
    browser.click(".pager button:last-child")
    assert browser.run(status) == "26–50 of 10,000"
    browser.find("#images input[type=search]").send_keys("4999.png")
    assert browser.run(status) == "1–2 of 2"


def test_forty_methods_stay_legible(browser: Any, forty: Path) -> None:
    browser.open(forty)
    assert browser.complaints() == []
    browser.wait("return document.querySelectorAll('.slot-curves path.curve').length === 6")
    assert browser.run("return document.querySelectorAll('.slot-curves .ghosts path').length") == 34
    assert browser.run("return document.querySelectorAll('.slot-legend button.method').length") == 40
    looks = (
        "return new Set([...document.querySelectorAll('.slot-legend line')]"
        ".map((line) => line.getAttribute('style') + line.getAttribute('stroke-dasharray'))).size"
    )
    assert browser.run(looks) == 40
    assert browser.overflow() <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("name", ["usual", "forty", "many"])
def test_nothing_is_wider_than_the_window(
    browser: Any, request: pytest.FixtureRequest, name: str, width: int, scheme: str
) -> None:
    browser.open(request.getfixturevalue(name), width=width, scheme=scheme)
    browser.wait("return document.querySelector('.slot-curves svg.chart')")
    assert browser.overflow() <= 0
    dark = browser.run("return getComputedStyle(document.documentElement).backgroundColor") == "rgb(19, 20, 22)"
    assert dark == (scheme == "dark")


def test_the_theme_can_be_chosen(browser: Any, usual: Path) -> None:
    browser.open(usual)
    colour = "return getComputedStyle(document.documentElement).backgroundColor"
    light = browser.run(colour)
    browser.click("#theme")
    assert browser.run(colour) == light
    browser.click("#theme")
    assert browser.run(colour) != light
    browser.click("#theme")
    assert browser.run(colour) == light


def test_traces_are_drawn_on_choice(browser: Any, usual: Path) -> None:
    browser.open(usual)
    browser.wait("return document.querySelectorAll('.slot-traces svg[role=img]').length >= 2")
    names = "return [...document.querySelectorAll('.slot-traces figcaption')].map((c) => c.textContent)"
    assert browser.run(names) == ["loss f(x)", "α, cosine of prior and gradient"]
    browser.run(
        "const box = document.querySelectorAll('.slot-traces select')[1];"
        "box.value = '3'; box.dispatchEvent(new Event('change'))"
    )
    browser.wait("return document.querySelectorAll('.slot-traces svg[role=img]').length === 2")
    assert browser.complaints() == []


def test_another_target_and_method_are_chosen(browser: Any, usual: Path) -> None:
    browser.open(usual)
    choose = (
        "const box = document.querySelectorAll('%s select')[%d];box.value = %r; box.dispatchEvent(new Event('change'))"
    )
    methods = "return [...new Set([...document.querySelectorAll('%s')].map((one) => one.textContent.trim()))]"
    cards, rows = methods % "#gallery .who", methods % "#images td:nth-child(3)"
    assert browser.run(cards) == browser.run(rows) == ["RGF", "P-RGF", "NES"]
    browser.run(choose % ("#gallery", 1, "1"))
    browser.run(choose % ("#images", 1, "1"))
    assert browser.run(cards) == browser.run(rows) == ["P-RGF"]
    browser.run(choose % ("#gallery", 0, "1"))
    browser.run(choose % ("#images", 0, "1"))
    assert browser.run(cards) == browser.run(rows) == ["RGF"]
    assert browser.run("return document.querySelector('#images tbody').rows.length") == 8
    browser.run(choose % ("#traces", 0, "2"))
    assert browser.complaints() == []


def test_a_comparison_says_its_sentence(browser: Any, usual: Path) -> None:
    browser.open(usual)
    browser.run("document.querySelector('.pairs td[data-pair=\"1,0\"]').focus()")
    said = browser.find(".readout").text
    assert said.startswith("P-RGF against RGF, 8 images: fewer queries on 7, more on 0, the same on 1")


def test_colours_follow_the_rank_sum_and_cells_are_reached_by_keys(browser: Any, page: Callable[..., Path]) -> None:
    slow = [49] * 12 + [200 + i for i in range(14)]  # wins by one query on twelve images, loses by many on fourteen
    quick = [50] * 12 + [100] * 14
    more = [Made(f"m{i}", [5 + i] * 26) for i in range(12)]
    browser.open(page("ranks", [Made("slow", slow[::-1]), Made("quick", quick[::-1]), *more]))
    classes = "return document.querySelector('.pairs td[data-pair=\"%s\"]').className"
    assert browser.run(classes % "0,1").startswith("worse")
    assert browser.run(classes % "1,0").startswith("better")
    assert "for quick" in browser.run("return document.querySelector('.pairs td[data-pair=\"0,1\"]').title")
    assert browser.run("return document.querySelectorAll('.pairs td[tabindex=\"0\"]').length") == 1
    assert browser.find(".pairs thead th").text == "% won against"
    browser.run("document.querySelector('.pairs td[tabindex=\"0\"]').focus()")
    browser.press("ARROW_DOWN")  # over the empty diagonal
    assert browser.run("return document.activeElement.dataset.pair") == "2,1"
    assert browser.find(".readout").text.startswith("m0 against quick")


def test_values_are_reached_by_touch_and_heard_by_keys(browser: Any, usual: Path) -> None:
    browser.open(usual, width=390)
    touch = (
        "const svg = document.querySelector('%s svg.chart'), box = svg.getBoundingClientRect();"
        "const at = {clientX: box.right - 60, clientY: box.top + 50, pointerType: 'touch', bubbles: true};"
        "for (const kind of ['pointerdown', 'pointerleave']) svg.dispatchEvent(new PointerEvent(kind, at));"
        "const tip = svg.parentElement.querySelector('.tip'); return tip.hidden ? '' : tip.textContent"
    )
    for slot in (".slot-curves", ".slot-traces"):
        browser.wait(f"return document.querySelector('{slot} svg.chart')")
        assert "P-RGF" in browser.run(touch % slot)
        assert (
            browser.run(f"return getComputedStyle(document.querySelector('{slot} svg.chart')).touchAction") == "pan-y"
        )
        browser.run(f"document.querySelector('{slot} svg.chart').focus()")
        browser.press("ARROW_RIGHT")
        assert "P-RGF" in browser.run(f"return document.querySelector('{slot} [role=status]').textContent")
    assert browser.overflow() <= 0


@pytest.mark.parametrize("width", [320, 1280])
def test_names_of_methods_are_whole_beside_their_medians(browser: Any, page: Callable[..., Path], width: int) -> None:
    titles = [f"Averaging with a rather long name_D (λ = {value})" for value in ("0.5", "0.05", "0.005")]
    cells = [replace(CELL, target=f"dowse:{name}") for name in ("a", "b", "c")]
    browser.open(page("long", [Made(title, FAST, cell) for cell in cells for title in titles]), width=width)
    browser.wait("return document.querySelectorAll('.slot-medians svg').length === 3")
    names = (
        "return [...document.querySelector('.slot-medians svg').querySelectorAll('.median')].map((row) =>"
        "[...row.querySelectorAll('text.method')].map((line) => line.textContent).join(''))"
    )
    assert sorted(browser.run(names)) == sorted(title.replace("_D", "D") for title in titles)
    inside = (
        "const svg = document.querySelector('.slot-medians svg'), edge = svg.getBoundingClientRect().right;"
        "return [...svg.querySelectorAll('text')].every((text) => text.getBoundingClientRect().right <= edge + 1)"
    )
    assert browser.run(inside)
    assert browser.overflow() <= 0


def test_only_the_methods_column_stays_when_a_table_is_scrolled(browser: Any, usual: Path) -> None:
    browser.open(usual, width=390)
    stays = "return getComputedStyle(document.querySelector('table.results %s')).position"
    assert browser.run(stays % "thead tr:first-child th:first-child") == "sticky"
    assert browser.run(stays % "tbody th") == "sticky"
    assert browser.run(stays % "thead tr:nth-child(2) th:first-child") == "static"


def test_names_are_text_here_too(browser: Any, page: Callable[..., Path]) -> None:
    cell = replace(CELL, target=f"dowse:{EVIL}", surrogate=(EVIL,))
    run = Made(EVIL, [1, 2, 3], cell, names=[EVIL + str(i) for i in range(3)], cause=EVIL, skipped=EVIL,
               ends=[End.TARGET_FAILED, End.ADVERSARIAL, End.ADVERSARIAL])  # fmt: skip
    browser.open(page("evil", [run, Made("b", [3, 4, 5], cell)]))
    browser.wait("return document.querySelector('[data-card=\"0\"]')")
    browser.click('[data-card="0"]')
    browser.wait("return document.getElementById('dialog').open")
    assert browser.run("return window.evil === undefined")
    assert browser.run("return document.querySelectorAll('img:not([src^=\"data:\"])').length") == 0
    assert browser.complaints() == []


@pytest.mark.parametrize(
    "run", [Made("none", [None] * 3), Made("one", [7]), Made("wrong", [1], ends=[End.ALREADY_WRONG])],
    ids=lambda run: run.title,
)  # fmt: skip
def test_little_data_makes_no_complaint(browser: Any, page: Callable[..., Path], run: Made) -> None:
    browser.open(page(run.title, [run]), width=390)
    assert browser.complaints() == []
    assert browser.overflow() <= 0
    assert run.title in browser.find("table.results").text


def test_it_can_be_printed(browser: Any, usual: Path) -> None:
    browser.open(usual)
    assert len(browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]) > 10_000
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.run("return getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
    assert browser.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_is_white_and_open_whatever_the_theme(browser: Any, usual: Path, scheme: str) -> None:
    browser.open(usual, scheme=scheme)
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    colour = "return getComputedStyle(document.%s).%s"
    for theme in ("document.documentElement.dataset.theme = 'dark'", "delete document.documentElement.dataset.theme"):
        browser.run(theme)
        assert browser.run(colour % ("documentElement", "backgroundColor")) == "rgb(255, 255, 255)"
        assert browser.run(colour % ("body", "color")) == "rgb(0, 0, 0)"
    assert browser.find(".paper").is_displayed()
    shut = "return document.querySelectorAll('details:not([open]):not(.run)').length"
    before = browser.run(shut)
    assert before > 0
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(shut) == 0
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(shut) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_methods_that_are_not_drawn_can_be_read(browser: Any, forty: Path, scheme: str) -> None:
    browser.open(forty, scheme=scheme)
    contrast = (
        "const light = (colour) => { const [r, g, b] = colour.match(/\\d+/g).map((v) => { v /= 255;"
        " return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });"
        " return 0.2126 * r + 0.7152 * g + 0.0722 * b; };"
        "const text = light(getComputedStyle(document.querySelector('.legend [aria-pressed=false]')).color);"
        "const paper = light(getComputedStyle(document.documentElement).backgroundColor);"
        "return (Math.max(text, paper) + 0.05) / (Math.min(text, paper) + 0.05)"
    )
    assert browser.run(contrast) >= 4.5
