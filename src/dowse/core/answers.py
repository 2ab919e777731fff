"""What models answer with, read as scores (n, K): tensors, arrays, tuples, dictionaries, one number for two classes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dowse.settings import Outputs

KEYS = ("logits", "scores", "probabilities", "probs", "predictions", "outputs", "output")  # the first that is there
AROUND_ONE = 0.02  # how far the sum of probabilities may be from 1: they may have been rounded
BEYOND = 1.05  # no probability is as large, however it was rounded


class Reader:
    """Reads the answers of one model; a tensor (n, K) of two or more classes, all that the program asks for, stays as
    it is and is not looked at.

    Of any other answer the first one tells whether it holds probabilities, which become what the run expects. One
    number a row, of a model with a sigmoid or the logit before it, becomes two classes: (n, 1) or (n,) -> (n, 2).

    Attributes:
        adapted: Whether answers are read at all; from the first one on that is no such tensor, or set from outside.
        said: What the model answers with, where a user said so; None looks at the first answer.
        expects: What the run takes answers for.
        floor: What a probability of zero is taken for; None is the smallest number of the answer's type.
    """

    def __init__(self, said: Outputs | None = None, *, adapted: bool = False, floor: float | None = None) -> None:
        self.said, self.adapted, self.floor = said, adapted or said is not None, floor
        self.expects: Outputs = "logits"
        self.outputs: Outputs | None = said
        self.single = False

    def __call__(self, answer: Any, n: int) -> Any:
        """Scores (n, K) of an answer about n rows; what cannot be read is left as it is, for `checked_scores`."""
        plain = isinstance(answer, Tensor) and answer.ndim == 2 and answer.shape[1] != 1
        if plain and not self.adapted:
            return answer
        scores = _shaped(_unwrapped(answer, n), n)
        if scores is None:
            return answer
        if n == 0 and scores.shape[1] == 1:  # an empty list has the shape of one number a row too
            return scores.new_empty((0, 2)) if getattr(answer, "ndim", 0) == 2 else answer
        self.single = scores.shape[1] == 1
        self.adapted = self.adapted or not plain
        return self._expected(scores)

    @property
    def words(self) -> str:
        """What comes out, in words."""
        if self.outputs is None:
            return "scores"
        word = "probabilities" if self.outputs == "probs" else "logits"
        return f"one {word.replace('ies', 'y').rstrip('s')} for two classes" if self.single else word

    def _expected(self, scores: Tensor) -> Tensor:
        """Scores (n, K) or (n, 1) as the run expects them, (n, K) or (n, 2)."""
        if not len(scores):
            return scores
        self._look(scores)
        if self.outputs != "probs":
            return torch.cat([torch.zeros_like(scores), scores], 1) if self.single else scores
        floor = self.floor or torch.finfo(scores.dtype).tiny
        scores = scores.double()
        both = torch.cat([1 - scores, scores], 1) if self.single else scores
        return both if self.expects == "probs" else both.clamp_min(floor).log()

    def _look(self, scores: Tensor) -> None:
        """Learn what the model answers with from its first answer, and see that later ones agree."""
        seen = scores.detach()
        if not bool(seen.isfinite().all()):
            return  # such an image ends by itself
        low, high = float(seen.min()), float(seen.max())
        inside = low >= 0 and high <= 1
        if self.outputs is None:
            sums = self.single or bool(((seen.double().sum(1) - 1).abs() <= AROUND_ONE).all())
            self.outputs = "probs" if inside and sums else "logits"
        elif self.outputs == "probs" and (low < 1 - BEYOND or high > BEYOND):
            was = "were said to be" if self.said else "looked like"
            raise TypeError(
                f"the target's answers {was} probabilities, and now one is {low if low < 0 else high:g}: say "
                "outputs='logits' of them, in Python dowse.Model(model, outputs='logits'), in a spec #outputs=logits"
            )


def _unwrapped(answer: Any, n: int) -> Tensor | None:
    """The tensor in an answer about n rows; None if none is found."""
    if isinstance(answer, Tensor):
        return answer
    if isinstance(answer, Mapping):
        held = [answer[key] for key in KEYS if key in answer] or (list(answer.values()) if len(answer) == 1 else [])
        return _unwrapped(held[0], n) if held else None
    if getattr(answer, "logits", None) is not None:
        return _unwrapped(answer.logits, n)
    if isinstance(answer, tuple | list):
        return _of_sequence(answer, n)
    if hasattr(answer, "__array__"):
        return _of_array(answer)
    return None


def _of_sequence(answer: Sequence[Any], n: int) -> Tensor | None:
    """Rows of numbers, n tensors of a row each, or a tuple of which the first has the scores."""
    if not answer:
        return None
    first = answer[0]
    if not isinstance(first, tuple | list | float | int | np.number):
        inner = _unwrapped(first, n)
        if inner is not None and (inner.ndim >= 2 or len(answer) != n or isinstance(answer, tuple)):
            return inner
        rows = [_unwrapped(row, 1) for row in answer]
        shapes = {None if row is None else row.shape for row in rows}
        return (
            torch.stack([row for row in rows if row is not None]) if len(shapes) == 1 and None not in shapes else None
        )
    try:
        return _of_array(np.asarray(answer))
    except ValueError:  # rows of different lengths
        return None


def _of_array(answer: Any) -> Tensor | None:
    try:
        array = np.asarray(answer)
        return torch.from_numpy(np.ascontiguousarray(array) if array.flags.writeable else array.copy())
    except (TypeError, ValueError):  # of objects, of text
        return None


def _shaped(scores: Tensor | None, n: int) -> Tensor | None:
    """Scores as (n, K) floats, K = 1 for one number a row; None where they are not of n rows, or are mere labels."""
    if scores is None or scores.ndim == 0:
        return None
    if scores.ndim == 1 and n == 1 and len(scores) > 1:
        scores = scores.unsqueeze(0)
    if len(scores) != n or (scores.ndim == 1 and not scores.is_floating_point()):
        return None
    wide = scores.unsqueeze(1) if scores.ndim == 1 else scores
    if wide.ndim != 2:
        return None
    return wide if wide.is_floating_point() else wide.double()
