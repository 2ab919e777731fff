"""The report: which runs stand together, what they amount to, every form of it, and hostile names."""

import csv
import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from dowse.core.outcome import End
from dowse.defences import DEFENCES
from dowse.errors import InputError
from dowse.images.class_names import class_names
from dowse.report import compare_stores, write_html, write_text
from dowse.report.data import names
from dowse.report.data.gather import gather
from dowse.report.data.names import short_captions, short_target
from dowse.report.data.statistics import compare_rows
from dowse.report.html.gallery import collect
from dowse.report.html.script_data import script_data
from dowse.report.html.thumbnails import data_address, round_factor
from dowse.report.html.traces import thin
from dowse.report.text.latex import escape as latex_escape
from dowse.store import Store, StoreError, StoreWriter
from dowse.store.images import original_of, read_pixels, save_adversarial
from dowse.wording import epsilon, p_value, percent, plural, queries
from tests.stores import CELL, Made, data_of, make_store

RESNET50 = replace(CELL, target="onnx:nets/resnet50.onnx#threads=1")
FAST, SLOW = [10, 20, 30, 40, None, 60, 70, 80], [100, 200, 300, None, None, 600, 700, 800]
EVIL = '</script><script>alert("x")</script><img src=x onerror=alert(1)>&\u2028'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    runs = [Made("RGF", SLOW), Made("P-RGF", FAST), Made("RGF", FAST, RESNET50)]
    return make_store(tmp_path / "out", [*runs, Made("RGF", SLOW, replace(CELL, norm="linf"))])


def test_a_table_a_norm_and_a_column_a_target(folder: Path) -> None:
    with Store(folder) as store:
        report = gather(store)
    l2, linf = report.tables
    assert (l2.norm, linf.norm, l2.budget) == ("l2", "linf", 1000)
    assert [group.name for group in l2.groups] == ["ResNet-18", "ResNet-50"]
    assert l2.methods == ["RGF", "P-RGF"]
    assert [entry.method for entry in l2.groups[0].entries] == ["RGF", "P-RGF"]
    numbers = l2.groups[0].entries[1].numbers
    assert (numbers.summary.asr, numbers.summary.mean_queries) == (7 / 8, sum(filter(None, FAST)) / 7)
    assert numbers.summary.median_queries == 50
    assert numbers.median_interval == (10, math.inf)
    assert l2.groups[0].eps == pytest.approx(math.sqrt(0.001 * 3 * 24 * 24))
    assert "ResNet-18 and ResNet-50" in report.title


def test_many_targets_share_tables_with_those_of_the_same_methods(tmp_path: Path) -> None:
    def against(target: str, *titles: str) -> list[Made]:
        return [Made(title, FAST, replace(CELL, target=target)) for title in titles]

    normal, defended = ("RGF", "P-RGF", "NES", "AutoZOOM"), ("SPSA", "P-RGF")
    runs = [made for net in ("a", "b", "c", "d") for made in against(f"dowse:{net}", *normal)]
    runs += against("jpeg+dowse:a", *defended) + against("onnx:denoiser+dowse:a", *defended)
    with Store(make_store(tmp_path / "out", runs)) as store:
        report = gather(store)
        drawn = script_data(report, collect(report, store, a_run=0))
    names = [[group.name for group in table.groups] for table in report.tables]
    assert names == [["a", "b", "c"], ["d"], ["JPEG + a", "Denoiser + a"]]
    assert report.tables[2].methods == ["SPSA", "P-RGF"]
    assert short_captions(report.tables) == ["ℓ₂"] * 3  # groups are told apart by their names
    assert drawn["methods"] == ["RGF", "P-RGF", "NES", "AutoZOOM", "SPSA"]
    assert [table["methods"] for table in drawn["tables"]] == [[0, 1, 2, 3], [0, 1, 2, 3], [4, 1]]


def test_a_smaller_budget_is_read_off_the_rows(folder: Path) -> None:
    with Store(folder) as store:
        report = gather(store, budget=350)
    summary = report.tables[0].groups[0].entries[0].numbers.summary
    assert (summary.n, summary.successes, summary.mean_queries_budget) == (8, 3, (100 + 200 + 300 + 5 * 350) / 8)
    assert report.tables[0].budget == 350


def test_runs_of_one_title_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    runs = [Made("ours", [1, 2], replace(CELL, seed=seed)) for seed in (0, 1)]
    with Store(make_store(tmp_path, runs)) as store:
        names = [entry.method for entry in gather(store).tables[0].groups[0].entries]
    assert names == ["ours (seed=0, number=0)", "ours (seed=1, number=1)"]


def test_columns_of_one_target_are_told_apart_by_their_image_sets(tmp_path: Path) -> None:
    sets = ("abcdef1234@224", "abcdef1234@299", "fedcba4321@224")
    runs = [Made("RGF", FAST, replace(CELL, image_set=image_set)) for image_set in sets]
    runs.append(Made("RGF", FAST, replace(CELL, target="onnx:other/resnet18.onnx")))
    with Store(make_store(tmp_path, runs)) as store:
        names = [group.name for table in gather(store).tables for group in table.groups]
    assert names == [
        "dowse:imagenet_resnet18, 224, abcdef",
        "dowse:imagenet_resnet18, 299",
        "dowse:imagenet_resnet18, 224, fedcba",
        "onnx:other/resnet18.onnx",
    ]


def test_images_that_would_go_on_are_unfinished_and_not_counted(tmp_path: Path) -> None:
    make_store(tmp_path, [Made("RGF", [5, None])], budget=10)
    with StoreWriter(tmp_path) as store:
        store._database.execute("UPDATE runs SET budget = 20")
    with Store(tmp_path) as store:
        (entry,) = gather(store).entries
    assert (entry.counted.unfinished, entry.numbers.summary.n) == (1, 1)
    assert "1 images of 1 of the 1 runs are not done yet" in write_html(tmp_path).read_text()


def test_methods_are_compared_on_the_images_both_attacked(folder: Path) -> None:
    with Store(folder) as store:
        rgf, prgf = gather(store).tables[0].groups[0].entries
    paired = compare_rows(prgf.counted.by_image(), rgf.counted.by_image())
    assert (paired.n, paired.wins, paired.losses, paired.ties) == (8, 7, 0, 1)
    assert paired.sign_p == paired.wilcoxon_p == 2 / 2**7
    assert compare_rows({}, {}).n == 0


def test_the_page_has_every_part_and_no_address(folder: Path) -> None:
    page = write_html(folder).read_text()
    assert write_html(folder) == folder / "report.html"
    for words in ("Success against queries", "Medians", "Method against method", "Gallery", "Traces", "dowse report"):
        assert words in page
    assert End.BUDGET.sentence in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "http://www.w3.org/2000/svg" in page
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert "<b>87.5%</b>" in page
    data = data_of(page)
    assert data["tables"][0]["groups"][0]["entries"][0]["median"][2] == -1
    assert {len(strip["cards"]) for strip in data["strips"] if strip["g"] == "0.0"} == {2}
    assert all(address.startswith("data:image/webp;base64,") for address in data["pictures"].values())
    assert data["strips"][0]["label"] == "goldfish"


class Tags(HTMLParser):
    """Counts the elements that a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, int] = {}
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[tag] = self.found.get(tag, 0) + 1
        self.attributes |= {name for name, _ in attrs}


def test_html_in_names_stays_text(tmp_path: Path) -> None:
    ends = [End.TARGET_FAILED, End.ADVERSARIAL]
    evil = Made(EVIL, [1, 2], replace(CELL, target=f"dowse:{EVIL}", surrogate=(EVIL,)), names=[EVIL, "b" + EVIL],
                ends=ends, cause=EVIL, skipped=f"c{EVIL}")  # fmt: skip
    folder = make_store(tmp_path / "out", [evil, Made("b", [3, 4])], command=["dowse", EVIL])
    page = write_html(folder, title=EVIL, classes=[EVIL] * 20).read_text()
    tags = Tags(page)
    assert tags.found["script"] == 2
    assert "img" not in tags.found
    assert "onerror" not in tags.attributes
    assert "alert(" in page
    data = data_of(page)
    assert data["methods"][0] == EVIL
    assert any(strip["label"] == EVIL for strip in data["strips"])
    assert EVIL not in page
    assert "<script" not in write_text(folder, "markdown", title=EVIL)


def test_the_first_sentence_says_what_the_medians_say(tmp_path: Path) -> None:
    half, none = Made("half", [5, 6, None, None]), Made("none", [None] * 4)
    said = write_html(make_store(tmp_path / "a", [Made("all", [3, 4, 5, 6]), half])).read_text()
    assert (
        "<strong>all</strong> fools half of the images within <strong>4.5 queries</strong> and all 4 in the end" in said
    )
    assert "<strong>half</strong> fools 50.0% of 4 within the budget." in said
    level, slow = Made("level", [6, 5, 4, 3]), Made("slow", [70, 80, 90, 100])
    said = write_html(make_store(tmp_path / "c", [level, slow, Made("all", [3, 4, 5, 6]), half])).read_text()
    said = " ".join(said.split())
    assert "<strong>all</strong> and <strong>level</strong> fool half of the images within <strong>4.5 queries" in said
    assert "all 4 in the end; <strong>slow</strong> needs 85, <strong>half</strong> fools 50.0% of 4 within" in said
    said = write_html(make_store(tmp_path / "b", [half, none])).read_text()
    assert "no method fools more than half of the images; <strong>half</strong> comes closest with 50.0% of 4." in said


def test_csv_and_json(folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(write_text(folder, "csv"))))
    assert len(rows) == 4
    assert (rows[1]["title"], rows[1]["fooled"], float(rows[1]["asr"])) == ("P-RGF", "7", 0.875)
    assert rows[1]["median_queries_high"] == "inf"
    found = json.loads(write_text(folder, "json"))
    group = found["tables"][0]["groups"][0]
    assert group["runs"][0]["content"]["target"] == CELL.target
    assert group["paired"][0]["losses"] == 7
    assert group["runs"][0]["median_queries_high"] == "inf"
    assert group["runs"][0]["ends"] == {"adversarial": 6, "budget": 2}


def test_latex_is_a_booktabs_table_with_everything_escaped(tmp_path: Path) -> None:
    folder = make_store(tmp_path, [Made("P-RGF_D & 50% (λ)", FAST), Made("RGF", SLOW)])
    text = write_text(folder, "latex")
    assert text.count("\\toprule") == text.count("\\bottomrule") == 1
    assert text.count("{") - text.count("\\{") == text.count("}") - text.count("\\}")
    assert (
        "P-RGF\\textsubscript{D} \\& 50\\% ($\\lambda$) & \\textbf{87.5\\%} & \\textbf{44} & \\textbf{50} \\\\" in text
    )
    widths = {line.count("&") - line.count("\\&") for line in text.splitlines() if line.endswith("\\\\")}
    assert widths == {1, 3}
    assert latex_escape("a\\b{c}^~#$\n_") == "a\\textbackslash{}b\\{c\\}\\textasciicircum{}\\textasciitilde{}\\#\\$ \\_"


def test_markdown_keeps_its_columns(tmp_path: Path) -> None:
    text = write_text(
        make_store(tmp_path, [Made("a|b\n*c*", FAST), Made("RGF", SLOW)]), "markdown", tmp_path / "x" / "r.md"
    )
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {re.sub(r"\\\|", "", line).count("|") for line in lines} == {5}
    assert "a\\|b \\*c\\*" in text
    assert "**87.5%** (52.9–97.8)" in text
    assert (tmp_path / "x" / "r.md").read_text() == text


@pytest.mark.parametrize("form", ["html", "csv", "json", "latex", "markdown"])
@pytest.mark.parametrize(
    "runs",
    [
        [Made("none", [None, None, None])],
        [Made("one", [7])],
        [Made("wrong", [1], ends=[End.ALREADY_WRONG])],
        [Made("failed", [1, 2], ends=[End.TARGET_FAILED, End.NONFINITE], cause="OSError: gone")],
    ],
    ids=lambda runs: runs[0].title,
)
def test_little_data_gives_a_page(tmp_path: Path, runs: list[Made], form: str) -> None:
    folder = make_store(tmp_path / "out", runs)
    if form == "html":
        page = write_html(folder).read_text()
        assert runs[0].title in page
        assert ("gone" in page) == (runs[0].title == "failed")
        assert not re.search(r">(nan|inf|None)[<%]", page)
    else:
        assert runs[0].title in write_text(folder, form)


def test_five_thousand_images_stay_small(tmp_path: Path) -> None:
    taken = [1 + i * 7 % 990 if i % 5 else None for i in range(5000)]
    runs = [Made(f"m{i}", taken, pictures=40) for i in range(2)]
    page = write_html(make_store(tmp_path, runs))
    assert page.stat().st_size < 5_000_000
    data = data_of(page.read_text())
    group = data["tables"][0]["groups"][0]
    assert len(group["images"]) == 5000
    assert len(group["traces"]) == 5000
    assert len(data["strips"]) == 24
    assert "--gallery N" in page.read_text()


def test_the_gallery_is_as_large_as_asked(folder: Path) -> None:
    with Store(folder) as store:
        report = gather(store)
        assert collect(report, store, a_run=0).strips == []
        assert len([strip for strip in collect(report, store, a_run=2).strips if strip["g"] == "0.0"]) == 2


def test_a_picture_that_is_gone_is_left_out(folder: Path) -> None:
    for file in (folder / "originals").iterdir():
        file.unlink()
    page = write_html(folder).read_text()
    assert data_of(page)["strips"] == []
    assert 'id="gallery"' not in page


def test_a_store_with_nothing_in_it_and_no_store(tmp_path: Path) -> None:
    StoreWriter(tmp_path / "empty").close()
    with pytest.raises(InputError, match="nothing to report"):
        write_html(tmp_path / "empty")
    with pytest.raises(StoreError, match="there is no store"):
        write_html(tmp_path / "missing")
    with pytest.raises(InputError, match="format='pdf' is unknown"):
        write_text(tmp_path, "pdf")


def test_a_file_that_cannot_be_written(folder: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        write_html(folder, folder / "dowse.sqlite" / "page.html")


def test_two_stores_against_each_other(tmp_path: Path) -> None:
    before = make_store(tmp_path / "a", [Made("P-RGF", SLOW), Made("NES", SLOW, replace(CELL, method="nes"))])
    after = make_store(tmp_path / "b", [Made("P-RGF", FAST, replace(CELL, seed=1))], budget=2000)
    versus = compare_stores(before, after)
    (match,) = versus.matches
    assert match.differs == ["seed: 0 → 1"]
    assert (match.budget, match.paired.n, match.paired.losses) == (1000, 8, 7)
    assert [run.title for run in versus.only_first] == ["NES"]
    assert "75.0% → 87.5%" in versus.to("text")
    assert "only in the first: NES" in versus.to("markdown")
    assert json.loads(versus.to("json"))["matches"][0]["fewer"] == 7
    assert next(csv.DictReader(io.StringIO(versus.to("csv"))))["differs"] == "seed: 0 → 1"
    same = compare_stores(before, before)
    assert [match.differs for match in same.matches] == [[], []]
    assert {match.paired.wilcoxon_p for match in same.matches} == {1.0}


def test_names_of_targets_and_classes() -> None:
    assert short_target("jpeg:75+dowse:imagenet_mobilenetv2") == "JPEG 75 + MobileNetV2"
    assert short_target("onnx:/a/b/resnet18.onnx#threads=2") == "ResNet-18"
    assert short_target("onnx:denoiser+dowse:imagenet_mobilenetv2") == "Denoiser + MobileNetV2"
    assert (
        short_target("jpeg:75+onnx:denoiser:w.safetensors+dowse:imagenet_resnet18") == "JPEG 75 + Denoiser + ResNet-18"
    )
    assert short_target("http://127.0.0.1:8080/v2/models/net") == "net"
    assert short_target("torch:my.nets:make") == "make"
    assert class_names({"target": "dowse:cifar10_resnet20"}, "gone.npz")[3] == "cat"
    assert len(class_names({"target": "torchvision:vgg16"}, "")) == 1000
    assert class_names({"target": "torch:a:b"}, "") == ()


def test_numbers_in_words() -> None:
    assert [queries(v) for v in (math.nan, math.inf, 3.25, 4.0, 158.5, 12345.0)] == [
        "–",
        "∞",
        "3.2",
        "4",
        "159",
        "12,345",
    ]
    assert [percent(v) for v in (math.nan, 0.0, 1.0)] == ["–", "0.0%", "100.0%"]
    assert [plural(1, "image"), plural(2000, "query")] == ["1 image", "2,000 queries"]
    assert [epsilon(v) for v in (8 / 255, 0.5 / 255, 0.2, 0.05, 1.7527)] == [
        "8/255", "0.00196078", "0.2", "0.05", "1.7527",
    ]  # fmt: skip
    assert [p_value(v) for v in (1e-9, 0.0123, 0.5)] == ["<0.0001", "0.012", "0.50"]


def test_every_defence_has_a_name_for_tables() -> None:
    assert names.DEFENCES.keys() == DEFENCES.keys()


def test_thumbnails() -> None:
    x = torch.zeros(3, 8, 8)
    assert round_factor([x]) == round_factor([]) == 1
    assert round_factor([x + 0.02, x - 0.02]) == 20
    assert data_address(torch.rand(1, 400, 300)).startswith("data:image/webp;base64,")


def test_a_page_reads_the_pictures_of_a_store_as_the_store_does(tmp_path: Path) -> None:
    place = make_store(tmp_path / "out", [Made("RGF", FAST, pictures=3)])
    with Store(place) as store:
        rows = [row for row in store.rows() if row.file is not None]
        assert len(rows) == 3
        for row in rows:
            found = store.adversarial(row)
            assert found is not None
            original = read_pixels(original_of(store.folder, row.checksum))
            assert torch.equal(torch.from_numpy(original), store.original(row))
            assert torch.equal(torch.from_numpy(read_pixels(store.folder / str(row.file))), found)
        (store.folder / str(rows[0].file)).write_bytes(b"damaged")
        with pytest.raises(OSError, match="damaged"):
            read_pixels(store.folder / str(rows[0].file))
        levels = torch.randint(256, (3, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        drawn = store.folder / save_adversarial(store.folder, rows[1].run, 99, levels)
        assert torch.equal(torch.from_numpy(read_pixels(drawn)), levels.float() / 255)


def test_traces_are_thinned_to_their_ends() -> None:
    trace = {
        "queries": list(range(500)),
        "loss": [i / 3 for i in range(500)],
        "alpha": [None] * 499 + [0.5],
        "x": [None] * 500,
    }
    thinned = thin(trace, 50)
    assert len(thinned["loss"]) == len(thinned["loss@"]) == 50
    assert (thinned["loss@"][0], thinned["loss@"][-1]) == (0, 499)
    assert (thinned["alpha"], thinned["alpha@"]) == ([0.5], [499])
    assert "x" not in thinned
