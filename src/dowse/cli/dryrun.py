"""`dowse run --dry-run`: the grid, the most queries it can cost, and the hours that is on this machine."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from dowse.experiment.spec import PlannedRun, RunSpec
    from dowse.experiment.tables import Experiment
    from dowse.images.image_set import ImageSource
    from dowse.preflight.timing import Timing

SECONDS = 3.0  # of forward passes, to time a target


@dataclass(frozen=True)
class Remarks:
    """What is said about a plan.

    Attributes:
        notes: What is good to know.
        refused: What a run would end with before its first query.
    """

    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def show_plan(experiment: "Experiment", out: Path, *, as_json: bool, probe: bool = False) -> None:
    """Print what an experiment would run, then raise as InputError what a run of it would refuse here."""
    from dowse.errors import InputError

    found = plan(experiment, out, probe=probe)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        _show(found)
    if found["refused"]:
        raise InputError("; ".join(found["refused"]))


def _show(found: dict[str, Any]) -> None:
    """Print a plan."""
    from rich.markup import escape
    from rich.table import Table

    from dowse.cli.run_table import wide_console
    from dowse.wording import duration, plural

    table = Table("run", "method", "target", "surrogate", "norm", "images", "done", "budget", "at most")
    for run in found["runs"]:
        shown = ("run", "title", "target", "surrogate", "norm", "images", "done", "budget", "queries")
        table.add_row(*("–" if run[word] is None else escape(str(run[word])) for word in shown))
    console = wide_console()
    console.print(table)
    most = "how many queries is not known" if found["queries"] is None else f"at most {found['queries']} queries"
    console.print(f"{plural(len(found['runs']), 'run')}, {most}", highlight=False)
    for note in found["notes"]:
        console.print(note, markup=False, highlight=False)
    for target, rate in found["rows_per_second"].items():
        console.print(f"{target}: {rate:.0f} rows a second", markup=False, highlight=False)
    if found["seconds"] is not None:
        console.print(f"at most {duration(found['seconds'])} of the target's time", highlight=False)
    console.print(f"this dry run sent {plural(found['sent'], 'row')} to targets", highlight=False)


def plan(experiment: "Experiment", out: Path, *, probe: bool = False) -> dict[str, Any]:
    """The grid as plain values; what cannot be known here (no images, no target) is None, with a note.

    `refused` is what a run would end with at once. A target that is not on this machine, whose answers may cost money,
    is sent rows only if `probe` says so.
    """
    remarks = Remarks()
    source, plans = _grid(experiment, remarks)
    total = experiment.images.count if source is None else len(source)
    wanted = [one.count if total is None else min(total, one.count or total) for one in plans]
    done = [0] * len(plans) if source is None else images_done(out, plans, wanted)
    runs = [_line(*one, known=source is not None) for one in zip(plans, wanted, done, strict=True)]
    queries = [run["queries"] for run in runs]
    rates, sent = ({}, 0) if source is None else _rates(experiment, plans, source, remarks, probe)
    return {
        "runs": runs,
        "queries": None if None in queries else sum(queries),
        "rows_per_second": rates,
        "seconds": _seconds(queries, [rates.get(one.spec.target) for one in plans]),
        "sent": sent,
        "notes": remarks.notes,
        "refused": remarks.refused,
    }


def _grid(experiment: "Experiment", remarks: Remarks) -> "tuple[ImageSource | None, list[PlannedRun]]":
    """The images and the runs on them; no images, and a remark why, where the runs' ids cannot be known here."""
    from dowse.errors import InputError
    from dowse.experiment.grid import expand, plans_of
    from dowse.images.sources import open_images

    source = None
    try:
        source = open_images(experiment.images.path, experiment.images.labels)
        return source, plans_of(experiment, source)
    except InputError as error:
        plans = expand(experiment, lambda target: "")  # raises what is wrong with the experiment itself
        missing = "images" if source is None else "targets"
        remarks.notes.append(f"the {missing} cannot be read, so runs have no ids yet")
        remarks.refused.append(str(error))
        return None, plans


def _line(one: "PlannedRun", images: int | None, done: int, *, known: bool) -> dict[str, Any]:
    """A run as a line of the table."""
    return {
        "run": one.spec.id if known else None, "title": one.title, "target": one.target,
        "surrogate": " + ".join(one.spec.surrogate) or None, "norm": one.spec.norm, "images": images, "done": done,
        "budget": one.budget, "queries": None if images is None else (images - done) * one.budget,
    }  # fmt: skip


def _rates(
    experiment: "Experiment", plans: "Sequence[PlannedRun]", source: "ImageSource", remarks: Remarks, probe: bool
) -> tuple[dict[str, float], int]:
    """The rows a second of each target: its rate, or as timed here; and the rows that took, with remarks on these."""
    from dowse.errors import InputError
    from dowse.targets import parse_spec

    rates, sent = {}, 0
    for target, spec in {one.spec.target: one.spec for one in plans}.items():
        if (rate := parse_spec(target).options.get("rate")) is not None:
            rates[target] = float(rate)
            continue
        try:
            timing = timed(spec, source, experiment, probe=probe)
        except InputError as error:
            remarks.refused.append(str(error))
            continue
        except Exception as error:  # a dry run says what it can
            remarks.notes.append(f"{target} cannot be timed here: {error}")
            continue
        if timing is None:
            remarks.notes.append(
                f"{target} is not on this machine and was sent no row: --probe times it, which costs some hundred"
            )
            continue
        rates[target] = timing.rows_per_second
        sent += timing.sent
        remarks.notes.append(f"{target} was timed with {timing.sent} rows, which no image pays for")
        remarks.notes.extend(f"{target}: {one.found}; {one.remedy}" for one in timing.findings if one.verdict != "good")
    return rates, sent


def _seconds(queries: Sequence[int | None], rates: Sequence[float | None]) -> float | None:
    """The target's time for so many queries of each run at so many rows a second; None where either is not known."""
    seconds = 0.0
    for asked, rate in zip(queries, rates, strict=True):
        if asked is None or rate is None:
            return None
        seconds += asked / rate
    return seconds if queries else None


def images_done(out: Path, plans: "Sequence[PlannedRun]", wanted: Sequence[int | None]) -> list[int]:
    """How many of the images that each plan asks for are done already, according to the store."""
    from dowse.store import Store
    from dowse.store.schema import FILE

    if not (out / FILE).is_file():
        return [0] * len(plans)
    with Store(out) as store:
        return [
            len(store.counted(one.spec.id, one.budget, images or 0).rows)
            for one, images in zip(plans, wanted, strict=True)
        ]


def timed(spec: "RunSpec", source: "ImageSource", experiment: "Experiment", *, probe: bool) -> "Timing | None":
    """A target timed on the first image; None for one that is not on this machine, unless it is to be probed."""
    from dowse.images.image_set import UNREADABLE, in_channels
    from dowse.preflight.timing import time_target
    from dowse.running.instructions import Instructions
    from dowse.targets import input_shape, open_target, parse_spec

    if not probe and parse_spec(spec.target).served:
        return None
    dtype = Instructions(spec=spec).dtype
    target = open_target(spec.target).to("cpu", dtype)
    try:
        if target.remote and not probe:
            return None
        size, channels = experiment.images.fitting(input_shape(spec.target))
        try:
            x = in_channels(source, channels).read(0, size).to(dtype)
        except UNREADABLE as error:
            raise OSError(f"the first image, which a run leaves out, cannot be read: {error}") from error
        return time_target(target, x, spec.batch_size, SECONDS, spec.outputs)
    finally:
        target.close()
