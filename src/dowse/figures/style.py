"""How the figures look: one type face, a palette that colour-blind readers tell apart, and files of modest size."""

import base64
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure, SubFigure
from PIL import Image

AnyFigure = Figure | SubFigure

# Okabe and Ito's palette, without its yellow, which is too light for lines on white.
BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE, BLACK = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#1C1B1A",
)  # fmt: skip
QUIET, RULE = "#6F6C68", "#E3E1DC"
FOOLED, HELD = "#1E8E4E", "#C8372D"  # the frames of figure 1a, green and red as in the paper; a mark says it too

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": BLACK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": BLACK,
    "ytick.labelcolor": BLACK,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "legend.handlelength": 2.2,
    "svg.hashsalt": "dowse",
    "svg.fonttype": "path",
}

RESOLUTIONS = 200, 160, 130, 110, 90  # dots an inch; the first that keeps a PNG file small
PNG_BYTES = 195_000
SVG_PICTURE_QUALITY = 82  # of the JPEG that a photograph inside an SVG becomes
PNG_COLOURS = 256
_INLINE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=\s]+)")


@contextmanager
def sheet(size: tuple[float, float]) -> Iterator[Figure]:
    """A figure of the given size in inches, drawn in the house style as long as the context lasts."""
    with matplotlib.rc_context(STYLE):
        yield Figure(figsize=size, layout="constrained")


def save(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write NAME.svg and NAME.png into a folder, made where there is none, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    vector, raster = folder / f"{name}.svg", folder / f"{name}.png"
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    vector.write_text(with_small_pictures(text.getvalue()), encoding="utf-8")
    for dots in RESOLUTIONS:
        file = _as_png(figure, dots)
        if len(file) <= PNG_BYTES:
            break
    raster.write_bytes(file)
    return vector, raster


def _as_png(figure: Figure, dots: int) -> bytes:
    pixels, file = io.BytesIO(), io.BytesIO()
    figure.savefig(pixels, format="png", dpi=dots)
    with Image.open(pixels) as drawn:
        few = drawn.convert("RGB").quantize(PNG_COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.FLOYDSTEINBERG)
    few.save(file, format="PNG", optimize=True)
    return file.getvalue()


def with_small_pictures(svg: str) -> str:
    """An SVG whose embedded PNG photographs are JPEG instead, a tenth of the size."""

    def smaller(match: re.Match[str]) -> str:
        with Image.open(io.BytesIO(base64.b64decode(match[1]))) as picture:
            return "data:image/jpeg;base64," + as_jpeg(picture, SVG_PICTURE_QUALITY)

    return _INLINE.sub(smaller, svg)


def as_jpeg(picture: Image.Image, quality: int) -> str:
    """A picture as a JPEG file in base64."""
    file = io.BytesIO()
    picture.convert("RGB").save(file, format="JPEG", quality=quality, optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def from_jpeg(text: str) -> Image.Image:
    """The picture of `as_jpeg`."""
    return Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB")
