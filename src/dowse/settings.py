"""Every setting of an attack, said once: Python's keywords, TOML's words and the command line's options derive from it.

Plain data without torch, so that `dowse --help` starts at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, Self, get_args, get_origin, get_type_hints

from dowse.errors import InputError, choose, count, is_count, is_whole, positive

LARGEST_SIDE = 4096  # of images; one of 100,000 would take 112 GiB

Norm = Literal["l2", "linf"]
LossName = Literal["ce", "margin"]
Outputs = Literal["logits", "probs"]
Combine = Literal["mean", "cycle"]
AcceptWord = Literal["iterate", "any", "never"]
Dtype = Literal["float32", "float64"]
Streams = Literal["image", "target"]


@dataclass(frozen=True)
class Setting:
    """One setting, as all who offer it need it.

    Attributes:
        help: What it is, for the command line.
        check: Raises InputError for a named value that is out of range; a Literal's words are checked anyway.
        toml: Its type in an experiment where that is another than in Python.
        many: Whether an experiment may give a list, which expands to a grid, and a method a value of its own.
        identity: Whether it is part of a run's id.
        kind: Its type in Python; filled in from the annotation, as is its default.
        default: Its value where nothing is said.
    """

    help: str
    check: Callable[..., None] | None = None
    toml: Any = None
    many: bool = True
    identity: bool = True
    kind: Any = None
    default: Any = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words it knows; none for a number or a free text."""
        literals = (one for one in (self.kind, *get_args(self.kind)) if get_origin(one) is Literal)
        return get_args(next(literals, None))

    @property
    def spoken(self) -> Any:
        """Its type in a file, which has no None: there a word is left out."""
        kinds = [one for one in get_args(self.kind) if one is not type(None)]
        return self.toml or (kinds[0] if type(None) in get_args(self.kind) else self.kind)

    def examine(self, name: str, value: Any) -> None:
        """Raise InputError for a value out of range; None is one of its values where its type says so."""
        if value is None and type(None) in get_args(self.kind):
            return
        if self.words:
            choose(name, value, self.words)
        elif self.check is not None:
            self.check(**{name: value})


def _count_or_zero(**values: object) -> None:
    count(**{name: value for name, value in values.items() if value != 0})


def _storable(**values: object) -> None:
    """A store keeps whole numbers in 64 bits."""
    for name, value in values.items():
        if not is_whole(value) or not -(2**63) <= value < 2**63:
            raise InputError(f"{name} must be a whole number that fits 64 bits, got {value!r}")


def _side(**values: object) -> None:
    count(**values)
    for name, value in values.items():
        if isinstance(value, int) and value > LARGEST_SIDE:
            raise InputError(f"{name} is a side in pixels and may be {LARGEST_SIDE} at most, got {value}")


def _affordable(**values: object) -> None:
    count(**values)
    _storable(**values)


@dataclass(frozen=True, kw_only=True)
class AttackSettings:
    """What the caller says about an attack, the same for every image; `dowse.attack` explains each keyword.

    They are checked as they are made. What depends on images, target or method is for `prepare.Run` to check.

    Attributes:
        method: A method's name, "package.module:Class", or an object.
        options: The method's own options, for one that is named.
    """

    method: str | object = "dowse"
    options: Mapping[str, Any] = field(default_factory=dict)
    norm: Annotated[Norm, Setting("The ball's norm.")] = "l2"
    eps: Annotated[
        float | None,
        Setting(
            "The ball's radius, such as 3.0 or 8/255, of two norms {l2 = 3.0, linf = 0.03}; the paper's if left out.",
            check=positive,
            toml=float | dict[Norm, float],
        ),
    ] = None
    step: Annotated[float | None, Setting("The attack's step; the method's own if left out.", check=positive)] = None
    budget: Annotated[
        int, Setting("The most queries an image may cost.", check=_affordable, many=False, identity=False)
    ] = 10_000
    seed: Annotated[int, Setting("Seed of all random streams.", check=_storable)] = 0
    loss: Annotated[LossName | None, Setting("What is increased; the method's own loss if left out.")] = None
    outputs: Annotated[Outputs, Setting("What the target answers with.")] = "logits"
    reveals: Annotated[str | None, Setting("What of an answer is seen: topk:5, for example; all if left out.")] = None
    decimals: Annotated[int | None, Setting("Decimals of the probabilities seen; all if left out.")] = None
    targeted: Annotated[bool, Setting("Reach each image's target_label.", many=False)] = False
    accept: Annotated[
        AcceptWord,
        Setting("Success is looked for at iterates, or at any row sent.", toml=Literal["iterate", "any"]),
    ] = "iterate"
    quantize: Annotated[bool, Setting("Keep the whole attack on the 8-bit grid.")] = False
    repeats: Annotated[int, Setting("How often each row is asked, each time a query.", check=count)] = 1
    verify: Annotated[int, Setting("How often a success is asked about again.", check=_count_or_zero)] = 0
    combine: Annotated[Combine, Setting("What several surrogates make together.")] = "mean"
    concurrency: Annotated[
        int | None,
        Setting(
            "How many images are attacked at once; 8, or 32 small ones, if left out.",
            check=count,
            many=False,
            identity=False,
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        Setting("The most rows of one pass; by image size if left out.", check=count, many=False, identity=False),
    ] = None

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, setting in settings_of(kind).items():
            setting.examine(name, getattr(self, name))
        if self.norm == "linf" and self.eps is not None and self.eps >= 1:
            raise InputError(
                f"eps={self.eps:g} in linf lets every pixel in [0, 1] become any other: pixels are not 0 … 255 here: "
                f"write {self.eps:g}/255 if that is meant"
            )
        if self.repeats > self.budget:
            raise InputError(f"a row costs repeats={self.repeats} queries, more than budget={self.budget} has")

    @property
    def stream_target(self) -> str:
        """The target as random streams are keyed by it, "" if they are not: an object that is attacked has no name."""
        return ""

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> Self:
        """Settings of keywords; those that are none are the method's options."""
        known = {one.name for one in fields(cls)} - {"options"}
        said = {name: value for name, value in keywords.items() if name in known}
        return cls(**said, options={name: value for name, value in keywords.items() if name not in known})


def too_small(budget: int, options: Mapping[str, Any], *, repeats: int, accept: str) -> str | None:
    """Why a method with such options cannot succeed with a budget, and what to do; None if it may."""
    least = repeats * least_queries(options, accept)
    if budget >= least:
        return None
    smaller = ", or a smaller q" if least_queries({**options, "q": 1}, accept) < least else ""
    return (
        f"cannot succeed with budget={budget}: its first answer, its probes and the look at where they lead take "
        f"{least} queries; give a budget of {least} at least{smaller}"
    )


def least_queries(options: Mapping[str, Any], accept: str = "iterate") -> int:
    """The fewest queries after which a method with such options can have fooled anybody.

    They are the first answer, the probes of one estimate, ZOO's two a coordinate, and the look at where they lead, or
    where `check_every` of them lead; unless probes count too. P-RGF and averaging that weigh the prior themselves ask
    for its slope and S others, and where they trust it no more.
    """
    q, slopes, coordinates = (options.get(name) for name in ("q", "norm_samples", "coordinates"))
    if is_count(slopes) and options.get("lam", options.get("mu")) is None:
        q = 1 + slopes
    elif is_count(coordinates):
        q = 2 * coordinates
    if not is_count(q):
        return 2
    every = options.get("check_every")
    return 2 + q * (every if is_count(every) else 1) if accept == "iterate" else 1 + q


@dataclass(frozen=True, kw_only=True)
class ExperimentSettings(AttackSettings):
    """What an experiment says beside the keywords, because its surrogates are specs and its images files."""

    surrogate: Annotated[tuple[str, ...], Setting("A surrogate; several work together.", toml=str | list[str])] = ()
    smooth: Annotated[
        int | None, Setting("Side of the kernel that smooths transfer gradients; none if left out.", check=_side)
    ] = None
    class_offset: Annotated[int, Setting("Added to the target's labels to make the surrogates'.")] = 0
    surrogate_size: Annotated[
        int | None, Setting("The side surrogates work at; their own if left out.", check=_side)
    ] = None
    streams: Annotated[
        Streams, Setting("What keys an image's random stream beside seed and method: itself, or the target too.")
    ] = "image"
    dtype: Annotated[Dtype, Setting("Precision of images and networks.", many=False)] = "float32"


@cache
def settings_of(kind: type[Any]) -> dict[str, Setting]:
    """The settings among the fields of a dataclass, by name."""
    found, hints = {}, get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        for about in get_args(hints[one.name]):
            if isinstance(about, Setting):
                found[one.name] = replace(about, kind=get_args(hints[one.name])[0], default=one.default)
    return found
