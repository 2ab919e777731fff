"""What answers `prior_at`, `look` and `pull`: surrogates, asked for many images at once."""

import warnings
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from dowse.core.flow import Look, PriorAt, Pull, Seen, Weighing
from dowse.errors import InputError


class Prior(Protocol):
    """Anything that can say in which direction f grows for a model of its own.

    A prior that is not the same each time says so with an attribute `takes_turns = True` and is called as
    `gradient(x, labels, turns=(n,) int64)`: how many gradients each image was given before. It must depend on nothing
    else, so that an image's result does not depend on its neighbours.
    """

    def gradient(self, x: Tensor, labels: Tensor) -> Tensor:
        """∇f of the surrogate at each image: (n, *s), (n,) -> (n, *s)."""
        ...


class Transparent(Prior, Protocol):
    """A prior that also shows what is inside: it answers `look` and `pull`."""

    def see(self, x: Tensor, turns: Tensor, weights: Sequence[Weighing] | None = None) -> list[Seen]:
        """What it says at each image, (n, *s), with the gradient of what n weights make of it, if there are any."""
        ...


def gradient_of(prior: Prior, x: Tensor, labels: Tensor, turns: Tensor) -> Tensor:
    """A prior's gradient at each image, (n, *s), its turns, (n,), told to a prior that asks for them."""
    asks_for_turns: Any = prior
    if getattr(prior, "takes_turns", False):
        gradient: Tensor = asks_for_turns.gradient(x, labels, turns=turns)
        return gradient
    return prior.gradient(x, labels)


def surrogates_of(prior: Prior | None) -> list[Prior]:
    """The surrogates a prior consists of, in the order of their numbers; an ensemble has several."""
    if prior is None:
        return []
    parts = getattr(prior, "priors", None)
    return [prior] if parts is None else [one for part in parts for one in surrogates_of(part)]


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
        gradients = gradient_of(
            prior, points, torch.tensor([labels[i] for i in rows]), torch.tensor([turns[i] for i in rows])
        )
        for i, gradient in zip(rows, gradients, strict=True):
            answers[i] = finite(gradient)
    if len(rows) < len(asked):
        _see_all(surrogates_of(prior), asked, turns, answers)
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
        pulls = [i for i, q in enumerate(asked) if isinstance(q, Pull) and number in q.weights]
        for rows, pulled in ((looks, False), (pulls, True)):
            if not rows:
                continue
            weights = [question.weights[number] for i in rows if isinstance(question := asked[i], Pull)]
            seen = _transparent(surrogate).see(
                torch.stack([asked[i].x for i in rows]),
                torch.tensor([turns[i] for i in rows]),
                weights if pulled else None,
            )
            for i, one in zip(rows, seen, strict=True):
                answer = answers[i]
                assert isinstance(answer, dict)
                answer[number] = one


def _check_numbers(question: PriorAt | Look | Pull, surrogates: int) -> None:
    numbers = () if isinstance(question, PriorAt) else question.weights if isinstance(question, Pull) else question.of
    for number in numbers or ():
        if not 0 <= number < surrogates:
            raise InputError(f"an attack asks surrogate number {number}, there are {surrogates}: they count from 0")


def _transparent(surrogate: Prior) -> Transparent:
    if not callable(getattr(surrogate, "see", None)):
        raise InputError(
            f"the surrogate {type(surrogate).__name__} gives gradients of f only, and this method looks inside: give "
            "the network itself, an nn.Module or a dowse.Surrogate, or a method such as prgf that asks for no more"
        )
    shown: Any = surrogate
    transparent: Transparent = shown
    return transparent


def finite(gradient: Tensor) -> Tensor:
    """A surrogate's gradient, (*s), in one piece of memory, or zero with a warning where it is not finite."""
    if gradient.isfinite().all():
        return gradient.contiguous()
    warnings.warn("the surrogate's gradient is not finite: it counts as zero", stacklevel=2)
    return torch.zeros_like(gradient)
