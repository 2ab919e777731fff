"""The contact sheet: per image the original, each method's perturbation and what became of it, in one picture."""

import functools
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import matplotlib
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from dowse.errors import InputError
from dowse.report.html.thumbnails import round_factor, to_picture
from dowse.wording import plural

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


PAPER, INK, QUIET = "#FFFFFF", "#1C1B1A", "#6F6C68"
GREEN, RED, GREY = "#1E8E4E", "#C8372D", "#8A8782"

SIDE = 224  # of a tile; ImageNet's images are then drawn pixel by pixel
GAP = 14  # between the two tiles of a method
GUTTER = 40  # between methods
MARGIN = 44
CAPTION = 84  # under a tile, two lines
HEADING = 116  # over the tiles: method, its summary, what the tiles show


@dataclass(frozen=True)
class Attempt:
    """What one method made of one image."""

    adversarial: Tensor
    """The adversarial image, or the last one tried: (3, H, W) in [0, 1]."""
    prediction: str
    """What the target takes it for."""
    queries: int
    """How many queries it took, or were spent in vain."""
    fooled: bool | None
    """Whether the target was fooled; None if it was wrong before the attack began."""


@dataclass(frozen=True)
class Strip:
    """One image and what each method, by name, made of it; a method may be missing."""

    image: Tensor
    """(3, H, W) in [0, 1]."""
    label: str
    """What it shows."""
    attempts: Mapping[str, Attempt]


def contact_sheet(
    strips: Sequence[Strip],
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    subtitle: str | None = None,
    magnification: float | None = None,
) -> Path:
    """Draw the strips into one PNG file and return its path.

    Perturbations are drawn around mid grey, all of them `magnification` times their size, by default a round
    number chosen for the sheet, so that their strengths can be compared; the factor stands in the heading. The
    methods stand side by side in the order in which the strips first name them.
    """
    _check(strips)
    methods = list(dict.fromkeys(method for strip in strips for method in strip.attempts))
    perturbations = [attempt.adversarial - strip.image for strip in strips for attempt in strip.attempts.values()]
    factor = magnification if magnification is not None else round_factor(perturbations)
    top = MARGIN + (44 if title else 0) + (32 if subtitle else 0) + (20 if title or subtitle else 0)
    width = 2 * MARGIN + SIDE + len(methods) * (GUTTER + 2 * SIDE + GAP)
    height = top + HEADING + len(strips) * (SIDE + CAPTION) + MARGIN - 30
    sheet = Canvas(width, height, PAPER)
    inside = width - 2 * MARGIN
    if title:
        size = fitting_size(title, inside, 30, 20, "bold")
        sheet.text((MARGIN, MARGIN + 24), title, size, INK, weight="bold", width=inside)
    if subtitle:
        y = MARGIN + 24 + (34 if title else 0)
        sheet.text((MARGIN, y), subtitle, fitting_size(subtitle, inside, 17, 12), QUIET, width=inside)

    sheet.text((MARGIN, top + HEADING - 14), "original", 15, QUIET)
    for column, method in enumerate(methods):
        _draw_heading(sheet, _column(column), top, method, strips, factor)
    for index, strip in enumerate(strips):
        y = top + HEADING + index * (SIDE + CAPTION)
        sheet.tile(to_picture(strip.image, SIDE), MARGIN, y, SIDE)
        sheet.text((MARGIN, y + SIDE + 26), strip.label, 17, INK, weight="bold", width=SIDE)
        for column, method in enumerate(methods):
            if method in strip.attempts:
                _draw_attempt(sheet, _column(column), y, strip.image, strip.attempts[method], factor)
    sheet.save(Path(path))
    return Path(path)


def _column(index: int) -> int:
    """Where a method's two tiles begin."""
    return MARGIN + SIDE + GUTTER + index * (2 * SIDE + GAP + GUTTER)


def _draw_heading(sheet: Canvas, x: int, top: int, method: str, strips: Sequence[Strip], factor: float) -> None:
    width = 2 * SIDE + GAP
    attempts = [strip.attempts[method] for strip in strips if method in strip.attempts]
    sheet.line(x, top, x + width, top, INK, 2)
    sheet.text((x, top + 34), method, 21, INK, weight="bold", width=width)
    sheet.text((x, top + 59), _summary(attempts), 15, QUIET, width=width)
    sheet.text((x, top + HEADING - 14), f"perturbation × {factor:g}", 15, QUIET)
    sheet.text((x + SIDE + GAP, top + HEADING - 14), "what the target saw", 15, QUIET)


def _draw_attempt(sheet: Canvas, x: int, y: int, image: Tensor, attempt: Attempt, factor: float) -> None:
    colour, mark, verdict = _verdict(attempt.fooled)
    δ = attempt.adversarial - image
    size = f"‖δ‖₂ {δ.norm():.2f}   max |δ| {δ.abs().max():.3f}"
    sheet.tile(to_picture(0.5 + factor * δ, SIDE), x, y, SIDE)
    sheet.text((x, y + SIDE + 26), size if attempt.fooled is not None else "not attacked", 14, QUIET, width=SIDE)
    x += SIDE + GAP
    sheet.tile(to_picture(attempt.adversarial, SIDE), x, y, SIDE, frame=colour)
    end = 6 + sheet.text((x, y + SIDE + 26), mark, 17, colour, weight="bold")
    sheet.text((end, y + SIDE + 26), attempt.prediction, 17, colour, weight="bold", width=x + SIDE - end)
    end = sheet.text((x, y + SIDE + 49), verdict, 14, QUIET, width=SIDE)
    if attempt.fooled is not None:
        sheet.text((end, y + SIDE + 49), f" {plural(attempt.queries, 'query')}", 14, INK, weight="bold")


def _verdict(fooled: bool | None) -> tuple[str, str, str]:
    """Colour, mark and words."""
    if fooled is None:
        return GREY, "–", "wrong before the attack"
    return (GREEN, "✓", "fooled after") if fooled else (RED, "✗", "held out for")


def _summary(attempts: Sequence[Attempt]) -> str:
    """How many were fooled, and the median of the queries with every failure counted as infinite."""
    attacked = [attempt for attempt in attempts if attempt.fooled is not None]
    if not attacked:
        return "nothing to attack"
    successes = sum(attempt.fooled is True for attempt in attacked)
    median = statistics.median(attempt.queries if attempt.fooled else math.inf for attempt in attacked)
    words = f"{successes} of {len(attacked)} fooled"
    return words + (f", median {median:,.0f} queries" if math.isfinite(median) else "")


def _check(strips: Sequence[Strip]) -> None:
    if not strips:
        raise InputError("a contact sheet needs at least one row, got none")
    for index, strip in enumerate(strips):
        for name, pixels in (("image", strip.image), *((m, a.adversarial) for m, a in strip.attempts.items())):
            if pixels.ndim != 3 or pixels.shape[0] != 3 or pixels.shape != strip.image.shape:
                raise InputError(
                    f"row {index} has {name} of shape {tuple(pixels.shape)}; expected RGB pixels (3, H, W), "
                    f"the same for all of the row"
                )
