"""The paper's figures as files: drawn, kept as JSON, drawn again for nothing, and of modest size."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from dowse.errors import InputError
from dowse.figures import figure2, panel, style
from dowse.figures.catalogue import FIGURES, find_figure, make_figure
from dowse.figures.figure_settings import FigureSettings
from dowse.figures.panel import Laboratory
from tests.unit.test_figures import SMALL, scene

NOWHERE = FigureSettings(target="dowse:no_such_model", **SMALL)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """All of figure 1, of three pictures."""
    folder = tmp_path_factory.mktemp("figures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panel, "make_scene", lambda setting: scene(3))
        made = make_figure("figure1", FigureSettings(**SMALL), folder, command=["dowse", "figure", "figure1"])
    return folder, made


def test_every_part_is_there_as_svg_and_png_and_json(drawn):
    folder, made = drawn
    names = {"figure1", *(f"figure1{letter}" for letter in "abcde")}
    assert {file.name for file in made.files} == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    assert {file.stem for file in folder.glob("*.json")} == names - {"figure1"}
    for file in made.files:
        if file.suffix == ".svg":
            ET.parse(file)
            assert file.stat().st_size < 300_000
        else:
            with Image.open(file) as picture:
                assert min(picture.size) > 400
            assert file.stat().st_size < 200_000
    assert len(made.sentences) == 5


def test_the_record_says_what_it_takes_to_make_it_again(drawn):
    folder, _ = drawn
    record = json.loads((folder / "figure1c.json").read_text(encoding="utf-8"))
    assert record["command"] == "dowse figure figure1"
    assert record["setting"]["seed"] == 0
    assert record["about"]["images"] == ["0.png", "1.png", "2.png"]
    assert record["versions"]["torch"]
    assert len(record["numbers"]["lambdas"]) == SMALL["lambdas"]


def test_redrawing_computes_nothing_and_draws_the_same(drawn):
    folder, made = drawn
    for name, sentence in (("figure1a", made.sentences[0]), ("figure1c", made.sentences[2])):
        before = {file: file.read_bytes() for file in made.files if file.stem == name}
        again = make_figure(name, NOWHERE, folder, redraw=True)
        assert again.sentences == [sentence]
        assert {file: file.read_bytes() for file in again.files} == before


def test_photographs_in_an_svg_are_jpeg(drawn):
    folder, _ = drawn
    kinds = re.findall(r"data:image/(\w+)", (folder / "figure1a.svg").read_text(encoding="utf-8"))
    assert kinds
    assert set(kinds) == {"jpeg"}


def test_a_picture_survives_its_jpeg():
    pixels = np.full((20, 20, 3), (200, 30, 90), dtype=np.uint8)
    back = np.asarray(style.from_jpeg(style.as_jpeg(Image.fromarray(pixels), 95)))
    assert np.abs(back.astype(int) - pixels).max() < 12


def test_nothing_to_draw_again(tmp_path):
    with pytest.raises(InputError, match=r"no numbers to draw again at .*figure1b\.json"):
        make_figure("figure1b", NOWHERE, tmp_path, redraw=True)
    (tmp_path / "figure1b.json").write_text("{")
    with pytest.raises(InputError, match="is no JSON file"):
        make_figure("figure1b", NOWHERE, tmp_path, redraw=True)
    (tmp_path / "figure1b.json").write_text('{"figure": "figure1c"}')
    with pytest.raises(InputError, match="does not hold the numbers of figure1b"):
        make_figure("figure1b", NOWHERE, tmp_path, redraw=True)


def test_an_unknown_figure_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'figure1b'"):
        find_figure("figur1b")
    assert all(find_figure(name) for name in FIGURES)


def test_the_paths_are_walked_once_for_all_parts(monkeypatch):
    calls = []
    monkeypatch.setattr(panel, "follow", lambda *arguments: calls.append(arguments[2]))
    lab = Laboratory(FigureSettings(**SMALL), scene=scene(3))
    assert lab.trails is lab.trails
    assert calls == [0, 1, 2]


def curve(title: str, method: str = "rgf", queries: tuple[int, ...] = (10, 40), **more: object) -> dict[str, object]:
    common = {"run": title, "fixed": None, "data_prior": False, "attacked": 3, "budget": 100}
    return {**common, "title": title, "method": method, "queries": list(queries), **more}


@pytest.mark.parametrize("targets", [1, 4])
def test_figure2_takes_any_number_of_targets_and_methods(targets, tmp_path):
    lines = [
        curve("RGF"),
        curve("P-RGF", "prgf"),
        curve("P-RGF λ=0.05", "prgf", fixed=0.05),
        curve("nothing", "mine", queries=()),
        *(curve(f"method {i}", "averaging", data_prior=True) for i in range(12)),
    ]
    panels = [
        {"target": f"jpeg:75+dowse:net{i}", "norm": ("l2", "linf")[i % 2], "curves": lines} for i in range(targets)
    ]
    numbers = {"panels": panels}
    with style.sheet(figure2.FIGURE2.size(numbers)) as figure:
        figure2.draw(figure, numbers)
        style.save(figure, tmp_path, "figure2")
    assert (tmp_path / "figure2.png").stat().st_size > 5000
    assert "RGF 66.7%, 25 queries" in figure2.sentence(numbers)
    assert "nothing 0.0%, none fooled" in figure2.sentence(numbers)
