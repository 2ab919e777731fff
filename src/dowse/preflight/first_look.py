"""A run's own preflight: what can be seen without a query is said before the first, and the first answers are read."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dowse.attacks.stepped import Stepped
from dowse.core.oracle import FirstAnswer, Oracle
from dowse.errors import InputError, TargetNote, TargetWarning, warn
from dowse.preflight import reading
from dowse.preflight.findings import Finding, Verdict, option
from dowse.preflight.watching import learn_by_nothing
from dowse.settings import AttackSettings, Outputs

SAY_OTHERWISE = "options say otherwise, layout=… of dowse.Model or #layout=… behind a spec (docs/targets.md)"
SURE_OF_LABELS = 4  # images that are all classified wrongly before it is said; one or two may just be hard


def first_look(oracle: Oracle, like: Tensor, settings: AttackSettings, stepped: Stepped | None = None) -> None:
    """Learn K and look at a run's target now, and once more when its first answers are there; no row is asked for that.

    What is wrong with it is a TargetWarning with its remedy, for verdicts hold all the same. A target of a single score
    is an InputError: it can never be found to be fooled.

    Args:
        oracle: The run's, which has not been asked yet.
        like: One image of the run, (C, H, W).
        settings: What the target is said to answer with, and whether the images' labels matter.
        stepped: The run's attack, if its σ starts where scores move.
    """
    target, seen = oracle.target, learn_by_nothing(oracle, like)
    if oracle.classes is not None:
        _check_classes(oracle.classes)

    def noise(drew: bool) -> Finding:
        return _noise(drew and not target.remote and not target.in_training)

    mode, pixels = reading.mode(target), reading.pixels(like.unsqueeze(0))
    told = _tell([mode, pixels, _softmax(seen.softmax, settings.outputs), noise(seen.draws)])

    def read(answers: Sequence[FirstAnswer], drew: bool) -> None:
        scores = torch.cat([answer.scores for answer in answers])
        _check_classes(scores.shape[1])
        if (form := target.form) is not None:
            warn(f"{target.name}: {form}, as its first answer shows; {SAY_OTHERWISE}", TargetNote)
        if not bool(scores.isfinite().all()):
            return  # each such image ends by itself, and says so
        first = torch.stack([answer.scores[0] for answer in answers])
        same = reading.difference(first, _distinct(answers))
        if stepped is not None:
            _say_sigma(stepped, first if oracle.mask is None else oracle.mask(first))
        findings = [same, reading.decisions(scores), reading.clearly(scores, settings.outputs), noise(drew)]
        _tell([finding for finding in findings if finding.check != told])
        if not settings.targeted and settings.accept != "never":
            _tell([_labels(first, [answer.request.label for answer in answers])])

    oracle.on_first_answers = read


def _tell(findings: Sequence[Finding]) -> str | None:
    """Warn of the first finding that is wrong, and say which check it is; those after it may be its consequences."""
    for finding in findings:
        if finding.verdict is Verdict.WRONG:
            remedy = finding.remedy[:1].upper() + finding.remedy[1:]
            warn(f"something looks wrong ({finding.check}): {finding.found}. {remedy}.", TargetWarning)
            return finding.check
    return None


def _say_sigma(attack: Stepped, scores: Tensor) -> None:
    """Say where σ starts, if the scores of the unchanged images, (n, K), come in steps that are longer."""
    if (sigma := max(map(attack.sigma_for, scores))) > attack.sigma:
        warn(
            f"scores come in steps: {attack.name} starts with σ = {sigma:.2g} a pixel, where they move, not "
            f"{attack.sigma:.2g}; a sigma of your own is kept",
            TargetNote,
        )


def _check_classes(classes: int) -> None:
    """Raise InputError if a target answers with one score only."""
    if classes == 1:
        raise InputError(
            "the target answers with one score, and an attack needs those of two classes: give the other one too, for "
            "example torch.cat([-z, z], 1) of a logit z, or torch.cat([1 - p, p], 1) of a probability p"
        )


def _softmax(seen: bool, outputs: Outputs) -> Finding:
    """Whether a target that ends in a softmax is said to answer with probabilities."""
    if not seen or outputs == "probs":
        return Finding("outputs", Verdict.GOOD, "as far as can be seen without a query, as it is said")
    found = "its last step is a softmax, so it answers with probabilities, but outputs='logits'"
    return Finding("outputs", Verdict.WRONG, found, f"say {option('outputs', 'probs')}")


def _noise(drew: bool) -> Finding:
    """Whether the target has noise that it does not declare, as the random numbers it draws tell, without a query."""
    if not drew:
        return Finding("determinism", Verdict.GOOD, "it drew no random numbers while it answered")
    return Finding(
        "determinism",
        Verdict.WRONG,
        "it drew random numbers while it answered, so the same image may be answered otherwise",
        "if it is to be noisy, set takes_row_seeds = True and draw from the seeds it is given; else "
        f"{option('repeats', 4)} averages its noise (all counted), {option('verify', 3)} asks again about a success",
    )


def _labels(scores: Tensor, labels: Sequence[int | None]) -> Finding:
    """Whether not one of several images is classified as labelled, (n, K) and n labels."""
    finding = reading.labels(scores, labels)
    pairs = [(int(row.argmax()), label) for row, label in zip(scores, labels, strict=True) if label is not None]
    if len(pairs) >= SURE_OF_LABELS and all(predicted != label for predicted, label in pairs):
        return finding
    return Finding("labels", Verdict.GOOD, finding.found)


def _distinct(answers: Sequence[FirstAnswer]) -> int:
    """How many of the questions begin with an image of their own."""
    kept: list[Tensor] = []
    for answer in answers:
        x = answer.request.points[0]
        if not any(torch.equal(x, other) for other in kept):
            kept.append(x)
    return len(kept)
