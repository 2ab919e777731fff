"""Models as people have them: whatever they take and answer with, they are attacked as a tensor-to-tensor one is."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import dowse
from dowse.core.target import Target
from dowse.defences import Jpeg
from dowse.errors import TargetNote
from dowse.preflight import Verdict, preflight
from dowse.targets import open_target
from tests.support import Tanh, generator, labels_of, pictures

SHAPE = (3, 4, 5)  # no two sides are equal, so that no layout passes for another
X = pictures(5, shape=SHAPE)
D = X[0].numel()
RUN = {"method": "rgf", "q": 4, "eps": 2.0, "budget": 60}


class Rows(nn.Module):
    """Scores of channel means and of a few pixels, as sums along one row: any other layout fails."""

    def __init__(self, classes: int = 4, channels: int = 3) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(classes, channels, generator=generator(0), dtype=torch.float64) * 8)
        self.channels = channels
        self.eval()

    def forward(self, x):
        if x.shape[1] != self.channels or x.ndim != 4:
            raise RuntimeError(f"expected {self.channels} channels, got {tuple(x.shape)}")
        return (((x - 0.5) ** 2).mean((2, 3)).unsqueeze(1) * self.W).sum(2)


NET = Rows()
SCORES = NET(X).detach()
PROBS = SCORES.softmax(1)


def of_numpy(x, layout="NHWC", dtype=None):
    """The network behind numpy arrays of a layout and type."""
    if not isinstance(x, np.ndarray):
        raise TypeError(f"expected an array, got {type(x).__name__}")
    if dtype is not None and x.dtype != dtype:
        raise TypeError(f"expected {dtype}, got {x.dtype}")
    x = torch.from_numpy(x).double() / (255 if dtype == "uint8" else 1)
    return NET(x.permute(0, 3, 1, 2) if layout == "NHWC" else x).detach().numpy()


def answered(model, x=X):
    """The scores of a model as a target, and its form."""
    target = open_target(model)
    delivery = target.deliver(x)
    assert delivery.cause is None, delivery.cause
    return delivery.scores, target


@pytest.mark.parametrize(
    "answer",
    [
        lambda s: s.numpy(force=True),
        lambda s: s.tolist(),
        lambda s: (s, None),
        lambda s: [s, None],
        lambda s: list(s),
        lambda s: {"logits": s, "loss": None},
        lambda s: {"anything": s},
        lambda s: SimpleNamespace(logits=s),
    ],
)
def test_answers_of_many_forms(answer):
    scores, target = answered(lambda x: answer(NET(x)))
    assert torch.equal(scores, SCORES)
    assert target.form == "float NCHW in, logits out"


def test_a_model_that_answers_as_a_target_does_is_left_alone():
    seen = []

    def plain(x):
        seen.append(x)
        return NET(x)

    scores, target = answered(plain)
    assert torch.equal(scores, SCORES)
    assert target.form is None
    assert seen[0] is X, "nothing is copied"
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("model", "form"),
    [
        (lambda x: of_numpy(x, "NCHW"), "numpy float NCHW in"),
        (of_numpy, "numpy float NHWC in"),
        (lambda x: of_numpy(x, dtype="uint8"), "numpy uint8 NHWC in"),
        (lambda x: of_numpy(x, "NCHW", "uint8"), "numpy uint8 NCHW in"),
        (lambda x: NET(x.permute(0, 3, 1, 2)), "float NHWC in"),
    ],
)
def test_what_goes_in_is_found(model, form):
    scores, target = answered(model)
    assert (scores - SCORES).abs().max() < (0.5 if "uint8" in form else 1e-12)
    assert target.form == f"{form}, logits out"


def test_a_module_tells_its_layout_without_a_row():
    class Last(nn.Module):
        def forward(self, x):
            rows.append(len(x))
            return SimpleNamespace(logits=NET(x.permute(0, 3, 1, 2)))

    rows = []
    target = open_target(Last().eval())
    assert target(X[:0]).shape == (0, 4)
    assert target.form == "float NHWC in, scores out"
    assert set(rows) == {0}
    assert torch.allclose(target(X), SCORES)
    assert target.differentiable


def test_a_module_that_fails_once_keeps_its_layout():
    class Late(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 1:
                raise RuntimeError("not yet")
            return x.flatten(1)[:, :4]  # of any layout

    target = open_target(Late().eval())
    target(X[:0])
    assert torch.equal(target(X), X.flatten(1)[:, :4])
    assert target.form is None


def test_what_was_asked_to_find_a_form_is_counted():
    """The first question in the usual form fails, then zeros are asked in forms until one is answered."""
    rows = []

    def model(x):
        rows.append(len(x))
        return of_numpy(x)

    delivery = open_target(model).deliver(X)
    assert rows == [5, 1, 1, 1, 5], "a tensor; zeros as tensor, NCHW and NHWC; the images"
    assert int(delivery.sent.sum()) == sum(rows)
    rows.clear()
    with pytest.warns(TargetNote):
        result = dowse.attack(model, X, SCORES.argmax(1), **RUN)
    assert int(result.sent.sum()) == sum(rows)
    assert int(result.queries.sum()) == sum(rows) - 5 - 3


def test_a_passing_fault_is_no_form():
    """What fails once and then takes the same form is a target that failed, as ever."""
    calls = []

    def model(x):
        calls.append(x)
        if len(calls) == 1:
            raise RuntimeError("not now")
        return NET(x)

    target = open_target(model)
    assert "not now" in str(target.deliver(X).cause)
    assert torch.equal(target.deliver(X).scores, SCORES)
    assert target.form is None
    assert all(isinstance(x, torch.Tensor) for x in calls)


@pytest.mark.parametrize("error", [ConnectionError, TimeoutError, dowse.InputError])
def test_what_is_not_about_the_form_is_not_looked_into(error):
    calls = []

    def model(x):
        calls.append(len(x))
        raise error("gone")

    delivery = open_target(model).deliver(X)
    assert isinstance(delivery.cause, error)
    assert calls == [5]
    assert delivery.sent.tolist() == [1] * 5


def test_the_attack_on_them_is_the_attack_on_the_network():
    y = SCORES.argmax(1)
    plain = dowse.attack(NET, X, y, **RUN)
    assert plain.success.any()
    with pytest.warns(TargetNote, match="float NCHW in, logits out"):
        other = dowse.attack(lambda x: {"logits": NET(x).numpy(force=True)}, X, y, **RUN)
    assert torch.equal(plain.queries, other.queries)
    assert torch.equal(plain.adversarial, other.adversarial)


def test_probabilities_are_taken_for_what_they_are():
    """As log-probabilities they are logits; a run that says outputs="probs" gets them as they are."""
    scores, target = answered(lambda x: NET(x).softmax(1).numpy(force=True))
    assert torch.allclose(scores.softmax(1), PROBS, atol=1e-12)
    assert target.form == "float NCHW in, probabilities out"
    target.expect("probs")
    assert torch.equal(target(X), PROBS)
    assert torch.equal(open_target(lambda x: NET(x).softmax(1))(X), PROBS), "which works today: it stays as it is"


def test_a_probability_of_zero_stays_finite():
    scores, _ = answered(lambda x: np.eye(4)[: len(x)] if len(x) < 5 else np.eye(4)[[0, 1, 2, 3, 0]])
    assert bool(scores.isfinite().all())
    assert scores.argmax(1).tolist() == [0, 1, 2, 3, 0]


@pytest.mark.parametrize("shape", [lambda z: z, lambda z: z[:, 0], lambda z: z.numpy(force=True)])
def test_one_logit_is_two_classes(shape):
    one = Rows(1)
    z = one(X).detach()
    scores, target = answered(lambda x: shape(one(x)))
    assert torch.allclose(scores.softmax(1)[:, 1:], z.sigmoid())
    assert target.form == "float NCHW in, one logit for two classes out"
    scores, target = answered(lambda x: shape(one(x).sigmoid()))
    assert torch.allclose(scores.softmax(1)[:, 1:], z.sigmoid())
    assert target.form == "float NCHW in, one probability for two classes out"


@pytest.mark.parametrize("of_probability", [False, True])
def test_an_attack_on_one_output(of_probability):
    class One(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Rows(1)
            self.eval()

        def forward(self, x):
            z = self.net(x) + 0.4
            return z.sigmoid() if of_probability else z

    y = (One()(X)[:, 0] > (0.5 if of_probability else 0)).long()
    assert 0 < int(y.sum()) < 5
    with pytest.warns(TargetNote, match="for two classes out"):
        result = dowse.attack(One(), X, y, **RUN)
    assert (result.success | (result.queries == 60)).all()
    assert not any(end is dowse.End.ALREADY_WRONG for end in result.end)


def test_a_logit_that_was_taken_for_a_probability_is_said():
    target = open_target(lambda x: x[:, 0, 0, :1] * 4)
    target(X[:1] * 0)
    with pytest.raises(TypeError, match=r"looked like probabilities, and now one is .*outputs='logits'"):
        target(X)
    said = dowse.Model(lambda x: x[:, 0, 0, :1] * 4, outputs="logits")
    assert torch.equal(said(X * 0), torch.zeros(5, 2))


class Trees:
    """As scikit-learn's: flattened pixels, no call, K known."""

    n_features_in_ = D

    def predict_proba(self, x):
        if x.ndim != 2 or not len(x):
            raise ValueError("expected rows")
        return NET(torch.from_numpy(x).view(-1, 4, 5, 3).permute(0, 3, 1, 2)).softmax(1).numpy(force=True)

    def predict(self, x):
        return self.predict_proba(x).argmax(1)


@pytest.mark.parametrize("model", [Trees(), Trees().predict_proba])
def test_flattened_pixels(model):
    scores, target = answered(model)
    assert torch.allclose(scores.softmax(1), PROBS)
    assert target.form == "numpy float NHWC flattened in, probabilities out"
    assert target.deliver(X).sent.tolist() == [1] * 5


def test_pixels_that_are_too_many_are_said_before_any_question():
    with pytest.raises(dowse.InputError, match=r"Trees takes 60 numbers an image, these are 3×8×8 = 192.*--size"):
        dowse.attack(Trees(), torch.rand(1, 3, 8, 8), **RUN)


def test_a_model_like_keras():
    class Keras:
        input_shape = (None, 4, 5, 3)

        def __call__(self, x):
            raise AssertionError("predict is meant")

        def predict(self, x, batch_size=None, verbose="auto"):
            assert verbose == 0
            return of_numpy(x)

    scores, target = answered(Keras())
    assert torch.allclose(scores, SCORES)
    assert target.input_shape == SHAPE
    assert target.deliver(X).sent.tolist() == [1] * 5


def test_grey_images_without_an_axis_of_channels():
    def model(x):
        assert isinstance(x, np.ndarray)
        assert x.ndim == 3
        return np.stack([x.mean((1, 2)), x[:, 0, 0]], 1) * 5

    scores, target = answered(model, X[:, :1])
    assert target.form == "numpy float NHW in, logits out"
    assert torch.allclose(scores[:, 1], X[:, 0, 0, 0] * 5)


def test_what_is_said_is_not_looked_for():
    seen = []

    def model(x):
        seen.append(x)
        return x.reshape(len(x), -1)[:, :4].astype(float)

    target = dowse.Model(model, layout="nhwc", dtype="uint8", arrays="numpy", outputs="logits")
    target.deliver(X)
    assert len(seen) == 1
    assert seen[0].dtype == np.uint8
    assert seen[0].shape == (5, 4, 5, 3)
    assert np.abs(seen[0] - X.permute(0, 2, 3, 1).numpy() * 255).max() <= 0.5
    scaled = dowse.Model(lambda x: x.flatten(1)[:, :2], scale=255, mean=[1, 2, 3], std=2)
    assert torch.allclose(scaled(X), (X[:, 0, 0, :2] * 255 - 1) / 2)
    assert dowse.Model(NET, shape="3x4x5").input_shape == SHAPE


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layout": "HWC"}, "layout='HWC' is unknown"),
        ({"dtype": "int8"}, "dtype='int8' is unknown"),
        ({"arrays": "jax"}, "arrays='jax' is unknown"),
        ({"outputs": "odds"}, "outputs='odds' is unknown"),
        ({"scale": 0}, "scale must be a finite number above 0"),
        ({"std": (1, 0)}, "std must be a finite number above 0"),
        ({"shape": (3, 4)}, "CxHxW"),
        ({"call": "predict_prob"}, "no method 'predict_prob'"),
    ],
)
def test_what_cannot_be_said(options, said):
    with pytest.raises(dowse.InputError, match=said):
        dowse.Model(NET, **options)


@pytest.mark.parametrize("thing", [3, "words", SimpleNamespace(score=1), None])
def test_what_is_no_model(thing):
    said = "is not a target" if isinstance(thing, str) else f"got {type(thing).__name__}"
    with pytest.raises(dowse.InputError, match=said):
        dowse.attack(thing, X, **RUN)


def test_a_model_that_answers_in_no_form_says_what_was_tried():
    class Labels:
        def predict(self, x):
            return np.zeros(len(x), dtype=int)

    with pytest.raises(dowse.TargetFailedError, match=r"in none of the forms tried .*labels.*say layout=") as caught:
        dowse.attack(Labels(), X[:1], **RUN)
    assert "\n" not in str(caught.value.outcomes[0].cause)


def test_a_defence_in_front_reads_answers_too():
    jpeg = Jpeg(lambda x: {"logits": NET(x).numpy(force=True)})
    assert torch.equal(jpeg(X), Jpeg(NET)(X))
    assert jpeg.form == "float NCHW in, logits out"
    one = Jpeg(lambda x: Rows(1)(x).sigmoid())
    one.expect("probs")
    assert one(X).sum(1).allclose(torch.ones(5, dtype=torch.float64))


def test_preflight_says_the_form():
    report = preflight(lambda x: NET(x).softmax(1).numpy(force=True), X, seconds=0)
    found = {finding.check: finding for finding in report.findings}
    assert found["form"].found == "float NCHW in, probabilities out"
    assert found["outputs"].verdict is Verdict.GOOD
    assert "probabilities" in found["outputs"].found


def test_preflight_says_what_8_bits_hide():
    report = preflight(lambda x: of_numpy(x, dtype="uint8"), X, seconds=0)
    (form,) = [finding for finding in report.findings if finding.check == "form"]
    assert (form.verdict, form.found) == (Verdict.NOTE, "numpy uint8 NHWC in, logits out")
    assert "quantize=True" in form.remedy


def test_whoever_speaks_for_itself_is_not_read():
    class Own(Target):
        def __call__(self, points, seeds=None):
            return {"logits": NET(points)}

    own = Own()
    assert open_target(own) is own
    with pytest.raises(TypeError, match="got dict"):
        own.deliver(X)


@pytest.mark.install
def test_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    x = pictures(40, shape=(1, 4, 4))
    y = (x.mean((1, 2, 3)) > x.mean()).long()
    model = linear_model.LogisticRegression(C=1e4, max_iter=1000).fit(x.flatten(1).numpy(), y.numpy())
    with pytest.warns(TargetNote, match="LogisticRegression: numpy float NHWC flattened in, probabilities out"):
        result = dowse.attack(model, x[:4], y[:4], method="rgf", q=8, eps=1.0, budget=200)
    right = model.predict(x[:4].flatten(1).numpy()) == y[:4].numpy()
    found = model.predict(result.adversarial.flatten(1).numpy()) != y[:4].numpy()
    assert right.all()
    assert found.tolist() == result.success.tolist()
    assert result.success.any()
    with pytest.warns(TargetNote, match="probabilities out"):
        same = dowse.attack(model, x[:4], y[:4], method="rgf", q=8, eps=1.0, budget=200, outputs="probs")
    assert torch.equal(result.success, same.success)


def test_labels_of_the_plain_network_are_still_its_own():
    net = Tanh(0)
    x = pictures(3)
    assert torch.equal(dowse.attack(net, x, labels_of(net, x), **RUN | {"budget": 1}).queries, torch.ones(3).long())
