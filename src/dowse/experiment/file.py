"""An experiment as a TOML file says it: every word checked, every list a dimension of the grid."""

import itertools
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from pathlib import Path
from string import Template
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dowse.attacks.adapter import AnyMethod
from dowse.attacks.registry import find_method, resolve_method
from dowse.core.method import loss_of
from dowse.errors import InputError, choose, nearest
from dowse.experiment.spec import Dtype, PlannedRun, RunSpec
from dowse.images.sources import LABELS
from dowse.machine import shared_folder
from dowse.maths.geometry import Norm
from dowse.maths.grid import grid_options
from dowse.maths.losses import LossName, Outputs
from dowse.surrogates.ensemble import Combine
from dowse.targets import with_rate
from dowse.targets.spec import without_pace

T = TypeVar("T")
Save = Literal["safetensors", "png", "none"]


def _as_tuple(value: Any) -> Any:
    if value == []:
        raise InputError("an empty list leaves nothing to run; leave the word out for its default")
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _as_table(word: str) -> BeforeValidator:
    return BeforeValidator(lambda value: {word: value} if isinstance(value, str) else value)


Many = Annotated[tuple[T, ...], BeforeValidator(_as_tuple)]
Count = Annotated[int, Field(ge=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Words(_Strict):
    """Words that an experiment says for all its methods and a method may say for itself; a list expands to a grid.

    Surrogates that work together are a list inside the list: [["a", "b"]].
    """

    surrogate: Many[str | list[str]] = ()
    smooth: Many[Count] = ()
    class_offset: Many[int] = ()
    surrogate_size: Many[Count] = ()
    combine: Many[Combine] = ()
    norm: Many[Norm] = ()
    eps: Many[float | dict[Norm, float]] = ()
    step: Many[float] = ()
    seed: Many[int] = ()
    loss: Many[LossName] = ()
    outputs: Many[Outputs] = ()
    reveals: Many[str] = ()
    decimals: Many[int] = ()
    accept: Many[Literal["iterate", "any"]] = ()
    quantize: Many[bool] = ()
    repeats: Many[Count] = ()
    verify: Many[int] = ()


GRID = tuple(Words.model_fields)
ABOUT_SURROGATES = ("surrogate", "smooth", "class_offset", "surrogate_size", "combine")
DEFAULTS = {field.name: field.default for field in fields(RunSpec) if field.default is not MISSING}


class ImagesTable(_Strict):
    """Which images: `images = "PATH"`, or a table.

    Attributes:
        path: A folder, an .npz or .safetensors file, or one image file.
        count: How many of them, from the first; all if left out.
        labels: "auto" takes those that come with the set, "target" the target's own; else a CSV file, for a folder.
        size: The side they are scaled and cropped to; the target's input size if left out.
    """

    path: str
    count: Count | None = None
    labels: str = "auto"
    size: Count | None = None


class MethodTable(Words):
    """A method: its name, a title for tables, its options, and words of the experiment that it has for itself.

    Its `count` of images is a number, or a table from targets to numbers.
    """

    model_config = ConfigDict(extra="allow")

    name: str
    title: str | None = None
    count: Count | dict[str, Count] | None = None

    @model_validator(mode="after")
    def _known_options(self) -> Self:
        known = {*options_of(find_method(self.name)), *type(self).model_fields}
        for word in self.options:
            if word not in known:
                raise InputError(f"{self.name} has no option {word!r}: {nearest(word, known)}")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """The method's own options as given."""
        return dict(self.model_extra or {})

    def count_on(self, target: str, default: int | None) -> int | None:
        """How many images this method is given on a target; None for all."""
        if isinstance(self.count, dict):
            return {without_pace(one): n for one, n in self.count.items()}.get(without_pace(target), default)
        return self.count or default

    def at_most(self, images: int) -> Self:
        """The same method on no more than so many images."""
        if self.count is None:
            return self
        if isinstance(self.count, dict):
            return self.model_copy(update={"count": {target: min(n, images) for target, n in self.count.items()}})
        return self.model_copy(update={"count": min(self.count, images)})


class Experiment(Words):
    """An experiment; docs/experiments.md explains each word."""

    name: str = "experiment"
    target: Many[str]
    defence: Many[str] = ("none",)
    images: Annotated[ImagesTable, _as_table("path")]
    method: Many[Annotated[MethodTable, _as_table("name")]]
    budget: Count = 10_000
    targeted: bool = False
    dtype: Dtype = "float32"
    concurrency: Count = 8
    batch_size: Count | None = None
    save: Save = "safetensors"

    @model_validator(mode="after")
    def _known_targets(self) -> Self:
        for table in self.method:
            for target in table.count if isinstance(table.count, dict) else ():
                if target not in self.target:
                    hint = nearest(target, self.target)
                    raise InputError(f"count of {table.name} is for {target!r}, which is no target: {hint}")
        return self

    def changed(
        self,
        *,
        images: int | None = None,
        budget: int | None = None,
        save: str | None = None,
        rate: float | None = None,
    ) -> "Experiment":
        """The experiment with another budget, another way to save, every run cut down to so many images, or its http
        targets limited to so many rows a second."""
        said: dict[str, Any] = {}
        if images is not None:
            count = min(images, self.images.count or images)
            methods = tuple(method.at_most(images) for method in self.method)
            said |= {"images": self.images.model_copy(update={"count": count}), "method": methods}
        if budget is not None:
            said["budget"] = budget
        if save is not None:
            choose("save", save, get_args(Save))
            said["save"] = save
        if rate is not None:
            said["target"] = with_rate(self.target, rate)
        return self.model_copy(update=said)

    def plans(
        self, image_set: Callable[[str], str], weights: Callable[[str], str | None] = lambda spec: None
    ) -> list[PlannedRun]:
        """The grid: one a run, in the file's order, none twice.

        Args:
            image_set: From a target's spec to the fingerprint of the images it is given.
            weights: From a spec to the fingerprint of the file it is read from, None if there is none.
        """
        plans: dict[str, PlannedRun] = {}
        for target, defence in itertools.product(self.target, self.defence):
            guarded = target if defence == "none" else f"{defence}+{target}"
            for table in self.method:
                count = table.count_on(target, self.images.count)
                for plan in self._plans_of(table, guarded, image_set(guarded), count):
                    read = {spec: weights(spec) for spec in (guarded, *plan.spec.surrogate)}
                    known = {spec: digest for spec, digest in read.items() if digest is not None}
                    spec = replace(plan.spec, weights=known)
                    plans.setdefault(spec.id, replace(plan, spec=spec))
        return list(plans.values())

    def _plans_of(self, table: MethodTable, target: str, image_set: str, count: int | None) -> Iterator[PlannedRun]:
        method = find_method(table.name)
        given = {word: _as_tuple(value) for word, value in table.options.items()}
        for words, values in itertools.product(self._words_of(table, method), itertools.product(*given.values())):
            options = {word: _as_option(value) for word, value in zip(given, values, strict=True)}
            spec = RunSpec(
                target=target,
                image_set=image_set,
                method=method.name,
                options=options_of(method) | (grid_options(method.options()) if words["quantize"] else {}) | options,
                targeted=self.targeted,
                dtype=self.dtype,
                **words,
            )
            _check(spec, method)
            title = table.title or " ".join([method.name, *(f"{name}={value}" for name, value in options.items())])
            yield PlannedRun(spec=spec, title=title, budget=self.budget, count=count)

    def _words_of(self, table: MethodTable, method: type[AnyMethod]) -> Iterator[dict[str, Any]]:
        """Every combination of the words that a method may say for itself."""
        axes = {word: getattr(table, word) or getattr(self, word) or (DEFAULTS.get(word),) for word in GRID}
        if not method.needs_surrogate:
            axes |= {word: (DEFAULTS.get(word),) for word in ABOUT_SURROGATES}
        for values in itertools.product(*axes.values()):
            words: dict[str, Any] = dict(zip(axes, values, strict=True))
            words["loss"] = words["loss"] or loss_of(method, targeted=self.targeted)
            words["surrogate"] = () if words["surrogate"] is None else _as_tuple(words["surrogate"])
            if isinstance(words["eps"], dict):
                words["eps"] = words["eps"].get(words["norm"])
            yield words


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
    expanded = Template(os.path.expanduser(path)).safe_substitute(
        {shared_folder.VARIABLE: shared_folder.DEFAULT, **os.environ}
    )
    beside = folder / expanded
    return str(beside) if beside.exists() else expanded


def options_of(method: type[AnyMethod]) -> dict[str, Any]:
    """A method's own options and their defaults, without those that words of the experiment give."""
    return {name: value for name, value in method.options().items() if name not in GRID}


def _check(spec: RunSpec, method: type[AnyMethod]) -> None:
    """Raise InputError for a run that cannot be run."""
    if method.needs_surrogate and not spec.surrogate:
        raise InputError(f'method {method.name!r} needs a surrogate: write surrogate = "dowse:NAME"')
    resolve_method(spec.method, norm=spec.norm, step=spec.step, options=spec.options, targeted=spec.targeted)


def _as_option(value: Any) -> Any:
    """A list inside a list is one value: a pair such as a subspace's height and width."""
    return tuple(value) if isinstance(value, list) else value


def _explain(error: dict[str, Any]) -> str:
    """One error of pydantic in our words: where, what was got, what to do."""
    names = [part for part in error["loc"] if isinstance(part, str | int) and "[" not in str(part)]
    where = ".".join(str(part) for part in names)
    if error["type"] == "extra_forbidden":
        known = ImagesTable.model_fields if names[0] == "images" else Experiment.model_fields
        return f"{where!r} is unknown: {nearest(str(names[-1]), known)}"
    if error["type"] == "missing":
        return f"{where!r} is missing"
    if error["type"] == "value_error":
        return f"{where}: {error['ctx']['error']}"
    return f"{where}: {error['msg'].lower()}, got {error['input']!r}"
