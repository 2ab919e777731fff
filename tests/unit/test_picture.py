from pathlib import Path

import pytest
import torch
from PIL import Image, ImageColor
from torch import Tensor

from dowse.errors import InputError
from dowse.figures import contact_sheet as picture
from dowse.figures.contact_sheet import Attempt, Strip, contact_sheet
from dowse.report.html.thumbnails import round_factor

GREY = torch.full((3, 224, 224), 0.4)


def attempt(δ: float | Tensor = 0.01, queries: int = 12, fooled: bool | None = True, image: Tensor = GREY) -> Attempt:
    return Attempt(image + δ, "something else", queries, fooled)


def draw(rows: list[Strip], folder: Path, **options: object) -> Image.Image:
    with Image.open(contact_sheet(rows, folder / "new" / "sheet.png", **options)) as sheet:
        return sheet.convert("RGB")


def tile(sheet: Image.Image, column: int, dx: int = 112, dy: int = 112) -> tuple[int, ...]:
    """A pixel of a tile in the first row of a sheet without title; column 0 is the original."""
    places = [picture.MARGIN, picture._column(0), picture._column(0) + picture.SIDE + picture.GAP]
    return sheet.getpixel((places[column] + dx, picture.MARGIN + picture.HEADING + dy))


def test_tiles_show_original_magnified_perturbation_and_result(tmp_path: Path) -> None:
    δ = torch.tensor([0.03, -0.01, 0.0]).view(3, 1, 1)
    sheet = draw([Strip(GREY, "grey", {"prgf": attempt(δ)})], tmp_path, magnification=10)
    assert tile(sheet, 0) == (102, 102, 102)
    assert tile(sheet, 1) == (204, 102, 128)
    assert tile(sheet, 2) == (110, 99, 102)


@pytest.mark.parametrize(("fooled", "colour"), [(True, picture.GREEN), (False, picture.RED), (None, picture.GREY)])
def test_the_frame_tells_the_verdict(fooled: bool | None, colour: str, tmp_path: Path) -> None:
    sheet = draw([Strip(GREY, "grey", {"prgf": attempt(fooled=fooled)})], tmp_path)
    assert tile(sheet, 2, dy=2) == ImageColor.getrgb(colour)


def test_every_image_and_method_gets_its_place(tmp_path: Path) -> None:
    one = Strip(GREY, "grey", {"rgf": attempt()})
    both = Strip(GREY, "grey", {"rgf": attempt(), "prgf": attempt()})
    small = draw([one], tmp_path)
    large = draw([one, both, Strip(GREY, "not attacked", {})], tmp_path)
    assert large.width - small.width == 2 * picture.SIDE + picture.GAP + picture.GUTTER
    assert large.height - small.height == 2 * (picture.SIDE + picture.CAPTION)


def test_small_images_keep_sharp_pixels(tmp_path: Path) -> None:
    image = torch.zeros(3, 32, 32)
    image[:, ::2] = 1
    sheet = draw([Strip(image, "stripes", {"rgf": attempt(0.0, image=image)})], tmp_path)
    assert {tile(sheet, 0, dy=dy) for dy in range(56, 112)} == {(0, 0, 0), (255, 255, 255)}


@pytest.mark.parametrize(("δ", "factor"), [(0.02, 20), (0.0041, 100), (0.3, 1), (0.9, 1), (0.0, 1)])
def test_the_factor_is_a_round_number_that_fills_the_range(δ: float, factor: float) -> None:
    assert round_factor([attempt(δ, image=GREY).adversarial - GREY]) == factor


def test_summary_counts_failures_as_infinite() -> None:
    a, b, failed, wrong = attempt(queries=10), attempt(queries=1400), attempt(fooled=False), attempt(fooled=None)
    assert picture._summary([a, b, b, wrong]) == "3 of 3 fooled, median 1,400 queries"
    assert picture._summary([a, failed, failed]) == "1 of 3 fooled"
    assert picture._summary([wrong]) == "nothing to attack"


def test_long_text_is_shortened_to_its_place() -> None:
    text = "soft-coated wheaten terrier " * 5
    short = picture.fit(text, 200, 17, "bold")
    assert short.endswith("…")
    assert 150 < picture.font(17, "bold").getlength(short) <= 200
    assert picture.fit("tench", 200, 17) == "tench"
    assert picture.fitting_size("tench", 200, 17, 12) == 17
    assert picture.fitting_size(text, 200, 17, 12) == 12


def test_titles_of_any_length_fit(tmp_path: Path) -> None:
    plain = draw([Strip(GREY, "grey", {"rgf": attempt()})], tmp_path)
    titled = draw([Strip(GREY, "grey", {"rgf": attempt()})], tmp_path, title="long " * 80, subtitle="longer " * 80)
    assert titled.width == plain.width
    right = titled.crop((titled.width - picture.MARGIN, 0, titled.width, picture.MARGIN + 90))
    assert right.getcolors() == [(right.width * right.height, (255, 255, 255))]


def test_what_cannot_be_drawn_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one row"):
        contact_sheet([], tmp_path / "sheet.png")
    other = Attempt(torch.zeros(3, 32, 32), "x", 1, True)
    with pytest.raises(InputError, match=r"row 0 has rgf of shape \(3, 32, 32\)"):
        contact_sheet([Strip(GREY, "grey", {"rgf": other})], tmp_path / "sheet.png")
    with pytest.raises(InputError, match=r"row 0 has image of shape \(224, 224\)"):
        contact_sheet([Strip(GREY[0], "grey", {})], tmp_path / "sheet.png")
