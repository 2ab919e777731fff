"""An experiment as a TOML file says it, and what is wrong with one, in words."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from pydantic import BaseModel, ValidationError

from dowse.errors import InputError, nearest
from dowse.experiment.tables import Experiment, ImagesTable, TargetTable
from dowse.images.sources import LABELS
from dowse.machine.packages import SHARED_FOLDER, SHARED_VARIABLE

OF_SEVERAL_FORMS = {
    "eps": "a number such as 3.0 or 8/255, or {l2 = 3.0, linf = 0.03}",
    "surrogate": 'a spec such as "dowse:imagenet_resnet18", or a list of specs that work together',
    "count": "a whole number of at least 1, or {TARGET = NUMBER}",
    "target": "a spec, or a table {spec = SPEC, name = NAME}",
    "images": "a path, or a table {path = PATH, count = NUMBER}",
    "method": "a name, or a table {name = NAME, OPTION = VALUE}",
}
"""Words whose values may be of several types, and what is said of all of these at once."""


def load_experiment(path: str | os.PathLike[str]) -> Experiment:
    """The experiment of a TOML file; what is wrong with it is an InputError that names the place and the remedy."""
    file = Path(path)
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"cannot read the experiment {file}: {error}") from error
    return make_experiment({"name": file.stem, **tables}, source=str(file), folder=file.parent)


def make_experiment(tables: Mapping[str, Any], *, source: str, folder: Path = Path()) -> Experiment:
    """The experiment that tables say; source names them in errors, relative image paths start from folder."""
    try:
        experiment = Experiment.model_validate(dict(tables))
    except ValidationError as error:
        sentences = dict.fromkeys(_explain(dict(one), tables) for one in error.errors())  # each form may say the same
        raise InputError(f"{source}: " + "; ".join(sentences)) from None
    images = experiment.images
    update = {"path": locate(images.path, folder)}
    if images.labels not in LABELS:
        update["labels"] = locate(images.labels, folder)
    return experiment.model_copy(update={"images": images.model_copy(update=update)})


def locate(path: str, folder: Path) -> str:
    """A path as it may stand in a file: with ~ and $VARIABLES, relative to the file's folder or to the current one."""
    expanded = Template(os.path.expanduser(path)).safe_substitute({SHARED_VARIABLE: SHARED_FOLDER, **os.environ})
    beside = folder / expanded
    return str(beside) if expanded and beside.exists() else expanded


def _explain(error: dict[str, Any], tables: Mapping[str, Any]) -> str:
    """One error of pydantic: where, what was got, what to do."""
    names, got, beyond = _written(error["loc"], tables)
    where = ".".join(map(str, names))
    if error["type"] == "extra_forbidden":
        kinds: dict[Any, type[BaseModel]] = {"images": ImagesTable, "target": TargetTable}
        known = kinds.get(names[0] if len(names) > 1 else None, Experiment).model_fields
        return f"{where!r} is unknown: {nearest(str(names[-1]), known)}"
    if error["type"] == "missing":
        return f"{'.'.join(map(str, [*names, *beyond]))!r} is missing"
    if error["type"] == "value_error":
        return f"{where}: {error['ctx']['error']}" if where else str(error["ctx"]["error"])
    word = next((name for name in reversed(names) if isinstance(name, str)), "")
    if (beyond or error["type"] == "model_type") and word in OF_SEVERAL_FORMS:
        return f"{where} is {OF_SEVERAL_FORMS[word]}, got {got!r}"
    return f"{where}: {error['msg'].lower()}, got {error['input']!r}"


def _written(place: Sequence[str | int], tables: Mapping[str, Any]) -> tuple[list[str | int], Any, Sequence[str | int]]:
    """A place of pydantic's in what was written, what stands there, and the rest: a form that it has not, a lack.

    A value that is alone has no number, though it was made a list of one.
    """
    names: list[str | int] = []
    there: Any = tables
    for depth, part in enumerate(place):
        listed = isinstance(there, list | tuple) and isinstance(part, int)
        if listed or (isinstance(there, Mapping) and part in there):
            names, there = [*names, part], there[part]
        elif isinstance(part, str):
            return names, there, place[depth:]
    return names, there, ()
