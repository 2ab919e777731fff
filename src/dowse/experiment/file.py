"""An experiment as a TOML file says it, and what is wrong with one, in words."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

from pydantic import BaseModel, ValidationError

from dowse.errors import InputError, nearest
from dowse.experiment.tables import Experiment, ImagesTable, TargetTable
from dowse.images.sources import LABELS
from dowse.machine.packages import SHARED_FOLDER, SHARED_VARIABLE


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
        raise InputError(f"{source}: " + "; ".join(_explain(dict(one)) for one in error.errors())) from None
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


def _explain(error: dict[str, Any]) -> str:
    """One error of pydantic in our words: where, what was got, what to do."""
    names = [part for part in error["loc"] if isinstance(part, str | int) and "[" not in str(part)]
    where = ".".join(str(part) for part in names)
    if error["type"] == "extra_forbidden":
        tables: dict[Any, type[BaseModel]] = {"images": ImagesTable, "target": TargetTable}
        known = tables.get(names[0] if len(names) > 1 else None, Experiment).model_fields
        return f"{where!r} is unknown: {nearest(str(names[-1]), known)}"
    if error["type"] == "missing":
        return f"{where!r} is missing"
    if error["type"] == "value_error":
        return f"{where}: {error['ctx']['error']}"
    return f"{where}: {error['msg'].lower()}, got {error['input']!r}"
