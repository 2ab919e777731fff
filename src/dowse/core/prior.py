"""What answers `prior_at`, `look` and `pull`: surrogates, asked for many images at once."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from dowse.core.flow import Look, PriorAt, Pull, Seen, Weighing
from dowse.errors import InputError


class Prior:
    """Says in which direction f grows for a model of its own.

    Derive from it, or hand over any object with `gradient(x, labels)`. A prior must depend on its arguments alone, so
    that an image's result does not depend on its neighbours.
    """

    @property
    def surrogates(self) -> tuple["Prior", ...]:
        """The surrogates it consists of, in the order of their numbers; an ensemble has several."""
        return (self,)

    def check_label(self, label: int) -> None:
        """Raise InputError if it knows that one of the target's labels is none of its classes; before any query."""

    def check_transparent(self) -> None:
        """Raise InputError if it, or one that it consists of, does not answer `look` and `pull`; before any query."""
        for one in self.surrogates:
            if one is not self:
                one.check_transparent()
            elif type(self).see is Prior.see:
                raise _not_transparent(self)

    def expect(self, classes: int) -> None:
        """From now on the target is known to have so many classes; told before any question is asked."""

    def pass_size(self, question: PriorAt | Look | Pull) -> int:
        """How many images' questions of the kind share a pass that is filled up with copies; 1 if none is."""
        return max((one.pass_size(question) for one in self.surrogates if one is not self), default=1)

    def gradient(self, x: Tensor, labels: Tensor, turns: Tensor | None = None) -> Tensor:
        """∇f of the surrogate at each image: (n, *s), (n,) -> (n, *s).

        `turns`, (n,) int64, says how many gradients each image was given before; None is 0 for all.
        """
        raise NotImplementedError(f"{type(self).__name__} has no gradient(x, labels, turns)")

    def see(
        self, x: Tensor, turns: Tensor, weights: Sequence[Weighing] | None = None, *, soft: bool = False
    ) -> list[Seen]:
        """What it says at each image, (n, *s), with the gradient of what n weights make of it, if there are any.

        `soft` asks for a gradient that transfers better than its own, where it has one.
        """
        raise _not_transparent(self)


class HasGradient(Protocol):
    """The least that a surrogate of one's own has."""

    def gradient(self, x: Tensor, labels: Tensor) -> Tensor:
        """∇f of the surrogate at each image: (n, *s), (n,) -> (n, *s)."""


class AdaptedPrior(Prior):
    """Whatever else a caller has that gives gradients: the one place that asks an object what it can do.

    It needs `gradient(x, labels)`. One that is not the same each time says so with an attribute `takes_turns = True`
    and is called as `gradient(x, labels, turns=turns)`; one with `see(x, turns, weights)` answers `look` and `pull`.
    """

    def __init__(self, given: Any) -> None:
        if not callable(getattr(given, "gradient", None)):
            raise InputError(
                "surrogate must be a module, a dowse.Surrogate, a spec or an object with gradient(x, labels), or a "
                f"list of these, got {type(given).__name__}"
            )
        self.given, self.takes_turns = given, bool(getattr(given, "takes_turns", False))
        self._see: Callable[..., list[Seen]] | None = getattr(given, "see", None)

    def check_transparent(self) -> None:
        """Raise InputError if the object has no `see`."""
        if self._see is None:
            raise _not_transparent(self.given)

    def gradient(self, x: Tensor, labels: Tensor, turns: Tensor | None = None) -> Tensor:
        """The object's own."""
        told = {"turns": torch.zeros_like(labels) if turns is None else turns} if self.takes_turns else {}
        gradient: Tensor = self.given.gradient(x, labels, **told)
        return gradient

    def see(
        self, x: Tensor, turns: Tensor, weights: Sequence[Weighing] | None = None, *, soft: bool = False
    ) -> list[Seen]:
        """The object's own, where it has one; its gradients are what they are."""
        if self._see is None:
            raise _not_transparent(self.given)
        return self._see(x, turns, weights)


def _not_transparent(surrogate: object) -> InputError:
    return InputError(
        f"the surrogate {type(surrogate).__name__} gives gradients of f only, and this method looks inside: give "
        "the network itself, an nn.Module or a dowse.Surrogate, or a method such as prgf that asks for no more"
    )


def answer_all(
    prior: Prior, asked: Sequence[PriorAt | Look | Pull], labels: Sequence[int | None], turns: Sequence[int]
) -> list[Tensor | dict[int, Seen]]:
    """The answer to each image's question, in as few passes as possible.

    Args:
        prior: The surrogate, or an ensemble of them.
        asked: n questions.
        labels: The label that each image's objective is about.
        turns: How many gradients each image was given before.
    """
    answers: list[Tensor | dict[int, Seen]] = [{} for _ in asked]
    rows = [i for i, question in enumerate(asked) if isinstance(question, PriorAt)]
    if rows:
        points = torch.stack([asked[i].x for i in rows])
        wanted, before = torch.tensor([labels[i] for i in rows]), torch.tensor([turns[i] for i in rows])
        gradients = prior.gradient(points, wanted, before)
        for i, gradient in zip(rows, all_finite(gradients, list(gradients)), strict=True):
            answers[i] = gradient
    if len(rows) < len(asked):
        _see_all(prior.surrogates, asked, turns, answers)
    return answers


def _see_all(
    surrogates: Sequence[Prior],
    asked: Sequence[PriorAt | Look | Pull],
    turns: Sequence[int],
    answers: list[Tensor | dict[int, Seen]],
) -> None:
    """Fill in the answers to every Look and Pull, surrogate by surrogate."""
    for question in asked:
        _check_numbers(question, len(surrogates))
    for number, surrogate in enumerate(surrogates):
        looks = [i for i, q in enumerate(asked) if isinstance(q, Look) and (q.of is None or number in q.of)]
        own, soft = (_pulls(asked, number, soft=one) for one in (False, True))
        for rows in (looks, own, soft):
            if not rows:
                continue
            weights = [question.weights[number] for i in rows if isinstance(question := asked[i], Pull)]
            seen = surrogate.see(
                torch.stack([asked[i].x for i in rows]),
                torch.tensor([turns[i] for i in rows]),
                weights or None,
                soft=rows is soft,
            )
            for i, one in zip(rows, seen, strict=True):
                answer = answers[i]
                assert isinstance(answer, dict)
                answer[number] = one


def _pulls(asked: Sequence[PriorAt | Look | Pull], number: int, *, soft: bool) -> list[int]:
    """Who asks a surrogate for its own gradients, or for soft ones."""
    return [i for i, one in enumerate(asked) if isinstance(one, Pull) and number in one.weights and one.soft is soft]


def _check_numbers(question: PriorAt | Look | Pull, surrogates: int) -> None:
    numbers = () if isinstance(question, PriorAt) else question.weights if isinstance(question, Pull) else question.of
    for number in numbers or ():
        if not 0 <= number < surrogates:
            raise InputError(f"an attack asks surrogate number {number}, there are {surrogates}: they count from 0")


def all_finite(whole: Tensor, gradients: Sequence[Tensor]) -> list[Tensor]:
    """As `finite` of gradients that are parts of a whole, looked at one by one only where that is not finite."""
    if math.isfinite(whole.sum()):
        return [gradient.contiguous() for gradient in gradients]
    return [finite(gradient) for gradient in gradients]


def finite(gradient: Tensor) -> Tensor:
    """A surrogate's gradient, (*s), in one piece of memory, or zero with a warning where it is not finite."""
    if math.isfinite(gradient.sum()) or gradient.isfinite().all():  # a finite sum has finite terms only
        return gradient.contiguous()
    warnings.warn("the surrogate's gradient is not finite: it counts as zero", stacklevel=2)
    return torch.zeros_like(gradient)
