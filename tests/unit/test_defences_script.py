"""experiments/defences.py: what a page says of a store, and that it hides no cell."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from dowse.core.outcome import End
from dowse.experiment.file import load_experiment
from dowse.experiment.grid import expand
from dowse.experiment.spec import PlannedRun
from dowse.store import Row, Store
from tests.scripts import EXPERIMENTS, experiment_script
from tests.stores import CELL, Made, make_store


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return experiment_script("defences")


def rows(queries: Sequence[int | None], tmp_path: Path) -> list[Row]:
    with Store(make_store(tmp_path, [Made("m", queries, pictures=0)], budget=100)) as store:
        return list(store.rows())


def test_clean_accuracy_lies_in_the_store_or_beside_the_packed_file(script: ModuleType) -> None:
    assert script.clean_file(Path("out/defences")) == Path("out/defences/clean.json")
    assert script.clean_file(Path("rows/defences.jsonl")) == Path("rows/defences.clean.json")


def test_what_stands_in_front_of_a_network(script: ModuleType) -> None:
    assert script.defence_of("dowse:net") == "none"
    assert script.defence_of("blacklight:then=refuse+jpeg:75+dowse:net") == "blacklight:then=refuse+jpeg:75"


def test_a_cell_says_on_how_many_images_it_stands(script: ModuleType, tmp_path: Path) -> None:
    found = rows([10, 30, None, None], tmp_path)
    cell = script.Cell(found, 100, (4, 100))
    assert cell.words((4, 100)) == "50% / 60 (4)"
    assert cell.words((9, 500)) == "50% / 60 (4; 4 images, budget 100)"
    assert cell.whole
    assert not replace(cell, asked=(9, 100)).whole
    assert not replace(cell, asked=(4, 500)).whole
    assert script.Cell([], 100, (9, 100)).words((4, 100)) == "not run"


def test_every_cell_is_on_the_page_and_missing_ones_are_named(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [replace(CELL, target=f"{front}dowse:net") for front in ("", "blacklight+", "jpeg:75+")]
    made = [Made("NES", [10, None], spec, pictures=0) for spec in specs[:2]]
    folder = make_store(tmp_path, made, budget=100)
    with Store(folder) as store:
        stored = [replace(spec, options={**spec.options, "number": i}) for i, spec in enumerate(specs)]
        asked = [PlannedRun(spec=replace(spec, budget=100), title="NES", count=2) for spec in stored]
        store._database.execute("PRAGMA query_only = OFF")
        store._database.execute(
            """UPDATE rows SET "end" = 'detected', queries = 4, refused = 1, queries_until_detected = 4
            WHERE "end" = 'budget'"""
        )
        monkeypatch.setattr(script, "plans", lambda name: asked)
        cells = script.cells_of(asked, store)
        text = "\n".join(script.page({"robust": cells}, {"robust": {"none": {"defended": 0.5, "images": 8}}}, store))
    assert "| `none` | 50.0% (8) | 50% / 55 (2) |" in text
    assert "| `blacklight` | 100.0% (2) | 50% / 55 (2) |" in text
    assert "| `jpeg:75` | not measured | not run |" in text
    assert "| `blacklight` | NES | 1 of 2 | 4 | 7.1% |" in text
    assert "- `robust`, not run: NES on `jpeg:75`." in text
    assert "evades" in text


def test_the_files_have_every_method_and_defence_and_fifty_images() -> None:
    wanted = {"none", "jpeg:75", "noise", "round", "boundary", "aaa", "blacklight"}
    files = {
        "robust": {"randomization:fixed", "denoiser:cifar10_resnet20"},
        "robust_vit": {"randomization:fixed", "denoiser:cifar10_resnet20"},
        "mobilenetv2": {"randomization", "denoiser"},
    }
    for name, more in files.items():
        plans = expand(load_experiment(EXPERIMENTS / "defences" / f"{name}.toml"), lambda target: "")
        fronts = {front if plus else "none" for front, plus, _ in (plan.spec.target.rpartition("+") for plan in plans)}
        assert wanted | more <= fronts
        for front in fronts:
            methods = {p.spec.method for p in plans if (p.spec.target.rpartition("+")[0] or "none") == front}
            assert methods == {"nes", "prgf", "square", "gfcs", "dowse"}
        assert all((plan.count or 0) >= 50 for plan in plans)


def test_a_run_cut_short_counts_up_to_its_first_unfinished_image(script: ModuleType, tmp_path: Path) -> None:
    found = rows([10, 30, 2], tmp_path)
    assert [row.position for row in script.leading([found[0], found[2]])] == [0]


def test_a_detected_image_is_no_success(script: ModuleType, tmp_path: Path) -> None:
    (row,) = rows([None], tmp_path)
    cell = script.Cell([replace(row, end=End.DETECTED, queries=2)], 100, (1, 100))
    assert cell.words(cell.size) == "0% / 100 (1)"
