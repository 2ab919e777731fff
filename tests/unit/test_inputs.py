"""Bad input gets a clear error before any query: a counter around the target has seen nothing."""

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import dowse
from dowse.errors import BudgetWarning
from dowse.estimators import PRGF
from tests.support import SHAPE, Counter, Tanh, labels_of, pictures, takes_rows

TARGET = Tanh(0)
SURROGATE = Tanh(1, near=TARGET)
X = pictures(3)
Y = labels_of(TARGET, X)


def refused(x=X, y=Y, *, match, target=TARGET, **run):
    """The call is refused in words that match, and costs nothing."""
    counter = Counter(target)
    settings = {"method": "rgf", "budget": 50, **run}
    with pytest.raises(dowse.InputError, match=match) as caught:
        dowse.attack(counter, x, y, **settings)
    assert counter.rows == 0
    assert len(str(caught.value)) > 15
    return str(caught.value)


def changed(value):
    x = X.clone()
    x[1, 0, 2, 2] = value
    return x


@pytest.mark.parametrize(
    ("x", "match"),
    [
        pytest.param(changed(1.001), r"\[0, 1\], got \[.*, 1.001\]", id="above"),
        pytest.param(changed(-0.001), r"\[0, 1\], got \[-0.001", id="below"),
        pytest.param(changed(math.nan), "NaN", id="nan"),
        pytest.param(changed(math.inf), r"inf\]", id="infinite"),
        pytest.param(X * 255, "divide by 255", id="bytes as floats"),
        pytest.param((X * 255).to(torch.uint8), "float\\(\\) / 255", id="uint8"),
        pytest.param(X.half(), "float16", id="half"),
        pytest.param((X > 0.5).long(), "int64", id="integers"),
        pytest.param(X[0], r"\(N,C,H,W\), got shape \(3, 4, 4\)", id="one image"),
        pytest.param(X[None], r"got shape \(1, 3, 3, 4, 4\)", id="rank five"),
        pytest.param(X[:0], "nothing to attack", id="empty batch"),
        pytest.param(X[:, :, :0], "nothing to attack", id="empty images"),
        pytest.param(X.numpy(), "torch.as_tensor", id="numpy"),
        pytest.param("photos", "dowse attack --images", id="a folder"),
        pytest.param([X[0]], "got list", id="list"),
        pytest.param(None, "NoneType", id="none"),
    ],
)
def test_images(x, match):
    y = Y[: len(x)] if isinstance(x, torch.Tensor) and x.ndim == 4 else Y
    refused(x, y, match=match)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        pytest.param(Y[:2], r"\(3,\), one for each image, got \(2,\)", id="too few"),
        pytest.param(torch.cat([Y, Y]), r"got \(6,\)", id="too many"),
        pytest.param(Y[:, None], r"got \(3, 1\)", id="rank two"),
        pytest.param(2, r"got \(1,\)", id="one number"),
        pytest.param(Y.double(), "float64", id="floats"),
        pytest.param(Y > 1, "bool", id="booleans"),
        pytest.param([0, 1, 4], "label 4 is out of range: the target has 4 classes", id="beyond K"),
        pytest.param([0, -1, 2], "label -1 is out of range", id="negative"),
        pytest.param("abc", "3 integers", id="text"),
        pytest.param(["cat", "dog", "cow"], "3 integers", id="names"),
        pytest.param([None, None, None], "3 integers", id="nones"),
        pytest.param([0, [1], 2], "3 integers", id="ragged"),
    ],
)
def test_labels(y, match):
    refused(X, y, match=match)


@pytest.mark.parametrize(
    ("wanted", "match"),
    [
        ([0, 1], r"target_labels must be \(3,\)"),
        ([*((Y[:2] + 1) % 4).tolist(), 4], "label 4 is out of range"),
        ([0.5, 1, 2], "integers"),
        (Y, "already"),
    ],
)
def test_wanted_labels(wanted, match):
    refused(target_labels=wanted, match=match)


@pytest.mark.parametrize("labels", [{"y": [0, 1, 7]}, {"y": Y, "target_labels": [9, 9, 9]}])
def test_labels_of_a_target_that_takes_no_empty_batch_are_checked_at_its_first_answer(labels):
    """All of them at once, also those of images that would enter much later, and also a targeted run's true labels."""
    counter = Counter(takes_rows(TARGET))
    with pytest.raises(dowse.InputError, match="the target has 4 classes"):
        dowse.attack(counter, X, method="rgf", budget=50, concurrency=1, **labels)
    assert counter.rows == 1


def test_a_targeted_runs_true_labels_are_checked_too():
    counter = Counter(takes_rows(TARGET))
    with pytest.raises(dowse.InputError, match="label 8"):
        dowse.attack(counter, X, [8, 8, 8], method="rgf", budget=50, concurrency=1, target_labels=[0, 1, 2])


def test_an_empty_answer_to_an_empty_batch_tells_nothing_about_the_classes():
    def target(x):
        return TARGET(x) if len(x) else torch.empty(0, 0)

    assert len(dowse.attack(target, X, Y, method="rgf", q=5, budget=20)) == 3


@pytest.mark.parametrize(
    ("run", "match"),
    [
        ({"method": "prfg"}, "'prfg' is unknown: did you mean 'prgf'"),
        ({"method": "nonsense"}, "known are .*averaging.*prgf.*rgf"),
        ({"method": 3}, "takes a name, an estimator"),
        ({"method": PRGF}, r"write PRGF\(\)"),
        ({"method": PRGF(), "surrogate": SURROGATE, "q": 3}, "options q go with a method's name"),
        ({"qq": 3}, "no option 'qq'"),
        ({"sigmma": 3}, "did you mean 'sigma'"),
        ({"lam": 0.5}, "rgf has no option 'lam'"),
        ({"norm": "l3"}, "norm='l3' is unknown"),
        ({"norm": "Linf"}, "did you mean 'linf'"),
        ({"loss": "hinge"}, "loss='hinge'"),
        ({"outputs": "prob"}, "did you mean 'probs'"),
        ({"accept": "all"}, "accept='all'"),
        ({"ids": ["a", "b"]}, "ids must name each of the 3 images, got 2"),
        ({"subspace": 5}, "subspace = 5.*4x4"),
        ({"subspace": (4, 5)}, "subspace"),
        ({"subspace": 0}, "subspace"),
        ({"subspace": 2.5}, "subspace"),
        ({"subspace": (2,)}, "subspace"),
        ({"subspace": (2, 2, 2)}, "subspace"),
        ({"subspace": "ab"}, "subspace"),
        ({"subspace": True}, "subspace"),
    ],
)
def test_settings(run, match):
    refused(match=match, **run)


@pytest.mark.parametrize("name", ["eps", "step", "sigma"])
@pytest.mark.parametrize("value", [0, -0.1, math.nan, math.inf, "1", True])
def test_lengths(name, value):
    refused(match=f"{name} must be a finite number above 0, got", **{name: value})


@pytest.mark.parametrize("name", ["q", "budget", "concurrency", "batch_size"])
@pytest.mark.parametrize("value", [0, -3, 2.5, 10.0, math.inf, math.nan, "10", True])
def test_counts(name, value):
    refused(match=f"{name} counts and must be a whole number of at least 1, got", **{name: value})


@pytest.mark.parametrize("method", ["prgf", "averaging"])
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"norm_samples": 0}, "norm_samples"),
        ({"norm_samples": 2.5}, "norm_samples"),
        ({"norm_period": 0}, "norm_period"),
        ({"a_square": 0.5}, "subspace= too"),
        ({"gamma": 3.5}, "subspace= too"),
        ({"a_square": 1.5, "subspace": 2}, "a_square"),
        ({"a_square": math.nan, "subspace": 2}, "a_square"),
        ({"gamma": 0, "subspace": 2}, "gamma"),
        ({"a_square": 0.5, "gamma": 1.0, "subspace": 2}, "give one of them"),
    ],
)
def test_options_of_the_cosine(method, options, match):
    refused(match=match, method=method, surrogate=SURROGATE, **options)


@pytest.mark.parametrize(
    ("run", "match"),
    [
        ({"method": "prgf", "lam": 1.1}, r"lam must lie in \[0, 1\]"),
        ({"method": "prgf", "lam": -0.1}, "lam"),
        ({"method": "prgf", "lam": math.nan}, "lam"),
        ({"method": "prgf", "lam": "0.5"}, "lam"),
        ({"method": "prgf", "exact_subspace": True}, "subspace= too"),
        ({"method": "averaging", "mu": 2}, "mu"),
        ({"method": "averaging", "threshold": -1}, "threshold"),
        ({"method": "transfer", "steps": 0}, "steps"),
        ({"method": "transfer", "steps": 2.5}, "steps"),
        ({"method": "whitebox", "steps": -1}, "steps"),
    ],
)
def test_options_of_a_method(run, match):
    refused(match=match, surrogate=SURROGATE, **run)


@pytest.mark.parametrize("method", ["prgf", "averaging", "transfer", PRGF()])
def test_a_missing_surrogate(method):
    refused(match="needs a surrogate", method=method)


@pytest.mark.parametrize("surrogate", [lambda x: x, 3, object()])
def test_a_surrogate_that_is_none(surrogate):
    refused(match="surrogate", method="prgf", surrogate=surrogate)


@pytest.mark.parametrize("method", ["rgf", "prgf"])
def test_another_dtype(method):
    refused(X.float(), match="float32 .*, the target is torch.float64", method=method, surrogate=SURROGATE)


def test_a_surrogate_of_another_dtype():
    refused(match="the surrogate is torch.float32", method="prgf", surrogate=Tanh(1, dtype=torch.float32))


def test_a_target_that_cannot_be_called():
    with pytest.raises(dowse.InputError, match="callable"):
        dowse.attack(np.zeros(3), X, Y, method="rgf")


def test_whitebox_needs_a_module():
    with pytest.raises(dowse.InputError, match=r"nn\.Module, got function"):
        dowse.attack(lambda x: TARGET(x), X, Y, method="whitebox")


@pytest.mark.parametrize("name", ["target", "surrogate"])
def test_training_mode_is_warned_of(name):
    nets = {"target": Tanh(0), "surrogate": Tanh(1)}
    nets[name].train()
    with pytest.warns(UserWarning, match=f"the {name} is in training mode") as told:
        dowse.attack(nets["target"], X, method="prgf", surrogate=nets["surrogate"], q=2, budget=3)
    assert {Path(one.filename) for one in told} == {Path(__file__)}, "it is told at the caller's line"


def test_images_of_another_kind_are_told_their_remedy():
    with pytest.raises(dowse.InputError, match=r"got list: use torch.stack\(x\)"):
        dowse.attack(TARGET, list(X))
    with pytest.raises(dowse.InputError, match=r"got shape \(.*\): use x\[None\] for one image"):
        dowse.attack(TARGET, X[0])


def test_a_surrogate_with_too_few_classes():
    narrow = Tanh(1, classes=2)
    with (
        pytest.warns(UserWarning, match="2 classes, the target 4"),
        pytest.raises(dowse.InputError, match="class"),
    ):
        dowse.attack(TARGET, X, Y, method="prgf", surrogate=narrow, q=2, budget=30)


class TestStream:
    def refused(self, items, *, match, rows=0, **run):
        counter = Counter(TARGET)
        with pytest.raises(dowse.InputError, match=match):
            list(dowse.stream(counter, items, **{"method": "rgf", "q": 2, "budget": 10, "concurrency": 1, **run}))
        assert counter.rows == rows

    @pytest.mark.parametrize(
        ("items", "match"),
        [
            ([], "no image"),
            ([X], r"\(C,H,W\), got shape"),
            ([X[0].mul(255)], "divide by 255"),
            ([(X[0], 9)], "label 9 is out of range"),
            ([(X[0], 1.5)], "label must be an integer"),
            ([(X[0], "cat")], "label must be an integer"),
            ([dowse.Image(X[0], 0.5)], "label must be an integer"),
            ([(X[0], 0, 1)], "targeted=True"),
            ([(X[0], 0, 1, 2)], "a stream holds"),
            (["a"], "a stream holds"),
            ([{"x": X[0]}], "got dict"),
        ],
    )
    def test_the_first_image_is_checked_before_any_query(self, items, match):
        self.refused(items, match=match)

    def test_settings_are_checked_before_any_query(self):
        self.refused([X[0]], match="unknown", method="nope")
        self.refused([X[0]], match="eps", eps=0)
        self.refused([X[0]], match="goes with attack", ids=["a"])
        self.refused([X[0]], match="goes with attack", target_labels=[1])
        self.refused([(X[0], 0)], match="needs a target_label", targeted=True)

    @pytest.mark.parametrize(
        ("second", "match"),
        [
            (X[1].float(), r"one shape, dtype and device, and image 1 is \(3, 4, 4\), torch.float32 on cpu, after"),
            (pictures(1, shape=(3, 5, 5))[0], r"image 1 is \(3, 5, 5\), .* bring them to one size"),
            (X[1] + 1, "image 1: .*divide by 255"),
            ((X[1], 4), "image 1: label 4 is out of range"),
        ],
    )
    def test_each_image_is_checked_as_it_enters(self, second, match):
        counter = Counter(TARGET)
        outcomes = dowse.stream(counter, [X[0], second], method="rgf", q=2, budget=4, concurrency=1)
        first = next(outcomes)
        assert first.index == 0
        with pytest.raises(dowse.InputError, match=match):
            next(outcomes)
        assert counter.rows == first.queries

    def test_nothing_is_asked_before_the_first_outcome_is_wanted(self):
        counter = Counter(TARGET)
        outcomes = dowse.stream(counter, iter(X), method="rgf", q=2, budget=4)
        assert counter.rows == 0
        next(outcomes)
        assert counter.rows > 0


class TestEstimate:
    @pytest.mark.parametrize(
        ("run", "match"),
        [
            ({"method": "transfer", "surrogate": SURROGATE}, "no estimator"),
            ({"method": "whitebox"}, "no estimator"),
            ({"method": "prgf"}, "needs a surrogate"),
            ({"method": "rgf", "accept": "any"}, "leave it out"),
            ({"method": "rgf", "typo": 1}, "no option 'typo'"),
            ({"method": "rgf", "eps": -1}, "eps"),
        ],
    )
    def test_refusals(self, run, match):
        counter = Counter(TARGET)
        with pytest.raises(dowse.InputError, match=match):
            dowse.estimate(counter, X, Y, **run)
        assert counter.rows == 0

    def test_images(self):
        with pytest.raises(dowse.InputError, match="divide by 255"):
            dowse.estimate(TARGET, X * 255, Y, method="rgf")


def test_what_is_not_bad_is_taken():
    """Numpy numbers, lists, int32 labels, gradients on, memory laid out otherwise: all the same answer."""
    expected = dowse.attack(TARGET, X, Y, method="rgf", q=3, budget=20).adversarial
    for x, y, q in [
        (X, Y.tolist(), np.int64(3)),
        (X.clone().requires_grad_(), Y.int(), 3),
        (X.to(memory_format=torch.channels_last), Y.numpy(), 3),
        (X.transpose(2, 3).contiguous().transpose(2, 3), tuple(Y.tolist()), 3),
    ]:
        assert torch.equal(dowse.attack(TARGET, x, y, method="rgf", q=q, budget=20).adversarial, expected)
    numpy = dowse.attack(TARGET, X, Y, method="rgf", q=3, budget=np.int64(20), seed=np.int32(0))
    assert torch.equal(numpy.adversarial, expected)


@pytest.mark.parametrize(
    ("run", "least"),
    [
        ({"method": "rgf"}, 52),
        ({"method": "rgf", "q": 9, "repeats": 3}, 33),
        ({"method": "rgf", "accept": "any"}, 51),
        ({"method": "prgf", "surrogate": TARGET}, 13),  # where λ* is 1 it asks no probe
        ({"method": "prgf", "surrogate": TARGET, "lam": 0.5, "preset": "lean"}, 12),
        ({"method": "square"}, 2),
        ({"method": "zoo", "coordinates": 20}, 42),
        ({"method": "nes", "q": 8, "check_every": 3}, 26),
    ],
)
def test_a_budget_with_which_nothing_can_succeed_is_warned_of(run, least):
    message = f"cannot succeed with budget={least - 1}: .* give a budget of {least} at least"
    with pytest.warns(BudgetWarning, match=message) as said:
        dowse.attack(TARGET, X, Y, budget=least - 1, **run)
    assert (", or a smaller q" in str(said[0].message)) is (run["method"] in ("rgf", "nes") or "lam" in run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dowse.attack(TARGET, X, Y, budget=least, **run)


def test_what_is_said_to_be_enough_is_enough():
    """The last of them is the look at where one estimate leads; without it nothing is found."""
    run = {"method": "rgf", "q": 9, "norm": "l2", "eps": 2.0, "step": 2.0}
    results = [dowse.attack(TARGET, X, Y, budget=budget, **run) for budget in (10, 11)]
    assert [int(result.queries.max()) for result in results] == [10, 11]
    assert not results[0].success.any()
    assert results[1].success.any()


def test_a_single_image_takes_a_single_label():
    assert dowse.attack(TARGET, X[:1], int(Y[0]), method="rgf", q=3, budget=5).outcomes[0].label == int(Y[0])


def test_a_module_without_parameters_is_a_target():
    class Bare(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :4]

    result = dowse.attack(Bare().eval(), X.float(), method="rgf", q=3, budget=10)
    assert result.adversarial.dtype == torch.float32
    assert result.adversarial.shape == (3, *SHAPE)


def test_a_single_image_takes_a_label_without_an_axis():
    """Which is what y[0] is."""
    result = dowse.attack(TARGET, X[:1], Y[0], method="rgf", q=2, budget=4)
    assert result.queries.shape == (1,)


def test_the_batches_of_a_loader_are_said_to_be_no_images():
    with pytest.raises(dowse.InputError, match=r"one integer, got \(2,\): a stream holds images, not batches"):
        list(dowse.stream(TARGET, [(X[:2], Y[:2])]))
