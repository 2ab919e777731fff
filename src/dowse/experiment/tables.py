"""The words of an experiment: every one checked, every list a dimension of the grid."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator

from dowse.attacks.registry import find_method
from dowse.core.target import Shape
from dowse.errors import InputError, choose, nearest
from dowse.images.image_set import Size, parse_size
from dowse.settings import ExperimentSettings, settings_of
from dowse.targets import with_rate
from dowse.targets.spec import without_pace

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
Save = Literal["safetensors", "png", "none"]
SETTINGS = settings_of(ExperimentSettings)
GRID = [name for name, setting in SETTINGS.items() if setting.many]
FOR_ALL = [name for name, setting in SETTINGS.items() if not setting.many]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A list's values, or the one value; an empty list is an InputError."""
    if value == []:
        raise InputError("an empty list leaves nothing to run; leave the word out for its default")
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _as_table(word: str) -> BeforeValidator:
    return BeforeValidator(lambda value: {word: value} if isinstance(value, str) else value)


def _fraction(value: Any) -> Any:
    """A radius as people write it: "8/255" is the number 8/255, also in a table by norm."""
    if isinstance(value, dict):
        return {norm: _fraction(one) for norm, one in value.items()}
    parts = re.fullmatch(r"\s*([\d.]+)\s*/\s*([\d.]+)\s*", value) if isinstance(value, str) else None
    try:
        return float(parts[1]) / float(parts[2]) if parts else value
    except (ValueError, ZeroDivisionError):
        return value


def _whole(value: Any) -> Any:
    """A whole number as people write it: 1e4 is 10000."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_written(spoken: Any) -> Any:
    """The type of a setting in a file, read as people write its numbers."""
    if spoken is int:
        return Annotated[int, BeforeValidator(_whole)]
    return Annotated[spoken, BeforeValidator(_fraction)] if float in (spoken, *get_args(spoken)) else spoken


LONGEST_NAME = 100  # letters of a target's name
Many = Annotated[tuple[T, ...], BeforeValidator(as_tuple)]
Count = Annotated[int, Field(ge=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _offering(many: bool) -> Callable[[type[M]], type[M]]:
    """Give a table a word for each setting: those that may be lists, () unless said, or those that stand for all."""

    def offering(table: type[M]) -> type[M]:
        list_of: Any = Many
        words: dict[str, Any] = {
            name: (list_of[_as_written(setting.spoken)], ()) if many else (_as_written(setting.spoken), setting.default)
            for name, setting in SETTINGS.items()
            if setting.many is many
        }
        return create_model(table.__name__, __base__=table, __doc__=table.__doc__, __module__=__name__, **words)

    return offering


@_offering(many=True)
class Words(_Strict):
    """Words that an experiment says for all its methods and a method may say for itself; a list expands to a grid.

    Surrogates that work together are a list inside the list: [["a", "b"]].
    """

    def said(self, word: str) -> Any:
        """The values of a word that may be a list, () if nothing was said; the value of one that stands for all."""
        return getattr(self, word)


class TargetTable(_Strict):
    """A target: `target = "SPEC"`, or a table.

    Attributes:
        spec: What is attacked.
        name: What it is called in tables and in the report; made of the spec if left out. It is no part of a run's id.
    """

    spec: str
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = None


class ImagesTable(_Strict):
    """Which images: `images = "PATH"`, or a table.

    Attributes:
        path: A folder, an .npz or .safetensors file, or one image file.
        count: How many of them, from the first; all if left out.
        labels: "auto" takes those that come with the set, "target" the target's own; else a CSV file, for a folder.
        size: What they are scaled and cropped to, a side or "HEIGHTxWIDTH"; the target's input size if left out.
        channels: 1 for grey pictures, 3 for RGB; the target's if left out, or their own.
    """

    path: str
    count: Count | None = None
    labels: str = "auto"
    size: Annotated[int | tuple[int, int], BeforeValidator(parse_size)] | None = None
    channels: Literal[1, 3] | None = None

    def fitting(self, shape: Shape | None) -> tuple[Size, int | None]:
        """The size and the channels of images for a target that takes (C, H, W), or does not say."""
        channels = shape[0] if shape is not None and shape[0] in (1, 3) else None
        return self.size or (None if shape is None else shape[1:]), self.channels or channels

    def suffix(self, shape: Shape | None) -> str:
        """What makes another image set of the same files, for a target that takes (C, H, W), or does not say."""
        size = self.size or (shape[1] if shape is not None and shape[1] == shape[2] else None)
        words = "" if size is None else f"@{size if isinstance(size, int) else 'x'.join(map(str, size))}"
        return words if self.channels is None else f"{words}@{self.channels} channels"


class MethodTable(Words):
    """A method: its name, a title for tables, its options, and words of the experiment that it has for itself.

    Its `count` of images is a number, or a table from targets to numbers. With `on` it is run on these targets only, so
    that a row can have other options on one of them.
    """

    model_config = ConfigDict(extra="allow")

    name: str
    title: str | None = None
    count: Count | dict[str, Count] | None = None
    on: Many[str] = ()

    @model_validator(mode="after")
    def _known_options(self) -> Self:
        known = self.known(self.name)
        for word in self.options:
            if word in Experiment.model_fields.keys() - known:
                raise InputError(f"{word!r} is for the whole experiment: write it above the first [[method]]")
            if word not in known:
                raise InputError(f"{self.name} has no option {word!r}: {nearest(word, known, Experiment.model_fields)}")
        return self

    @classmethod
    def known(cls, method: str) -> set[str]:
        """The words that a method of that name can have: its own options, and those that every method takes."""
        return {*find_method(method).options(), "preset", *cls.model_fields}

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


@_offering(many=False)
class Experiment(Words):
    """An experiment; docs/experiments.md explains each word."""

    name: str = "experiment"
    target: Many[Annotated[TargetTable, _as_table("spec")]]
    defence: Many[str] = ("none",)
    images: Annotated[ImagesTable, _as_table("path")]
    method: Many[Annotated[MethodTable, _as_table("name")]]
    save: Save = "safetensors"

    @model_validator(mode="after")
    def _known_targets(self) -> Self:
        for table in self.method:
            for word, named in (("count", table.count if isinstance(table.count, dict) else ()), ("on", table.on)):
                for target in named:
                    if target not in self.targets:
                        hint = nearest(target, self.targets)
                        raise InputError(f"{word} of {table.name} is for {target!r}, which is no target: {hint}")
        return self

    @property
    def targets(self) -> dict[str, str | None]:
        """The names of all targets by their specs, None for one that was given none."""
        return {one.spec: one.name for one in self.target}

    def changed(
        self,
        *,
        images: int | None = None,
        budget: int | None = None,
        save: str | None = None,
        rate: float | None = None,
        target_name: str | None = None,
        size: str | int | None = None,
        channels: int | None = None,
    ) -> "Experiment":
        """The experiment with another budget, another way to save, every run cut down to so many images, those of
        another size or number of channels, its http targets limited to so many rows a second, or its only target
        called so."""
        said: dict[str, Any] = {}
        about = {"size": None if size is None else parse_size(size), "channels": channels}
        if channels not in (None, 1, 3):
            raise InputError(f"--channels is 1 for grey images or 3 for RGB, got {channels}")
        if images is not None:
            about["count"] = min(images, self.images.count or images)
            said["method"] = tuple(method.at_most(images) for method in self.method)
        said["images"] = self.images.model_copy(update={word: one for word, one in about.items() if one is not None})
        if budget is not None:
            said["budget"] = budget
        if save is not None:
            choose("save", save, get_args(Save))
            said["save"] = save
        limited = with_rate([one.spec for one in self.target], rate)
        said["target"] = tuple(
            one.model_copy(update={"spec": spec}) for one, spec in zip(self.target, limited, strict=True)
        )
        if target_name is not None:
            if len(self.target) != 1:
                raise InputError(
                    f"--name is for one target, the experiment has {len(self.target)}: name them in it, "
                    'target = [{spec = "…", name = "…"}]'
                )
            (target,) = said["target"]
            if not 0 < len(target_name) <= LONGEST_NAME:
                raise InputError(f"--name takes 1 to {LONGEST_NAME} letters, got {len(target_name)}")
            said["target"] = (target.model_copy(update={"name": target_name}),)
        return self.model_copy(update=said)
