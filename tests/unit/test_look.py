"""look, pull and opening: what a surrogate shows of itself, its gradients, and how an attack learns how it began."""

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import dowse
from dowse.core.flow import Look, PriorAt, Pull, Seen, Weights, check, look, opening, prior_at, pull
from dowse.core.prior import Prior, answer_all
from dowse.defences import Randomization
from dowse.maths.losses import Objective
from dowse.surrogates.ensemble import Ensemble
from dowse.surrogates.given import as_prior
from dowse.surrogates.prior import SurrogatePrior
from dowse.surrogates.smoothing import smoothed
from dowse.surrogates.surrogate import Surrogate, resized
from tests.support import SHAPE, Counter, Linear, Tanh, generator, labels_of, pictures

TARGET = Tanh(0)
NEAR = Tanh(1, near=TARGET)
PICTURES = pictures(5)
LABELS = labels_of(TARGET, PICTURES)
CE = Objective("ce")


def headed(seed: int = 0, features: int = 6, classes: int = 4, side: int = 4) -> nn.Sequential:
    """A net whose last layer is linear."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * side * side, features), nn.Tanh(), nn.Linear(features, classes))
    return net.double().eval()


class Pooling(nn.Module):
    """A net that ends in a 1×1 convolution and a mean over all places, with a ReLU between them if wanted."""

    def __init__(self, relu: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body, self.head = nn.Conv2d(3, 5, 3, padding=1).double(), nn.Conv2d(5, 4, 1).double()
        self.last = nn.ReLU() if relu else nn.Identity()
        self.eval()

    def forward(self, x):
        return self.last(self.head(self.body(x).tanh())).mean((2, 3))


def ask(surrogate: Any, questions: list[Any], **more: Any) -> list[Any]:
    made = as_prior(surrogate, CE, PICTURES[0], **more)
    assert made is not None
    return answer_all(made, questions, LABELS[: len(questions)].tolist(), [0] * len(questions))


def gradient_by_hand(value, x):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(value(x[None])[0], x)[0]


def random(*shape: int, seed: int = 7) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def test_a_look_shows_the_logits_and_the_input_of_the_last_layer():
    net = headed()
    for x, answer in zip(PICTURES, ask(net, [Look(x) for x in PICTURES]), strict=True):
        assert set(answer) == {0}
        assert torch.allclose(answer[0].logits, net(x[None])[0])
        assert torch.allclose(answer[0].features, net[:3](x[None])[0])
        assert answer[0].gradient is None
        assert not answer[0].logits.requires_grad


def test_the_mean_input_of_a_last_convolution_serves_where_the_logits_are_linear_in_it():
    net = Pooling(relu=False)
    ((seen,),) = ([answer[0]] for answer in ask(net, [Look(PICTURES[0])]))
    assert seen.features.shape == (5,)
    assert torch.allclose(net.head.weight[:, :, 0, 0] @ seen.features + net.head.bias, seen.logits)


@pytest.mark.parametrize("net", [Pooling(relu=True), NEAR, Linear(random(4, 48), random(4))])
def test_the_logits_serve_where_there_is_no_last_linear_layer(net):
    (answer,) = ask(net, [Look(PICTURES[0])])
    assert torch.equal(answer[0].features, answer[0].logits)


def test_looking_leaves_no_hook_behind():
    net = headed()
    ask(net, [Look(PICTURES[0]), Pull(PICTURES[1], {0: Weights(random(4))})])
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in net.modules())


def test_a_pull_is_the_gradient_of_logits_and_features_row_by_row():
    net, a, b = headed(), random(5, 4), random(5, 6)
    questions = [Pull(x, {0: Weights(a[i], b[i])}) for i, x in enumerate(PICTURES)]
    for i, answer in enumerate(ask(net, questions, batch_size=2)):
        expected = gradient_by_hand(lambda x, i=i: net(x) @ a[i] + net[:3](x) @ b[i], PICTURES[i])
        assert torch.allclose(answer[0].gradient, expected, atol=1e-12)
        assert torch.allclose(answer[0].logits, net(PICTURES[i : i + 1])[0])


def test_several_pulls_at_one_point_share_the_forward_pass():
    net, a, b = headed(), random(3, 4), random(2, 6)
    questions = [
        Pull(PICTURES[0], {0: Weights(a)}),
        Pull(PICTURES[1], {0: Weights(features=b)}),
        Pull(PICTURES[2], {0: Weights(a[0])}),
    ]
    several, fewer, one = (answer[0].gradient for answer in ask(net, questions))
    assert (several.shape, fewer.shape, one.shape) == ((3, *SHAPE), (2, *SHAPE), SHAPE)
    for j in range(3):
        expected = gradient_by_hand(lambda x, j=j: net(x) @ a[j], PICTURES[0])
        assert torch.allclose(several[j], expected, atol=1e-12)
    for j in range(2):
        expected = gradient_by_hand(lambda x, j=j: net[:3](x) @ b[j], PICTURES[1])
        assert torch.allclose(fewer[j], expected, atol=1e-12)


def test_where_logits_serve_as_features_both_weights_count():
    a, b = random(4), random(4, seed=8)
    (answer,) = ask(NEAR, [Pull(PICTURES[0], {0: Weights(a, b)})])
    assert torch.allclose(answer[0].gradient, gradient_by_hand(lambda x: NEAR(x) @ (a + b), PICTURES[0]), atol=1e-12)


def test_weights_may_be_made_of_what_is_seen():
    def margin(seen: Seen) -> Weights:
        best = seen.logits.topk(2).indices
        w = torch.zeros(4, dtype=torch.float64)
        w[best[1]], w[best[0]] = 1, -1
        return Weights(w)

    (answer,) = ask(NEAR, [Pull(PICTURES[0], {0: margin})])
    w = margin(Seen(NEAR(PICTURES[:1])[0], torch.empty(0))).logits
    assert torch.allclose(answer[0].gradient, gradient_by_hand(lambda x: NEAR(x) @ w, PICTURES[0]), atol=1e-12)


def test_a_prior_is_a_pull_along_the_slope_of_the_loss():
    def slope(i: int):
        def weights(seen: Seen) -> Weights:
            z = seen.logits.clone().requires_grad_()
            return Weights(torch.autograd.grad(CE.value(z[None], LABELS[i : i + 1])[0], z)[0])

        return weights

    pulled = ask(NEAR, [Pull(x, {0: slope(i)}) for i, x in enumerate(PICTURES)])
    given = ask(NEAR, [PriorAt(x) for x in PICTURES])
    for one, gradient in zip(pulled, given, strict=True):
        assert torch.allclose(one[0].gradient, gradient, atol=1e-14)


def test_only_the_surrogates_asked_are_run():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.passes = 0
            self.eval()

        def forward(self, x):
            self.passes += 1
            return NEAR(x)

    nets = [Counting() for _ in range(3)]
    made = Ensemble([SurrogatePrior(nets[0], CE), Ensemble([SurrogatePrior(net, CE) for net in nets[1:]])])
    w = Weights(random(4))
    answers = answer_all(
        made, [Pull(PICTURES[0], {1: w}), Look(PICTURES[1], (2,)), Look(PICTURES[2])], [0] * 3, [0] * 3
    )
    assert [set(answer) for answer in answers] == [{1}, {2}, {0, 1, 2}]
    searching = 1  # the first time, one row finds the last layer
    assert [net.passes - searching for net in nets] == [1, 2, 1]
    with pytest.raises(dowse.InputError, match="number 3, there are 3"):
        answer_all(made, [Look(PICTURES[0], (3,))], [0], [0])


@pytest.mark.parametrize(("offset", "classes"), [(1, 4), (-1, 4), (0, 6), (2, 5)])
def test_logits_and_weights_go_by_the_targets_classes(offset, classes):
    net = headed(classes=5)
    own, w = net(PICTURES[:1])[0].detach(), random(classes)
    surrogate = Surrogate(net, class_offset=offset)
    with pytest.warns(UserWarning, match="has 5 classes") if offset == 0 else torch.no_grad():
        (answer,) = ask(surrogate, [Pull(PICTURES[0], {0: Weights(w)})], classes=classes)
    expected = torch.zeros(5, dtype=torch.float64)
    for c in range(classes):
        if 0 <= c + offset < 5:
            assert answer[0].logits[c] == pytest.approx(float(own[c + offset]))
            expected[c + offset] = w[c]
        else:
            assert answer[0].logits[c] == pytest.approx(float(own.min()))
    assert torch.allclose(answer[0].gradient, gradient_by_hand(lambda x: net(x) @ expected, PICTURES[0]), atol=1e-12)


def test_each_surrogate_has_its_own_size_and_smoothing():
    net, w = headed(side=7), random(4)
    (answer,) = ask(Surrogate(net, size=7, smooth=3), [Pull(PICTURES[0], {0: Weights(w)})])
    plain = gradient_by_hand(lambda x: net(resized(x, 7)) @ w, PICTURES[0])
    assert answer[0].gradient.shape == SHAPE
    assert torch.allclose(answer[0].gradient, smoothed(plain[None], 3)[0], atol=1e-12)


def test_weights_of_another_length_are_refused():
    with pytest.raises(dowse.InputError, match=r"each of 4 values, got \(3,\)"):
        ask(NEAR, [Pull(PICTURES[0], {0: Weights(random(3))})])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_a_surrogate_says_is_finite(bad):
    """A class that a surrogate masks stands as low as its lowest; nothing is known of what is not finite throughout."""
    scores = torch.tensor([[3.0, bad, -1.0, 2.0], [bad, bad, bad, bad]], dtype=torch.float64)

    class Masked(Linear):
        def forward(self, x):
            return torch.where(scores.isfinite(), super().forward(x) * 0, 0) + scores[: len(x)]

    net = SurrogatePrior(Masked(torch.ones(4, 48, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)), CE)
    net.batch_size = 2
    first, second = net.see(PICTURES[:2], torch.zeros(2, dtype=torch.int64))
    assert first.logits.tolist() == first.features.tolist() == [3.0, -1.0, -1.0, 2.0]
    assert second.logits.tolist() == [0.0] * 4


def test_a_gradient_that_is_not_finite_counts_as_zero():
    with pytest.warns(UserWarning, match="not finite"):
        (answer,) = ask(NEAR, [Pull(PICTURES[0], {0: Weights(torch.full((4,), torch.nan))})])
    assert not answer[0].gradient.any()


class OnlyGradients:
    def gradient(self, x, labels):
        return torch.ones_like(x)


@dataclass(frozen=True)
class Asking:
    """Puts its questions and keeps what it hears."""

    questions: tuple[Any, ...]
    heard: list[Any]

    def flow(self, x, f, ball, rng):
        for question in self.questions:
            self.heard.append((yield from question(x)))
        yield from check(x)


def test_a_prior_of_the_users_own_answers_prior_at_and_says_what_it_lacks():
    heard: list[Any] = []
    run = {"surrogate": OnlyGradients(), "eps": 0.1, "budget": 5}
    dowse.attack(TARGET, PICTURES[:1], LABELS[:1], method=Asking((prior_at,), heard), **run)
    assert torch.equal(heard[0], torch.ones(SHAPE, dtype=torch.float64))
    for question in (look, lambda x: pull(x, {0: Weights(random(4))})):
        with pytest.raises(dowse.InputError, match=r"OnlyGradients gives gradients of f only.*nn.Module"):
            dowse.attack(TARGET, PICTURES[:1], LABELS[:1], method=Asking((question,), []), **run)
    with pytest.raises(dowse.InputError, match="give surrogate="):
        dowse.attack(TARGET, PICTURES[:1], LABELS[:1], method=Asking((look,), []), eps=0.1, budget=5)


class DerivedOnlyGradients(Prior):
    def gradient(self, x, labels, turns=None):
        return torch.ones_like(x)


@pytest.mark.parametrize("method", ["dowse", "gfcs", "simba-ods", "ods-rgf", "prgf-span", "bases", "pbo"])
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [NEAR, one]], ids=["one", "two"])
@pytest.mark.parametrize("opaque", [OnlyGradients, DerivedOnlyGradients])
def test_a_method_that_looks_inside_refuses_it_before_any_query(method, wrap, opaque):
    target = Counter(TARGET)
    with pytest.raises(dowse.InputError, match="OnlyGradients gives gradients of f only"):
        dowse.attack(target, PICTURES, LABELS, method=method, surrogate=wrap(opaque()), budget=20)
    assert target.rows == 0


@pytest.mark.parametrize("targeted", [False, True])
def test_the_opening_says_what_the_first_answer_said(targeted):
    heard: list[Any] = []
    wanted = (LABELS[:1] + 1) % 4 if targeted else None
    result = dowse.attack(
        TARGET, PICTURES[:1], method=Asking((lambda x: opening(),), heard), surrogate=[NEAR, NEAR, OnlyGradients()],
        target_labels=wanted, eps=0.1, budget=5, loss="margin",
    )  # fmt: skip
    assert int(result.queries[0]) == 2  # the opening was not paid for again
    (known,) = heard
    assert torch.equal(known.answer.scores, TARGET(PICTURES[:1]).detach())
    assert (known.label, known.surrogates) == (int(LABELS[0]), 3)
    assert known.wanted == (int(wanted[0]) if targeted else None)
    assert known.objective == Objective("margin", "logits", targeted)


def test_without_surrogates_there_are_none():
    heard: list[Any] = []
    dowse.attack(TARGET, PICTURES[:1], method=Asking((lambda x: opening(),), heard), eps=0.1, budget=5)
    assert heard[0].surrogates == 0


def test_a_look_and_the_pull_after_it_see_one_draw_of_a_randomised_surrogate():
    heard: list[Any] = []
    x = pictures(1, shape=(3, 40, 40))
    net = Randomization(nn.Sequential(nn.AdaptiveAvgPool2d(4), headed()).eval())
    target = nn.Sequential(nn.Flatten(), nn.Linear(4800, 4)).double().eval()
    w = {0: Weights(random(4))}
    questions = (look, lambda x: pull(x, w), lambda x: pull(x, w), look)
    dowse.attack(target, x, method=Asking(questions, heard), surrogate=net, eps=0.1, budget=5, concurrency=1)
    first, pulled, again, last = (h[0].logits for h in heard)
    torch.testing.assert_close(first, pulled)
    assert not torch.allclose(first, again)
    assert not torch.allclose(again, last)
