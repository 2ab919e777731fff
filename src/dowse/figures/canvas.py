"""A sheet to draw on: text in matplotlib's DejaVu fonts and image tiles with rounded corners, through Pillow."""

import functools
from pathlib import Path
from typing import Literal

import matplotlib
from PIL import Image, ImageDraw, ImageFont

Weight = Literal["regular", "bold"]
Colour = str
_FONT_FILES: dict[Weight, str] = {"regular": "DejaVuSans.ttf", "bold": "DejaVuSans-Bold.ttf"}
EMPTY = "#F1F0ED"  # where a tile's picture does not reach
RADIUS, RIM = 12, 5  # a tile's corners, and the width of its frame
_SMOOTH = 4  # corners are drawn so many times larger and shrunk, which makes their edges smooth


@functools.cache
def font(size: int, weight: Weight = "regular") -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which matplotlib carries, at a height of `size` pixels."""
    file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / _FONT_FILES[weight]
    return ImageFont.truetype(file, size)


def fit(text: str, width: float, size: int, weight: Weight = "regular") -> str:
    """`text`, its end replaced by … if that is what it takes to be no wider than `width` pixels."""
    letters = font(size, weight)
    if letters.getlength(text) <= width:
        return text
    while text and letters.getlength(text + "…") > width:
        text = text[:-1]
    return text.rstrip() + "…"


def fitting_size(text: str, width: float, size: int, smallest: int, weight: Weight = "regular") -> int:
    """The largest size from `size` down to `smallest` at which `text` is no wider than `width` pixels."""
    sizes = range(size, smallest, -1)
    return next((size for size in sizes if font(size, weight).getlength(text) <= width), smallest)


class Canvas:
    """A sheet of the given size, in pixels, with the origin at the upper left."""

    def __init__(self, width: int, height: int, background: Colour) -> None:
        self.picture = Image.new("RGB", (width, height), background)
        self._draw = ImageDraw.Draw(self.picture)

    def text(
        self,
        position: tuple[float, float],
        text: str,
        size: int,
        colour: Colour,
        *,
        weight: Weight = "regular",
        width: float | None = None,
    ) -> float:
        """Write from `position`, the left end of the base line, and return where the text ends."""
        if width is not None:
            text = fit(text, width, size, weight)
        letters = font(size, weight)
        self._draw.text(position, text, fill=colour, font=letters, anchor="ls")
        return position[0] + letters.getlength(text)

    def line(self, x0: float, y0: float, x1: float, y1: float, colour: Colour, width: int = 1) -> None:
        """A straight line."""
        self._draw.line((x0, y0, x1, y1), fill=colour, width=width)

    def tile(self, picture: Image.Image, x: int, y: int, side: int, *, frame: Colour | None = None) -> None:
        """Put a picture into the square of `side` at (x, y), corners rounded, its rim covered by a frame if wanted."""
        square = Image.new("RGB", (side, side), EMPTY)
        square.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
        if frame is not None:
            inside = Image.new("L", (side, side), 0)
            inside.paste(_rounded(side - 2 * RIM, RADIUS - RIM), (RIM, RIM))
            square = Image.composite(square, Image.new("RGB", (side, side), frame), inside)
        self.picture.paste(square, (x, y), _rounded(side, RADIUS))

    def save(self, path: Path) -> None:
        """Write the sheet as a PNG file, making its folder where there is none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.picture.save(path, format="PNG", optimize=True)


@functools.cache
def _rounded(side: int, radius: int) -> Image.Image:
    """A mask: a white square with rounded corners."""
    large = Image.new("L", (side * _SMOOTH,) * 2, 0)
    corner = side * _SMOOTH - 1
    ImageDraw.Draw(large).rounded_rectangle((0, 0, corner, corner), radius * _SMOOTH, fill=255)
    return large.resize((side, side), Image.Resampling.LANCZOS)
