"""Before a long run: what a few queries tell about a target, each finding with its remedy."""

from collections.abc import Callable, Sequence

from torch import Tensor

from dowse.errors import in_words
from dowse.maths.losses import Objective
from dowse.preflight import reading
from dowse.preflight.asking import Asking
from dowse.preflight.findings import Finding, Preflight, Verdict, as_record
from dowse.settings import Outputs
from dowse.targets import open_target
from dowse.targets.model import ModelLike

__all__ = ["Finding", "Preflight", "Verdict", "as_record", "preflight"]


def preflight(
    target: ModelLike,
    images: Tensor,
    labels: Sequence[int | None] | None = None,
    *,
    outputs: Outputs = "logits",
    seconds: float = 2.0,
) -> Preflight:
    """Ask a target some questions, about 40 for 8 images and at most 256 to time it, and say what a run should know.

    Args:
        target: From points (n, C, H, W) in [0, 1] to scores (n, K), or any other model that `dowse.attack` takes.
        images: A few images, (n, C, H, W) in [0, 1], float32.
        labels: Their true labels, n of them, as far as they are known.
        outputs: What the target is said to answer with, "logits" or "probs".
        seconds: About how long its speed is measured; with 0 by one pass.
    """
    opened = open_target(target)
    opened.expect("probs")  # of a model whose answers are read, probabilities are wanted as it shows them
    asking = Asking(opened, images)
    findings = [reading.pixels(images)]
    if (mode := reading.mode(opened)).verdict is Verdict.WRONG:
        findings.append(mode)
    findings.append(_guarded("answer", asking.answer))
    if asking.scores is None:
        return Preflight(tuple(findings), asking.queries, asking.sent)
    scores = asking.scores
    if opened.form is not None:
        findings.append(reading.form(opened.form))
        outputs = reading.kind_of_scores(scores)  # a run takes them for what they are
    findings += [
        reading.outputs(scores, outputs),
        reading.rounding(scores),
        decided if (decided := reading.decisions(scores)).verdict is Verdict.WRONG else reading.hidden(scores),
        _guarded("determinism", asking.determinism),
        _guarded("batch", asking.batch_dependence),
        _guarded("sensitivity", lambda: asking.sensitivity(Objective("ce", reading.kind_of_scores(scores)))),
        reading.labels(scores, labels),
        _guarded("speed", lambda: asking.throughput(seconds)),
    ]
    return Preflight(
        tuple(findings), asking.queries, asking.sent, tuple(scores.argmax(1).tolist()), scores.shape[1], asking.rate
    )


def _guarded(check: str, look: Callable[[], Finding]) -> Finding:
    """A finding, also where the target fails while it is asked."""
    try:
        return look()
    except Exception as error:
        return Finding(
            check,
            Verdict.WRONG,
            in_words(error),
            "a target takes points (n, C, H, W) in [0, 1] and answers with scores (n, K); check the size of the images "
            "(--size, of `dowse check` --shape) and, if one answers, the server",
        )
