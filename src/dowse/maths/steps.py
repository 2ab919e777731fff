"""The step in which scores come: of a quantised model, or of one that rounds."""

import torch
from torch import Tensor

ENOUGH_VALUES = 7  # so many different scores that all are multiples of the least difference by no chance
COMMON = (1 / 10, 1 / 100, 1 / 256, 1 / 255, 1 / 1000)  # steps that a few probabilities are enough to tell
EXACT = 1 / 256  # a power of two: its multiples are floats without any rounding
SUMS = (0.5, 1.02)  # what probabilities may add up to: they may have been rounded, most of them to zero


def step_of(scores: Tensor) -> float | None:
    """The step of which all scores, (n, K), are multiples, up to a number for all; None if there is none.

    >>> round(1 / step_of(torch.tensor([[0, 1, 2, 3, 5, 9, 13, 223]]) / 256))
    256
    """
    values = _distinct(scores)
    if len(values) < ENOUGH_VALUES:
        return None
    span, least = float(values[-1] - values[0]), float(values.diff().min())
    for parts in (1, 2, 3):
        step = span / max(round(span * parts / least), 1)
        places = (values - values[0]) / step
        if float((places - places.round()).abs().max()) <= 0.02:
            return step if step > 10 * single_precision(scores) else None
    return None


def step_of_answer(scores: Tensor) -> float | None:
    """The step of the answer about one image, scores (K,): logits, probabilities or their logarithms; None if smooth.

    Of a confident answer few values are left, most of them zero: those of probabilities are held against common steps.
    The least value is left out, for it may stand for zero (`dowse.core.answers.Reader.floor`).

    >>> step_of_answer(torch.tensor([0.0, 0.0, 0.1, 0.9])), step_of_answer(torch.tensor([0.25, 0.75]))
    (0.1, None)
    """
    scores = scores.detach().double()
    if not len(scores) or not bool(scores.isfinite().all()):
        return None
    logarithms = bool((scores <= 0).all()) and _may_be_probabilities(scores.exp())
    shown = scores.exp() if logarithms else scores
    values = _distinct(shown)
    if (step := step_of(values[1:] if len(values) > ENOUGH_VALUES else values)) is not None:
        return step
    return _common_step(shown) if _may_be_probabilities(shown) else None


def single_precision(scores: Tensor) -> float:
    """What float32 cannot hold of scores as large as these, of any shape.

    >>> f"{single_precision(torch.tensor([-2.0, 1.0])):.1e}"
    '2.4e-07'
    """
    return float(torch.finfo(torch.float32).eps) * max(1e-3, float(scores.abs().max()))


def _distinct(scores: Tensor) -> Tensor:
    """The different scores, of any shape, in ascending order, (m,) float64."""
    return torch.tensor(sorted({*scores.double().flatten().tolist()}), dtype=torch.float64)


def _may_be_probabilities(shown: Tensor) -> bool:
    return bool((shown >= 0).all()) and SUMS[0] <= float(shown.sum()) <= SUMS[1]


def _common_step(probabilities: Tensor) -> float | None:
    """The common step that all of a row's probabilities, (K,), are multiples of; None if they leave a doubt.

    One value is enough for the exact step, or where several classes share the least one, as zeros do; else two are.
    Quarters tell nothing: people write them, and equal logits make them.
    """
    least = probabilities.min()
    values = _distinct(probabilities[probabilities > least])
    telling = int(((4 * values).frac() > 0).sum())
    shared = int((probabilities == least).sum()) > 1
    for step in COMMON:
        places = (values / step).round()
        off = (values - places * step).abs()
        doubt = 0 if step == EXACT or shared else 1
        if telling > doubt and bool((places > 0).all()) and bool((off <= (1e-11 if step == EXACT else 3e-7)).all()):
            return step
    return None
