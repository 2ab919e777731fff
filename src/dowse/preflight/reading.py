"""The checks that only read: a target's mode, pixels, and the scores that one question brought, (n, K)."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from dowse.core.target import Target
from dowse.maths.steps import single_precision, step_of
from dowse.preflight.findings import Finding, Verdict, option
from dowse.settings import Outputs
from dowse.wording import step as step_words

MOST_DECIMALS = 6
STARTS_WHERE_SCORES_MOVE = (
    "σ starts as long as a step, where scores move, and grows where that is too short; `square` needs no slope"
)


def mode(target: Target) -> Finding:
    """Whether the target is in the mode that it is used in."""
    if target.in_training:
        return Finding("mode", Verdict.WRONG, "the target is in training mode", "call target.eval() first")
    return Finding("mode", Verdict.GOOD, "not in training mode")


def pixels(images: Tensor) -> Finding:
    """Whether the images, (n, C, H, W), are what a target is promised: pixels in [0, 1]."""
    low, high = float(images.detach().min()), float(images.detach().max())
    found = f"images {'×'.join(map(str, images.shape[1:]))}, pixels in [{low:.3g}, {high:.3g}]"
    if not (low >= 0 and high <= 1):
        return Finding("pixels", Verdict.WRONG, found, "divide by 255, or move the normalisation into the target")
    if high <= 1 / 255:
        return Finding("pixels", Verdict.WRONG, found, "nearly black: was it divided by 255 twice?")
    return Finding("pixels", Verdict.GOOD, found)


def form(words: str) -> Finding:
    """What a target takes and answers with, in words; of 8-bit pixels it is said what they hide."""
    if "int8" not in words:
        return Finding("form", Verdict.GOOD, words)
    grid = f"an attack with {option('quantize', True)} keeps to that grid and starts σ at one level"
    remedy = f"it does not see less than 1/255 of a pixel: {grid}"
    return Finding("form", Verdict.NOTE, words, remedy)


def answer(scores: Tensor) -> Finding:
    """Whether scores, (n, K), of n different images can be used."""
    n, k = scores.shape
    if not scores.isfinite().all():
        return Finding("answer", Verdict.WRONG, "scores hold NaN or infinity", "mend the target; such images fail")
    if k < 2:
        return Finding("answer", Verdict.WRONG, f"shape ({n}, {k})", "an attack needs the scores of two classes")
    found = difference(scores, n)
    if found.verdict is not Verdict.GOOD:
        return found
    interval = f"[{float(scores.min()):.3g}, {float(scores.max()):.3g}]"
    return Finding("answer", Verdict.GOOD, f"{n} images, {k} classes, scores in {interval}")


def difference(scores: Tensor, images: int) -> Finding:
    """Whether scores, (n, K), of so many different images differ at all."""
    if images > 1 and bool((scores == scores[0]).all()):
        remedy = (
            "check the scale of its input: it may expect 0 … 255 (scale=255 of dowse.Model, #scale=255 behind a spec), "
            "or normalise twice"
        )
        return Finding("answer", Verdict.WRONG, f"the same scores for {images} different images", remedy)
    return Finding("answer", Verdict.GOOD, "different images have different scores")


def decisions(scores: Tensor) -> Finding:
    """Whether scores, (n, K), say no more than the class: one 1 a row, all else 0."""
    if bool(((scores == 0) | (scores == 1)).all()) and bool((scores.sum(1) == 1).all()):
        remedy = "let it answer with its probabilities or logits: nothing can be learned from a decision here"
        return Finding("classes shown", Verdict.WRONG, "each answer is one 1 and zeros, a decision", remedy)
    return Finding("classes shown", Verdict.GOOD, "more than a decision")


def kind_of_scores(scores: Tensor) -> Outputs:
    """What scores, (n, K), look like."""
    inside = bool((scores >= 0).all()) and bool((scores.sum(1) <= 1.02).all())
    return "probs" if inside else "logits"


def outputs(scores: Tensor, said: Outputs) -> Finding:
    """Whether the scores, (n, K), are what they are said to be."""
    kind, low, high = kind_of_scores(scores), float(scores.min()), float(scores.max())
    if kind == "probs":
        looks = "none is negative, no row sums to more than 1"
    elif low >= 0 and high <= 1:
        looks = f"all in [0, 1], but a row sums to {float(scores.sum(1).max()):.3g}, as sigmoids do"
    else:
        looks = f"in [{low:.3g}, {high:.3g}], not in [0, 1]"
    found = f"{'probabilities' if kind == 'probs' else 'logits'}: {looks}"
    if kind == said:
        return Finding("outputs", Verdict.GOOD, found)
    return Finding("outputs", Verdict.WRONG, f"{found}, but outputs={said!r}", f"say {option('outputs', kind)}")


def clearly(scores: Tensor, said: Outputs) -> Finding:
    """As `outputs`, wrong only where even a few rows, (n, K), leave no doubt."""
    probabilities = bool((scores >= 0).all()) and bool(((scores.sum(1) - 1).abs() <= 1e-3).all())
    logits = bool((scores < 0).any()) or bool((scores > 1.02).any())
    found = outputs(scores, said)
    return found if (probabilities if said == "logits" else logits) else replace(found, verdict=Verdict.GOOD)


def rounding(scores: Tensor) -> Finding:
    """Whether all scores are rounded to a few decimals."""
    single = single_precision(scores)
    for decimals in range(MOST_DECIMALS + 1):
        if 10 * single > 10.0**-decimals:
            break
        if float((scores - scores.round(decimals=decimals)).abs().max()) <= single:
            return Finding(
                "rounding",
                Verdict.NOTE,
                f"scores are rounded to {decimals} decimals",
                STARTS_WHERE_SCORES_MOVE,
            )
    if (step := step_of(scores)) is not None:
        return Finding(
            "rounding",
            Verdict.NOTE,
            f"scores come in steps of {step_words(step)}",
            STARTS_WHERE_SCORES_MOVE,
        )
    return Finding("rounding", Verdict.GOOD, "scores have all their decimals")


def hidden(scores: Tensor) -> Finding:
    """Whether most classes share one value: zero, or a bound."""
    k = scores.shape[1]
    shown = max(len(row.unique()) for row in scores)
    if shown < k and 2 * shown <= k:
        return Finding(
            "classes shown",
            Verdict.NOTE,
            f"at most {shown} different scores of {k} classes a row",
            "it seems to show its best classes only; a targeted attack needs the wanted class among them",
        )
    return Finding("classes shown", Verdict.GOOD, f"each of the {k} classes has a score")


def labels(scores: Tensor, labels: Sequence[int | None] | None) -> Finding:
    """Whether the target agrees with the labels given, and if not, whether it merely counts from another number."""
    predicted = scores.argmax(1).tolist()
    pairs = [(p, y) for p, y in zip(predicted, labels or (), strict=False) if y is not None]
    if not pairs:
        return Finding(
            "labels", Verdict.GOOD, f"its labels: {', '.join(map(str, predicted[:8]))}; none to compare with"
        )
    right = sum(p == y for p, y in pairs)
    found = f"{right} of {len(pairs)} images are classified as labelled"
    if 2 * right >= len(pairs):
        return Finding("labels", Verdict.GOOD, found)
    offsets = {p - y for p, y in pairs}
    if len(pairs) > 1 and len(offsets) == 1 and (offset := offsets.pop()) != 0:
        return Finding("labels", Verdict.WRONG, found, f"every label is off by {offset:+d}: shift the labels")
    return Finding(
        "labels",
        Verdict.WRONG,
        found,
        "check the order of classes, of colour channels, the scale of its input and the image size",
    )
