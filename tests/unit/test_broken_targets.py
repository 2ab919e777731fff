"""A broken target must not look like a robust one: what failed is left out and said, and where all failed it raises."""

from types import SimpleNamespace

import pytest
import torch

import dowse
from dowse.core.outcome import End
from dowse.maths.losses import Objective
from dowse.surrogates.given import as_prior
from tests.support import Faulty, NotFinite, Tanh, attack_anyway, labels_of, pictures

NET = Tanh(0)
X = pictures(6)
Y = labels_of(NET, X)
RUN = {"method": "rgf", "q": 4, "eps": 0.05, "budget": 20}


def refuse(x):
    raise ConnectionError("nobody listens")


BROKEN = [
    (lambda x: SimpleNamespace(score=NET(x)), "got SimpleNamespace"),
    (lambda x: {"out": NET(x), "features": x}, r"got dict: it holds 'out', 'features'; give lambda x: model\(x\)\[…\]"),
    (lambda x: (None, NET(x)), r"got tuple: give lambda x: model\(x\)\[i\]"),
    (lambda x: NET(x).argmax(1), r"got \(6,\), which look like labels"),
    (lambda x: NET(x).argmax(1).numpy(), "got ndarray, which look like labels"),
    (lambda x: NET(x).argmax(1).tolist(), "got list, which look like labels: let it answer with probabilities"),
    (lambda x: [f"class {label}" for label in NET(x).argmax(1)], "got list, which look like labels"),
    (lambda x: tuple(NET(x).argmax(1)), "got tuple, which look like labels"),
    (lambda x: NET(x)[:1], r"got \(1, 4\)"),
    (refuse, "ConnectionError: nobody listens"),
    (lambda x: NET(x) * torch.nan, "The target answered with NaN or infinite scores"),
]


@pytest.mark.parametrize(("target", "said"), BROKEN)
def test_a_target_that_always_fails_is_an_error_with_its_cause(target, said):
    with pytest.raises(dowse.TargetFailedError, match=rf"failed on 6 of 6 images(.|\n)*{said}") as caught:
        dowse.attack(target, X, Y, **RUN)
    assert [outcome.index for outcome in caught.value.outcomes] == [0, 1, 2, 3, 4, 5]
    assert all(outcome.end.failed for outcome in caught.value.outcomes)


@pytest.mark.parametrize(("target", "said"), BROKEN)
def test_a_stream_raises_after_its_last_outcome(target, said):
    heard = []
    with pytest.raises(dowse.TargetFailedError, match=said):
        heard.extend(dowse.stream(target, zip(X, Y.tolist(), strict=True), **RUN))
    assert len(heard) == 6


def test_an_estimate_raises_too():
    with pytest.raises(dowse.TargetFailedError, match="nobody listens"):
        dowse.estimate(refuse, X, Y, method="rgf")


def test_some_failures_are_left_out_and_counted():
    result = dowse.attack(Faulty(NET, {1}), X, Y, concurrency=2, batch_size=10, **RUN)
    failed = [end is End.TARGET_FAILED for end in result.end]
    summary = result.summary()
    assert 0 < sum(failed) < 6
    assert (summary.n, summary.failed, summary.already_wrong) == (6 - sum(failed), sum(failed), 0)
    assert summary.asr == int(result.success.sum()) / summary.n
    assert result.success_at(20) == summary.asr
    assert f"the target failed on {sum(failed)}, first with ConnectionError" in str(summary)
    assert len(list(dowse.stream(Faulty(NET, {1}), X, concurrency=2, batch_size=10, **RUN))) == 6


def test_scores_that_are_not_finite_count_as_failures_of_the_target():
    target = NotFinite(NET, lambda x: (x == X[0]).flatten(1).all(1))
    summary = dowse.attack(target, X, Y, **RUN).summary()
    assert (summary.n, summary.failed, summary.cause) == (5, 1, End.NONFINITE.sentence.rstrip("."))


def test_images_that_are_wrong_anyway_are_no_failure_of_the_target():
    few, wrong = X[:3], (Y[:3] + 1) % 4  # so few that nobody doubts the labels
    summary = dowse.attack(NET, few, wrong, **RUN).summary()
    assert (summary.n, summary.already_wrong, summary.failed) == (0, 3, 0)
    summary = attack_anyway(NotFinite(NET, lambda x: (x == X[0]).flatten(1).all(1)), few, wrong, **RUN).summary()
    assert (summary.n, summary.already_wrong, summary.failed) == (0, 2, 1)


def test_a_surrogate_of_other_classes_is_told_before_the_first_query():
    with pytest.warns(UserWarning, match="the surrogate has 6 classes, the target 4"):
        as_prior(Tanh(1, classes=6), Objective(), X[0], classes=4)
