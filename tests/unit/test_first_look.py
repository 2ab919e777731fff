"""A run looks at its target before and at its first answers, and asks nothing more for that."""

import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import dowse
from dowse.core.target import Target
from dowse.defences import Randomization
from dowse.errors import TargetNote, TargetWarning
from dowse.targets.export import export_onnx
from tests.support import Counter, Tanh, generator, labels_of, pictures

NET = Tanh(0, classes=6)
X = pictures(8)
Y = labels_of(NET, X)
RUN = {"method": "rgf", "q": 4, "eps": 0.2, "budget": 30}


def of_net(change):
    """A target that changes the network's scores."""
    return lambda x: change(NET(x))


def heard(target, x=X, y=Y, **more):
    """The one thing that a run on a target is warned of."""
    with pytest.warns(TargetWarning) as caught:
        dowse.attack(target, x, y, **RUN | more)
    (said,) = caught
    assert said.filename == __file__, "it points to whoever called"
    return str(said.message)


def test_a_sound_target_is_attacked_without_a_word():
    dowse.attack(NET, X, Y, **RUN)
    dowse.attack(of_net(lambda s: s.softmax(1)), X, Y, outputs="probs", **RUN)
    dowse.attack(of_net(lambda s: s.log_softmax(1)), X, Y, **RUN)
    dowse.attack(of_net(lambda s: s.sigmoid()), X, Y, outputs="probs", **RUN)


def test_training_mode_is_said_before_the_first_query():
    counter = Counter(Tanh(0, classes=6)).train()
    with pytest.warns(TargetWarning, match="training mode"), pytest.raises(dowse.InputError, match="needs a surrogate"):
        dowse.attack(counter, X, Y, method="prgf")
    assert counter.rows == 0


class Ending(nn.Module):
    """A network and one more step."""

    def __init__(self, step):
        super().__init__()
        self.net, self.step = Tanh(0, classes=6), step

    def forward(self, x):
        return self.step(self.net(x))


BEFORE = {
    "softmax": (lambda s: s.softmax(1), "its last step is a softmax"),
    "softmax, moved": (lambda s: s.softmax(1)[:, None].clone().squeeze(1), "its last step is a softmax"),
    "noise of a row": (lambda s: s + torch.rand_like(s), "it drew random numbers"),
    "noise of a pass": (lambda s: s * torch.rand(()), "it drew random numbers"),
}


@pytest.mark.parametrize("wrong", BEFORE)
@pytest.mark.parametrize(
    "made", [lambda net: net, lambda net: net.forward, Randomization], ids=["module", "function", "defended"]
)
def test_a_softmax_and_noise_are_said_before_the_first_query(wrong, made):
    step, words = BEFORE[wrong]
    counter = Counter(made(Ending(step).eval()))
    with pytest.warns(TargetWarning, match=words), pytest.raises(dowse.InputError, match="needs a surrogate"):
        dowse.attack(counter, X, Y, method="prgf")
    assert counter.rows == 0


def test_what_was_said_before_is_not_said_again():
    assert "its last step is a softmax" in heard(Ending(lambda s: s.softmax(1)).eval())
    assert "it drew random numbers" in heard(Ending(lambda s: s + 1e-3 * torch.rand_like(s)).eval())
    assert "Say outputs='probs'" in heard(Ending(lambda s: s.exp() / s.exp().sum(1, keepdim=True)).eval()), "by answers"


def test_a_softmax_that_is_said_or_that_is_read_is_right():
    dowse.attack(Ending(lambda s: s.softmax(1)).eval(), X, Y, outputs="probs", **RUN)
    dowse.attack(Ending(lambda s: s.softmax(1) @ torch.eye(6, dtype=s.dtype).sub(0.3)).eval(), X, Y, **RUN)
    with pytest.warns(TargetNote):
        dowse.attack(Ending(lambda s: {"probs": s.softmax(1)}).eval(), X, Y, **RUN)


def test_draws_of_a_seeded_generator_are_no_noise():
    dowse.attack(Ending(lambda s: s + torch.rand(6, generator=generator(0))).eval(), X, Y, **RUN)
    dowse.attack(Ending(nn.RReLU()).eval(), X, Y, **RUN)


def test_an_onnx_file_that_ends_in_a_softmax_is_seen_or_told_by_its_answers(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, 5), nn.Softmax(1)).eval()
    file = export_onnx(net, tmp_path / "net.onnx", X.shape[1:]).path
    x = X.float()
    with pytest.warns(TargetWarning, match="its last step is a softmax"), pytest.raises(dowse.InputError):
        dowse.attack(f"onnx:{file}", x, method="prgf")
    dowse.attack(f"onnx:{file}", x, outputs="probs", **RUN)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.warns(TargetWarning, match="Say outputs='probs'"):
        dowse.attack(f"onnx:{file}", x, **RUN)


@pytest.mark.slow
def test_what_is_to_be_compiled_still_is():
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    torch.compiler.reset()  # whatever torch has made of this code in tests before
    net = torch.compile(Ending(lambda s: s.softmax(1)).eval(), backend=backend)
    with pytest.warns(TargetWarning, match="its last step is a softmax"):
        dowse.attack(net, X, Y, **RUN)
    assert compiled


def test_to_look_imports_no_compiler():
    """It takes seconds, in every process that attacks anything."""
    attack = "dowse.attack(torch.nn.Flatten(), torch.rand(1, 3, 4, 4), method='rgf', eps=0.1, budget=3)"
    code = f"import sys, torch, dowse; {attack}; print('torch._dynamo' in sys.modules, 'sympy' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "False"]


def test_a_layer_left_in_training_mode_is_enough():
    net = nn.Sequential(NET, nn.Dropout(0.1)).eval()
    dowse.attack(net, X, Y, **RUN)
    net[1].train()
    assert "training mode" in heard(net)
    assert "training mode" in heard(Randomization(net), sigma=1e-2)


def test_images_that_are_nearly_black():
    assert "divided by 255 twice" in heard(NET, X / 255, labels_of(NET, X / 255))


@pytest.mark.parametrize("mask", [{}, {"decimals": 4}, {"reveals": "topk:3"}])
def test_what_scores_are_said_to_be(mask):
    """Also where a mask makes probabilities of them."""
    assert "Say outputs='probs'" in heard(of_net(lambda s: s.softmax(1)), **mask)
    assert "Say outputs='logits'" in heard(NET, outputs="probs", **mask)


def test_answers_that_are_the_same_for_all_images():
    assert "the same scores for 8 different images" in heard(of_net(lambda s: s * 0 + torch.arange(6)))
    dowse.attack(of_net(lambda s: s * 0 + torch.arange(6)), X[:1], **RUN)
    dowse.attack(of_net(lambda s: s * 0 + torch.arange(6)), X[[0, 0, 0]], **RUN)


def test_answers_that_are_decisions():
    decide = of_net(lambda s: nn.functional.one_hot(s.argmax(1), 6).double())
    assert "one 1 and zeros" in heard(decide)


def test_labels_that_are_shifted():
    some = Y < 5
    assert some.sum() >= 4
    assert "Every label is off by -1: shift the labels" in heard(NET, X[some], Y[some] + 1)
    dowse.attack(NET, X[:3], (Y[:3] + 1) % 6, **RUN)  # a few images may just be hard
    dowse.attack(NET, X, None, **RUN)
    dowse.attack(NET, X, (Y + 1) % 6, target_labels=Y, **RUN)


@pytest.mark.parametrize("learned", ["from no rows", "from the first answer"])
def test_one_score_of_a_target_that_speaks_for_itself_is_refused(learned):
    """Of any other model it is read as two classes: test_any_model.py."""
    rows = []

    class One(Target):
        def __call__(self, points, seeds=None):
            if not len(points) and learned == "from the first answer":
                raise ValueError("no rows")
            rows.append(len(points))
            return NET(points)[:, :1]

    with pytest.raises(dowse.InputError, match=r"one score.*torch\.cat"):
        dowse.attack(One(), X, **RUN)
    assert sum(rows) == (0 if learned == "from no rows" else 8)


def test_it_asks_nothing():
    """A run that is warned of sends exactly what it counts, and as much as with warnings silenced."""
    target = of_net(lambda s: s.softmax(1))
    counter = Counter(target)
    with pytest.warns(TargetWarning):
        result = dowse.attack(counter, X, Y, **RUN)
    assert counter.rows == int(result.sent.sum()) == int(result.queries.sum())


DRAWS = {
    "torch": lambda: float(torch.rand(())),
    "numpy": lambda: np.random.random(),  # noqa: NPY002 as targets do
    "python": random.random,
}


@pytest.mark.parametrize("draw", DRAWS)
def test_noise_that_is_not_declared_is_seen_by_what_is_drawn(draw):
    counter = Counter(lambda x: NET(x) + 1e-3 * DRAWS[draw]())
    with pytest.warns(TargetWarning, match="it drew random numbers while it answered"):
        result = dowse.attack(counter, X, Y, **RUN)
    assert counter.rows == int(result.queries.sum()), "it costs no query"


def test_noise_of_a_generator_of_its_own_is_not_looked_for():
    """Only `dowse check` and `--dry-run` ask the same question twice."""
    rng = generator(0)
    dowse.attack(of_net(lambda s: s + 1e-3 * torch.randn(s.shape, generator=rng)), X, Y, **RUN)


def test_scores_that_are_not_finite_are_left_to_their_images():
    bad = X[0].mean()

    def target(x):
        return torch.where((x.mean((1, 2, 3)) == bad).unsqueeze(1), torch.nan, NET(x))

    assert dowse.attack(target, X, Y, **RUN).end[0] is dowse.End.NONFINITE
