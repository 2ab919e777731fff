"""Parts of the report: options and commands, speeds, traces, reasons of failures, captions, LaTeX, files."""

import csv
import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dowse.core.outcome import End
from dowse.errors import InputError
from dowse.machine.files import write_file
from dowse.report import write_html, write_text
from dowse.report.data.gather import gather
from dowse.report.data.names import captions, own_titles
from dowse.report.html.traces import carry, compact, thin
from dowse.report.text.latex import escape
from dowse.store import Store, StoreWriter
from tests.stores import CELL, Made, make_store

TAKEN = [10, 20, 30, None]


def targets(*names: str, norm: str = "l2") -> list[Made]:
    return [Made("RGF", TAKEN, replace(CELL, target=f"dowse:{name}", norm=norm)) for name in names]


def change(folder: Path, *orders: str) -> None:
    with StoreWriter(folder) as store:
        for order in orders:
            store._database.execute(order)


@pytest.mark.parametrize(
    ("surrogates", "said"),
    [
        ([(), ("dowse:imagenet_efficientnet_lite0", "dowse:imagenet_resnet18")],
         ["no surrogate", "by EfficientNet-Lite0 and ResNet-18"]),
        ([("torch:one.nets:resnet18",), ("torch:other.nets:resnet18",)],
         ['surrogate=["torch:one.nets:resnet18"]', 'surrogate=["torch:other.nets:resnet18"]']),
    ],
)  # fmt: skip
def test_runs_of_one_title_are_told_apart_by_their_surrogates_names(
    tmp_path: Path, surrogates: list[tuple[str, ...]], said: list[str]
) -> None:
    runs = [Made("ours", TAKEN, replace(CELL, surrogate=one)) for one in surrogates]
    with Store(make_store(tmp_path, runs)) as store:
        titles = list(own_titles([store.runs()]).values())
    assert titles == [f"ours ({words}, number={number})" for number, words in enumerate(said)]


def test_a_run_has_one_title_beside_columns_that_have_two_of_it(tmp_path: Path) -> None:
    lite, both = ("dowse:imagenet_efficientnet_lite0",), ("dowse:imagenet_resnet18",)
    runs = [
        Made("ours", TAKEN, replace(CELL, target=f"dowse:{target}", surrogate=surrogate, options={}))
        for target, surrogate in [("a", lite), ("a", both), ("b", lite)]
    ]
    with Store(make_store(tmp_path, runs)) as store:
        (table,) = gather(store).tables
    first, second = ([entry.method.split(", number")[0] for entry in group.entries] for group in table.groups)
    assert first == ["ours (by EfficientNet-Lite0", "ours (by ResNet-18"]
    assert second == ["ours (by EfficientNet-Lite0"]


def test_what_a_run_was_not_told_is_not_in_its_title(tmp_path: Path) -> None:
    cells = [replace(CELL, decimals=None), replace(CELL, decimals=2)]
    with Store(make_store(tmp_path, [Made("ours", TAKEN, cell) for cell in cells])) as store:
        titles = list(own_titles([store.runs()]).values())
    assert titles == ["ours (number=0)", "ours (decimals=2, number=1)"]


def test_an_option_that_came_later_tells_runs_apart_though_it_was_not_told(tmp_path: Path) -> None:
    cells = [replace(CELL, options={"q": 50}), replace(CELL, options={"q": 50, "later": None})]
    with Store(make_store(tmp_path, [Made("ours", TAKEN, cell) for cell in cells])) as store:
        runs = store.runs()
    for run in runs:
        del run.content["options"]["number"]
    assert list(own_titles([runs]).values()) == ["ours", "ours (later=null)"]


def test_the_options_of_every_run_are_on_the_page(tmp_path: Path) -> None:
    cell = replace(CELL, options={"q": 50, "sigma": 0.001, "lam": None}, quantize=True, repeats=3)
    page = write_html(make_store(tmp_path, [Made("ours", TAKEN, cell), Made("RGF", TAKEN)])).read_text()
    text = page.replace("\u00a0", " ")
    assert "Options of every run" in page
    assert "q = 50, sigma = 0.001, number = 0" in text
    assert "cross-entropy, seed 0; quantize = true, repeats = 3" in text
    assert "lam = " not in text


def test_the_page_says_the_command_that_made_it(tmp_path: Path) -> None:
    folder = make_store(tmp_path / "out", [Made("RGF", TAKEN)])
    names = tmp_path / "names.txt"
    names.write_text("a\nb\n")
    page = write_html(folder, budget=500, gallery=3, title="Two words", classes=names).read_text()
    page = html.unescape(page)
    assert f"dowse report {folder} --gallery 3 --budget 500 --title 'Two words' --classes {names}<" in page
    assert "given in Python" in write_html(folder, classes=["a", "b"]).read_text()
    assert f"dowse report {folder}<" in write_html(folder).read_text()


def test_a_process_that_was_killed_is_timed_to_its_last_sign_of_life(tmp_path: Path) -> None:
    folder = make_store(tmp_path, [Made("RGF", TAKEN)])
    change(folder, "UPDATE sessions SET started = 1000, ended = NULL, beat = 1100, queries = 400, busy = 90, pid = 0, "
                   "machine = 'gone' WHERE id = 1", "UPDATE rows SET finished = 1050")  # fmt: skip
    page = write_html(folder).read_text()
    assert "<td>400</td><td>4</td><td>4</td><td>90.0%</td>" in page
    assert " was killed" in page
    change(folder, "UPDATE sessions SET busy = 500 WHERE id = 1")
    assert "<td>100.0%</td>" in write_html(folder).read_text()


def test_processes_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    folder = make_store(tmp_path, [Made("RGF", TAKEN)])
    change(folder, *["INSERT INTO sessions (started, ended, command, versions, beat, queries, busy) "
                     "VALUES (1000, 1100, '[]', '{}', 1100, 10, 5)"] * 70)  # fmt: skip
    page = write_html(folder).read_text()
    assert "The last 60 of 70 processes; the store has all." in page
    assert page.count("<td>10</td><td>0</td><td>2</td>") == 60


def test_the_speed_of_a_run_leaves_out_what_another_process_asked(tmp_path: Path) -> None:
    folder = make_store(tmp_path, [Made("RGF", [100, 100])])
    change(folder, "UPDATE sessions SET started = 1000", "UPDATE rows SET finished = 1010, seconds = 20, session = 1")
    with Store(folder) as store:
        (entry,) = gather(store).entries
    assert entry.numbers.rate == 10  # half of 200 queries in ten seconds


def test_traces_fill_a_budget_of_bytes_group_by_group(tmp_path: Path) -> None:
    with Store(make_store(tmp_path, targets("a", "b"))) as store:
        groups = {
            str(g): {row.checksum: {0: row} for row in group.entries[0].counted.rows}
            for g, group in enumerate(gather(store).tables[0].groups)
        }
        whole, partial = carry(store, groups, {"0": ["sum2"]})
        assert ([len(images) for images in whole.values()], partial) == ([4, 4], False)
        assert next(iter(whole["0"])) == "sum2"
        few, partial = carry(store, groups, {}, most=len(json.dumps(whole)) // 3)
        assert partial
        assert 0 < len(few["1"]) <= len(few["0"]) < 4


def test_compact_traces_say_the_same() -> None:
    trace = {"queries": [1, 4, 9, 20], "loss": [1, 2.5, 3, 4], "alpha": [None, 0.1, None, 0.2], "mu": [1, 2, 3, 4],
             "sigma": [0.5] * 4}  # fmt: skip
    thinned = thin(trace)
    assert (thinned["sigma"], thinned["sigma@"]) == ([0.5, 0.5], [1, 20])
    small = compact(thinned)
    assert (small["loss@"], small["alpha@"], small["mu@"]) == ([1, 3, 5, 11], [4, 16], "loss@")
    assert small["loss"] == [1, 2.5, 3, 4]


def test_failures_stand_under_their_reason(tmp_path: Path) -> None:
    runs = [Made("RGF_D", [1, None, None], skipped="broken.png"), Made("NES", [None, 1, 2])]
    runs.append(Made("SPSA", [1, 2, 3], ends=[End.ADVERSARIAL, End.NONFINITE, End.ADVERSARIAL]))
    page = write_html(make_store(tmp_path, runs)).read_text()
    failures = page.partition('class="failures"')[2].partition("</section>")[0]
    assert failures.count(End.BUDGET.sentence) == 1
    assert f'<b>3</b> × {End.BUDGET.sentence} <span class="note">(2 runs)</span>' in failures
    assert "<b>2</b> × RGF<sub>D</sub>, ResNet-18, ℓ₂" in failures
    assert "<code>broken.png</code>" in failures


def test_images_answered_with_nan_are_counted_apart(tmp_path: Path) -> None:
    ends = [End.ADVERSARIAL, End.NONFINITE, End.ALREADY_WRONG]
    folder = make_store(tmp_path, [Made("RGF", [1, 2, 3], ends=ends)])
    (row,) = csv.DictReader(io.StringIO(write_text(folder, "csv")))
    assert [row[word] for word in ("images", "fooled", "already_wrong", "failed", "unfinished")] == list("11110")
    page = write_html(folder).read_text()
    assert 'class="text">ResNet-18</td><td>1</td><td>1</td><td>1</td><td>1</td><td>0</td>' in page


def test_tables_that_share_a_caption_name_their_targets(tmp_path: Path) -> None:
    runs = targets("a", "b", "c", "d")
    folder = make_store(tmp_path, [*runs, *targets("a", norm="linf")])
    with Store(folder) as store:
        said = captions(gather(store).tables)
    assert [caption.partition("an image")[2] for caption in said] == [": a, b, c", ": d", ""]
    page = write_html(folder).read_text()
    for words in (re.findall(r"<h3>(.*?)</h3>", page.partition('id="curves"')[0]), re.findall("aria-label=.*?>", page)):
        labels = [word for word in words if "queries an image" in word]
        assert len(labels) == len(set(labels)) > 2


def test_the_lead_names_different_norms_and_targets_and_counts_the_rest(tmp_path: Path) -> None:
    runs = [*targets("a", "b", "c", "d"), *targets("a", "b", norm="linf")]
    page = write_html(make_store(tmp_path, runs)).read_text()
    lead = page.partition('class="lead"')[2].partition("</div>")[0]
    said = re.findall(r"On <strong>(.)</strong> \((..)\)", lead)
    assert len(said) == 4
    assert {norm for _, norm in said} == {"ℓ₂", "ℓ∞"}
    assert len({target for target, _ in said}) >= 3
    assert "and 2 more below" in lead


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("βγδη", r"$\beta$$\gamma$$\delta$$\eta$"),
        ("a → b − c²", r"a $\to$ b $-$ c$^2$"),
        ("[x] *", "{[}x] {*}"),
    ],
)
def test_latex_knows_the_letters_of_titles(text: str, written: str) -> None:
    assert escape(text) == written


def test_latex_has_intervals_under_the_numbers(tmp_path: Path) -> None:
    text = write_text(make_store(tmp_path, [Made("[RGF]", TAKEN), Made("*", TAKEN)]), "latex")
    assert "{\\scriptsize 30.1--95.4} & {\\scriptsize 10--30} & {\\scriptsize 0--$\\infty$} \\\\[2pt]" in text
    assert not re.search(r"\\\\(\[2pt\])?\s*[\[*]", text.replace("\\\\[2pt]", "\\\\"))


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "new" / "page.html"
    write_file(place, "old")
    link = tmp_path / "link.html"
    link.symlink_to(place)
    write_file(link, "newer")
    assert (place.read_text(), link.is_symlink()) == ("newer", True)

    def full(path: Path, text: str, **_: object) -> None:
        path.write_bytes(text[:2].encode())
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InputError, match="no space left"):
        write_file(place, "newest")
    assert place.read_bytes() == b"newer"
    assert [file.name for file in place.parent.iterdir()] == ["page.html"]
