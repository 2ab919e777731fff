"""The methods by name: what each is, where it comes from, what it needs and what it costs."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from dowse.attacks import PGD, SPSA, ZOO, AutoZOOM, Transfer, WhiteBox
from dowse.core.conversation import Attack
from dowse.errors import InputError, nearest
from dowse.estimators import NES, PRGF, RGF, Averaging, Bandits
from dowse.maths.geometry import Norm
from dowse.maths.losses import LossName

PAPER = "Cheng et al. 2019 (NeurIPS)"


@dataclass(frozen=True)
class Method:
    """A named method.

    Attributes:
        name: Its word in `method=` and on the command line.
        kind: The frozen dataclass of its parameters: an estimator, or a whole attack.
        paper: Where it comes from.
        needs_surrogate: Whether it asks for transfer gradients.
        cost: Its queries per iteration, in words.
        whitebox: Whether it needs the target's own gradient.
        norms: The norms it is defined for.
        targeted: Whether it can aim at a class.
        loss: The loss it runs on unless the caller names one.
        uses_scores: Whether it looks at `Answer.scores`, so that a log of its answers must hold them.
    """

    name: str
    kind: type[Any]
    paper: str
    needs_surrogate: bool
    cost: str
    whitebox: bool = False
    norms: tuple[Norm, ...] = ("l2", "linf")
    targeted: bool = True
    loss: LossName = "ce"
    uses_scores: bool = False

    @property
    def defaults(self) -> dict[str, Any]:
        """Its options and their defaults; the norm is the run's to say."""
        return {field.name: field.default for field in fields(self.kind) if field.name != "norm"}


METHODS = {
    method.name: method
    for method in (
        Method("rgf", RGF, PAPER + ", Eq. (5)", False, "q+1"),
        Method(
            "prgf",
            PRGF,
            PAPER + ", Algorithm 1",
            True,
            "λ*: q+2, or 2 where λ*=1, plus S or 2S per period; λ: q+1",
        ),
        Method(
            "averaging",
            Averaging,
            PAPER + ", Algorithm 2",
            True,
            "μ*: q+2, or 2 where μ*≥c, plus S or 2S per period; μ: q+2",
        ),
        Method("nes", NES, "Ilyas et al. 2018 (ICML)", False, "q+1"),
        Method("spsa", SPSA, "Uesato et al. 2018 (ICML)", False, "q+1"),
        Method("bandits", Bandits, "Ilyas et al. 2019 (ICLR)", False, "3: two antithetic queries and the check"),
        Method("zoo", ZOO, "Chen et al. 2017 (AISec)", False, "2 · coordinates + 1"),
        Method(
            "autozoom",
            AutoZOOM,
            "Tu et al. 2019 (AAAI)",
            False,
            "q+1, after the first success q_after+1",
            loss="margin",
        ),
        Method("transfer", Transfer, "PGD on the surrogate, no feedback", True, "1 in all"),
        Method("whitebox", WhiteBox, "Madry et al. 2018, Eq. (3)", False, "1", whitebox=True),
    )
}


def find_method(name: str) -> Method:
    """The method of a name, or an InputError with the nearest one."""
    if name not in METHODS:
        raise InputError(f"method {name!r} is unknown: {nearest(name, METHODS)}")
    return METHODS[name]


@dataclass(frozen=True)
class Resolved:
    """A method made ready: its name, its attack, and what it needs of the world."""

    name: str
    attack: Attack
    needs_surrogate: bool = False
    whitebox: bool = False
    loss: LossName = "ce"
    uses_scores: bool = True


def resolve_method(method: str | object, *, norm: Norm, step: float | None, options: Mapping[str, Any]) -> Resolved:
    """Make an attack of a name with options, of an estimator object, or of an object with a `flow` of its own."""
    if isinstance(method, str):
        found = find_method(method)
        made = _construct(found, norm, step, options)
        return Resolved(
            found.name, as_attack(made, step), found.needs_surrogate, found.whitebox, found.loss, found.uses_scores
        )
    if options:
        raise InputError(
            f"options {', '.join(sorted(options))} go with a method's name; set them on your {type(method).__name__}"
        )
    if isinstance(method, type):
        raise InputError(f"method= takes an object, got the class {method.__name__}: write {method.__name__}()")
    own = getattr(method, "estimator", method)
    kind = type(own)
    if (meant := getattr(own, "norm", norm)) != norm:
        raise InputError(
            f"your {kind.__name__} is for {meant}, the run is {norm}: write {kind.__name__}(norm={norm!r})"
        )
    said = next((known for known in METHODS.values() if known.kind is kind), method)
    return Resolved(
        getattr(said, "name", type(method).__name__),
        as_attack(method, step),
        getattr(said, "needs_surrogate", False),
        getattr(said, "whitebox", False),
        getattr(said, "loss", "ce"),
    )


def as_attack(made: Any, step: float | None) -> Attack:
    """An attack as it is; an estimator inside PGD."""
    if hasattr(made, "flow"):
        attack: Attack = made
        return attack
    if hasattr(made, "estimate") and hasattr(made, "init"):
        return PGD(made, step)
    raise InputError(
        f"method= takes a name, an estimator (init, estimate) or an attack (flow), got {type(made).__name__}; "
        "see docs/extending.md"
    )


def _construct(method: Method, norm: Norm, step: float | None, options: Mapping[str, Any]) -> Any:
    known = method.defaults
    for name in options:
        if name not in known:
            raise InputError(f"{method.name} has no option {name!r}: {nearest(name, known)}")
    given = {"norm": norm, "step": step}
    wanted = {field.name for field in fields(method.kind)}
    return method.kind(**{name: given[name] for name in given if name in wanted}, **options)
