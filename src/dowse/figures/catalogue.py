"""The figures by name, and the way of each: compute or read its numbers, keep them, draw, save."""

import json
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dowse.errors import InputError, nearest
from dowse.figures import style
from dowse.figures.figure1a import FIGURE1A
from dowse.figures.figure1b import FIGURE1B
from dowse.figures.figure1c import FIGURE1C
from dowse.figures.figure1de import FIGURE1D, FIGURE1E
from dowse.figures.figure2 import FIGURE2
from dowse.figures.figure_settings import FigureSettings
from dowse.figures.panel import Laboratory, Numbers, Panel, Tell
from dowse.machine.files import write_file
from dowse.machine.packages import versions
from dowse.wording import day, rounded

PANELS = {panel.name: panel for panel in (FIGURE1A, FIGURE1B, FIGURE1C, FIGURE1D, FIGURE1E, FIGURE2)}
WHOLE = "figure1"
FIGURES = {WHOLE: "figures 1a to 1e in one, their attacks shared", **{p.name: p.about for p in PANELS.values()}}


class Made(NamedTuple):
    """A figure that was drawn: its files, and what each of its parts says."""

    files: list[Path]
    sentences: list[str]


def find_figure(name: str) -> list[Panel]:
    """The parts of a figure, or an InputError with the nearest name."""
    if name == WHOLE:
        return [panel for panel in PANELS.values() if panel.name.startswith(WHOLE)]
    if name not in PANELS:
        raise InputError(f"no figure is named {name!r}: {nearest(name, FIGURES)}")
    return [PANELS[name]]


def make_figure(
    name: str,
    setting: FigureSettings,
    folder: Path,
    *,
    redraw: bool = False,
    tell: Tell = lambda what, done, total: None,
    command: Sequence[str] = (),
) -> Made:
    """Compute a figure's numbers, or read them again with `redraw`, and draw it into a folder as SVG and PNG.

    Each part keeps its numbers as NAME.json beside the pictures, with the setting, the command and the versions.
    """
    panels = find_figure(name)
    if redraw:
        records = {panel.name: _read(folder, panel) for panel in panels}
    else:
        lab = Laboratory(setting, tell, with_fixed=any(panel is FIGURE1C for panel in panels))
        records = {}
        for panel in panels:
            records[panel.name] = _record(panel, lab, command)
            text = json.dumps(records[panel.name], ensure_ascii=False, indent=1)
            write_file(folder / f"{panel.name}.json", text + "\n")
    files: list[Path] = []
    sentences: list[str] = []
    for panel in panels:
        numbers = records[panel.name]["numbers"]
        with style.sheet(panel.size(numbers)) as figure:
            panel.draw(figure, numbers)
            files += style.save(figure, folder, panel.name)
        sentences.append(panel.sentence(numbers))
    if len(panels) > 1:
        files += _draw_whole(name, panels, {key: record["numbers"] for key, record in records.items()}, folder)
    return Made(files, sentences)


def _draw_whole(name: str, panels: Sequence[Panel], numbers: dict[str, Numbers], folder: Path) -> tuple[Path, Path]:
    """All parts on one sheet, the pictures above and the four plots in a row below, as in the paper."""
    first, *others = panels
    with style.sheet((11.2, 6.2)) as figure:
        halves: Any = figure.subfigures(2, 1, height_ratios=(3.5, 2.7))  # an array, which the type does not say
        above, below = halves
        first.draw(above, numbers[first.name])
        for part, panel in zip(below.subfigures(1, len(others)), others, strict=True):
            panel.draw(part, numbers[panel.name])
        return style.save(figure, folder, name)


def _record(panel: Panel, lab: Laboratory, command: Sequence[str]) -> dict[str, Any]:
    """A panel's numbers, as they will be read again, floats to six digits; and what it took to compute them."""
    numbers: Numbers = json.loads(json.dumps(panel.compute(lab)), parse_float=lambda text: rounded(float(text), 6))
    return {
        "figure": panel.name,
        "sentence": panel.sentence(numbers),
        "command": shlex.join(command),
        "date": day(time.time()),
        "versions": versions("matplotlib"),
        "setting": lab.setting.record(),
        "about": {} if panel is FIGURE2 else lab.about(),
        "numbers": numbers,
    }


def _read(folder: Path, panel: Panel) -> dict[str, Any]:
    file = folder / f"{panel.name}.json"
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there are no numbers to draw again at {file}: leave out --redraw, to compute them") from None
    except ValueError as error:
        raise InputError(f"{file} is no JSON file ({error}): leave out --redraw, to compute its numbers anew") from None
    if not isinstance(record, dict) or record.get("figure") != panel.name:
        raise InputError(f"{file} does not hold the numbers of {panel.name}: leave out --redraw, to compute them")
    return record
