"""`--surrogate auto`: the built-in networks that know the target's classes, told by their names, else by answers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dowse import models
from dowse.images.class_names import names_of, shared_names
from dowse.models import WeightsError
from dowse.report.data.names import short_target
from dowse.surrogates.surrogate import resized
from dowse.targets import resolve_surrogate

AUTO, NONE = "auto", "none"
MOST = 2  # more of them cost more seconds than they save queries
ALIKE = 0.8  # the share of classes that have the same name: lists of one set differ in spelling here and there
GIVE_ONE = "an attacker who has a network for the same classes needs fewer queries: give one with --surrogate SPEC"


@dataclass(frozen=True)
class Surrogates:
    """Which surrogates an audit has, and why.

    Attributes:
        specs: Their specs.
        class_offset: Added to the target's labels to make theirs.
        said: Where they come from, in a sentence.
    """

    specs: tuple[str, ...] = ()
    class_offset: int = 0
    said: str = "Surrogate: none, as asked for."


def given_surrogates(specs: Sequence[str]) -> Surrogates:
    """Surrogates that were named."""
    return Surrogates(tuple(specs), 0, f"Surrogate: {', '.join(map(short_target, specs))}, as given.")


def fitting_surrogates(
    target: str, classes: int | None, images: Tensor, labels: Sequence[int], names: Sequence[str] = ()
) -> Surrogates:
    """The built-in networks whose classes are the target's; none if none fits.

    A network has as many classes as the target, or one less where the target's first is background. Where both have
    names for them, these decide, place by place. Where names are missing, answers do: the network says the same as the
    target of at least half of a few pictures. What the target itself is made of is no surrogate.

    Args:
        target: The target's spec.
        classes: How many scores it answers with; None if it did not.
        images: A few pictures as it takes them, (n, C, H, W).
        labels: What it took each of them for.
        names: What its classes are called; none if nobody says.
    """
    if classes is None:
        return Surrogates(said=f"Surrogate: none; the target's answers do not tell its classes, and {GIVE_ONE}.")
    if not labels or images.shape[1] != 3:
        return Surrogates(said=f"Surrogate: none; no built-in network takes such pictures, and {GIVE_ONE}.")
    candidates = [one for one in map(models.spec, models.names()) if classes - one.classes in (0, 1)]
    if not candidates:
        return Surrogates(said=f"Surrogate: none; no built-in network has {classes:,} classes. {_hint()}")
    alike = {one.name: _called_alike(one, classes, names) for one in candidates if not _within(one.name, target)}
    agreed = {
        name: _agreed(models.spec(name), classes, images, labels) for name, same in alike.items() if same is not False
    }
    fitting = [name for name, same in agreed.items() if same is not None and (alike[name] or 2 * same >= len(labels))]
    fitting.sort(key=lambda name: -(agreed[name] or 0))
    if not fitting:
        return Surrogates(said=f"Surrogate: none; {_why_none(alike, agreed)}. {_hint()}")
    chosen = [name for name in fitting if _offset(name, classes) == _offset(fitting[0], classes)][:MOST]
    words = [f"{short_target(name)} (agrees with the target on {agreed[name]} of {len(labels)})" for name in chosen]
    why = (
        "for class names that are the target's"
        if alike[chosen[0]]
        else "for as many classes and like answers, as nobody says what the target's classes are called"
    )
    return Surrogates(
        tuple(f"dowse:{name}" for name in chosen),
        -_offset(fitting[0], classes),
        f"Surrogate: {' and '.join(words)}; built in, chosen {why}.",
    )


def _called_alike(spec: models.ModelSpec, classes: int, names: Sequence[str]) -> bool | None:
    """Whether a network's classes have the target's names, in its order; None where one of them has no names."""
    own = names_of(f"dowse:{spec.name}")
    if len(names) != classes or len(own) != spec.classes:
        return None
    return shared_names(names[classes - spec.classes :], own) >= ALIKE


def _why_none(alike: Mapping[str, bool | None], agreed: Mapping[str, int | None]) -> str:
    """Why no network of as many classes fits: names, answers, or no weights."""
    if alike and all(same is False for same in alike.values()):
        return "the built-in networks of so many classes call them otherwise, or count them in another order"
    found = [name for name, same in agreed.items() if same is not None]
    if found:
        return f"the {len(found)} built-in networks of so many classes say something else of most pictures"
    return "of the built-in networks of so many classes no weights are installed"


def _hint() -> str:
    return GIVE_ONE[0].upper() + GIVE_ONE[1:] + "."


def _offset(name: str, classes: int) -> int:
    return classes - models.spec(name).classes


def _within(name: str, target: str) -> bool:
    """Whether a target's spec names that very network."""
    return re.search(rf"\b{re.escape(name)}\b", target) is not None


def _agreed(spec: models.ModelSpec, classes: int, images: Tensor, labels: Sequence[int]) -> int | None:
    """Of how many pictures a network says what the target says; None if it has no weights here."""
    try:
        net = resolve_surrogate(f"dowse:{spec.name}")
    except WeightsError:
        return None
    with torch.no_grad():
        said = net(resized(images.float().cpu(), spec.input_size)).argmax(1) + (classes - spec.classes)
    return int((said == torch.tensor(labels)).sum())
