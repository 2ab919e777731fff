"""What a method says about itself: the half of the contract that estimators and whole attacks share."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from torch import Tensor

from dowse.errors import InputError
from dowse.settings import LossName, Norm

T = TypeVar("T")
LATER = "later"


def later(default: T) -> T:
    """An option that a method got when runs of it were stored already.

    While it has its default, which must be what the method did before, it is no part of a run's spec, so ids stay.
    """
    made: T = field(default=default, metadata={LATER: True})
    return made


class Method:
    """The base of every estimator (`dowse.estimators.base`) and of every attack (`dowse.attacks.base`).

    A method is a frozen dataclass: its fields are its options. What it is and needs stands in class attributes, each
    with a default; a method sets those that are otherwise. Write them without an annotation (`name = "rgf"`), for an
    annotated one would be taken for an option.

    Attributes:
        name: What it is called, and what its images' random streams are keyed by; the class's name unless set.
        paper: Where it comes from.
        cost: Its queries per iteration, in words.
        needs_surrogate: Whether it asks for transfer gradients; without a surrogate a run is then refused.
        uses_surrogate: Whether it uses surrogates where there are some, though it can do without.
        looks_inside: Whether it looks at surrogates or pulls them (`dowse.core.flow`), where one that gives gradients
            of f only does not serve; a run with such a one is then refused.
        whitebox: Whether it needs the target's own gradient.
        norms: The norms it is defined for; a run in another one is refused.
        targeted: Whether it can aim at a class; if not, a targeted run is refused.
        loss: The loss it runs on unless the caller names one.
        targeted_loss: The loss of a targeted run, where that is another.
        uses_scores: Whether it looks at `Answer.scores`. The log of a run that may be resumed holds them only then;
            True is the safe word for a method that has not said.
        sigma_per_pixel: Whether its option `sigma` is the length of a probe, per pixel, along all pixels at once: where
            scores come in steps, a run then starts it where they move.
        few_rows: Whether its questions have a row or two each, and little is done between them: many images at once
            then fill passes together, and are faster.
        presets: Options that belong together, by the word that `preset=` takes.
    """

    name: str = "method"
    paper: str = ""
    cost: str = ""
    needs_surrogate: bool = False
    uses_surrogate: bool = False
    looks_inside: bool = False
    whitebox: bool = False
    norms: tuple[Norm, ...] = ("l2", "linf")
    targeted: bool = True
    loss: LossName = "ce"
    targeted_loss: LossName | None = None
    uses_scores: bool = True
    sigma_per_pixel: bool = False
    few_rows: bool = False
    presets: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @classmethod
    def options(cls) -> dict[str, Any]:
        """Its options and their defaults, MISSING where there is none; the norm is the run's to say."""
        return {
            one.name: one.default if one.default_factory is MISSING else one.default_factory()
            for one in fields_of(cls)
            if one.name != "norm"
        }

    @classmethod
    def as_before(cls) -> dict[str, Any]:
        """Its options that came `later`, at the value that leaves a run what it was before them."""
        return {one.name: one.default for one in fields_of(cls) if one.metadata.get(LATER)}

    def check(self, x: Tensor) -> None:
        """Raise InputError for an image like x, (*s), that it cannot attack; called before any query."""

    def check_run(self, *, norm: Norm, targeted: bool) -> None:
        """Raise InputError for a run that it is not defined for."""
        if norm not in self.norms:
            raise InputError(f"method {self.name!r} is defined for {', '.join(self.norms)}, not for {norm}")
        if targeted and not self.targeted:
            raise InputError(f"method {self.name!r} cannot aim at a class: leave targeted out")


def loss_of(method: Method | type[Method], *, targeted: bool) -> LossName:
    """The loss a method runs on where the caller names none."""
    return (method.targeted_loss if targeted else None) or method.loss


FACTS = tuple(Method.__annotations__)


def take_facts(method: Method, other: object) -> None:
    """Let a method say of itself what another one says, whatever that says of itself."""
    for fact in FACTS:
        if hasattr(other, fact):
            object.__setattr__(method, fact, getattr(other, fact))


def fields_of(kind: Any) -> list[Field[Any]]:
    """What a method is made with: the fields of a dataclass; any other class is made with nothing."""
    return [one for one in fields(kind) if one.init] if is_dataclass(kind) else []
