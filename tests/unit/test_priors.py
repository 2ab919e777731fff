"""Surrogates: their resolution, classes and smoothing, several of them together, and what is refused."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.ndimage import correlate
from torch import nn

import dowse
from dowse.defences import Jpeg, Randomization
from dowse.errors import SurrogateWarning
from dowse.maths.losses import Objective
from dowse.settings import AttackSettings
from dowse.surrogates.ensemble import Ensemble
from dowse.surrogates.given import as_prior
from dowse.surrogates.prior import SurrogatePrior
from dowse.surrogates.smoothing import smoothed
from dowse.surrogates.surrogate import Surrogate, resized
from tests.nets import Pooled
from tests.support import SHAPE, Gap, Linear, Tanh, generator, labels_of, pictures

TARGET = Tanh(0)
NEAR, FAR = Tanh(1, near=TARGET), Tanh(2, near=TARGET, apart=2.0)
PICTURES = pictures(6)
LABELS = labels_of(TARGET, PICTURES)
CE = Objective("ce")
NO_TURN = torch.zeros(6, dtype=torch.int64)


def prior(surrogate, **more):
    made = as_prior(surrogate, CE, PICTURES[0], **more)
    assert made is not None
    return made


def gradient(surrogate, x=PICTURES, labels=LABELS, turns=NO_TURN, **more):
    return prior(surrogate, **more).gradient(x, labels, turns[: len(x)])


def by_hand(net, x=PICTURES, labels=LABELS):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(F.cross_entropy(net(x), labels, reduction="sum"), x)[0]


def test_a_plain_module_and_a_bare_surrogate_are_the_same():
    assert torch.equal(gradient(NEAR), by_hand(NEAR))
    assert torch.equal(gradient(Surrogate(NEAR)), by_hand(NEAR))


class InPlace(nn.Module):
    """Normalises its own input, as torchvision's Normalize(inplace=True) in front of a network does."""

    def forward(self, x):
        return NEAR(x.mul_(0.5).add_(0.1))


class Beside(nn.Module):
    """The same in new memory."""

    def forward(self, x):
        return NEAR(x * 0.5 + 0.1)


def test_a_target_that_normalises_in_place_gives_its_gradient_too():
    """The white-box yardstick takes the same networks as everything else."""
    run = {"method": "whitebox", "steps": 5, "eps": 0.4}
    results = [dowse.attack(net.eval(), PICTURES.clone(), LABELS, **run) for net in (InPlace(), Beside())]
    assert torch.equal(results[0].adversarial, results[1].adversarial)


@pytest.mark.parametrize("method", ["prgf", "gfcs", "transfer", "dowse"])
def test_a_surrogate_that_normalises_in_place_is_as_good_as_another(method):
    run = {"method": method, "budget": 60, "eps": 0.4}
    expected = dowse.attack(TARGET, PICTURES, LABELS, surrogate=Beside().eval(), **run)
    x = PICTURES.clone()
    result = dowse.attack(TARGET, x, LABELS, surrogate=InPlace().eval(), **run)
    assert torch.equal(x, PICTURES)
    assert torch.equal(result.queries, expected.queries)
    assert torch.equal(result.adversarial, expected.adversarial)


@pytest.mark.parametrize("margin", [16, 30, 60])
def test_a_very_confident_surrogate_in_single_precision_keeps_its_gradient(margin):
    weight = torch.randn(10, 48, generator=generator(0), dtype=torch.float64)
    x = torch.rand(1, 3, 4, 4, generator=generator(1), dtype=torch.float64)
    bias = -weight @ x.flatten()
    bias[0] += margin
    label, made = torch.tensor([0]), []
    for dtype in (torch.float64, torch.float32):
        net = nn.Sequential(nn.Flatten(), nn.Linear(48, 10)).to(dtype).eval()
        net[1].weight.data, net[1].bias.data = weight.to(dtype), bias.to(dtype)
        g = SurrogatePrior(net, CE).gradient(x.to(dtype), label).double().flatten()
        made.append(g / g.norm())
    assert float(made[0] @ made[1]) > 0.9999


def test_the_gradient_does_not_depend_on_the_batch():
    whole = gradient(NEAR)
    assert torch.equal(gradient(NEAR, batch_size=1), whole)
    assert torch.equal(gradient(NEAR, batch_size=4), whole)


@pytest.mark.parametrize("size", [7, (3, 9), 2])
def test_the_net_sees_its_own_size_and_the_gradient_has_the_images(size):
    net = Pooled()
    g = gradient(Surrogate(net, size=size))
    assert net.seen == (size if isinstance(size, tuple) else (size, size))
    assert g.shape == PICTURES.shape


@pytest.mark.parametrize("size", [7, (3, 9), 2])
def test_the_gradient_comes_back_through_the_resize(size):
    """Against central differences of the loss of the resized image."""
    net, x, labels = Pooled(), PICTURES[:1], LABELS[:1]
    g = gradient(Surrogate(net, size=size), x, labels)[0]
    u = torch.randn(SHAPE, generator=generator(3), dtype=torch.float64)

    def loss(t):
        return F.cross_entropy(net(resized(x + t * u, size)), labels).item()

    assert float((g * u).sum()) == pytest.approx((loss(1e-5) - loss(-1e-5)) / 2e-5, rel=1e-6)


def test_resizing_to_the_same_size_changes_nothing():
    assert resized(PICTURES, SHAPE[-1]) is PICTURES
    assert torch.equal(gradient(Surrogate(NEAR, size=SHAPE[-2:])), by_hand(NEAR))


def test_a_constant_image_stays_constant_at_any_size():
    grey = torch.full((1, 3, 11, 8), 0.3, dtype=torch.float64)
    for size in (5, 8, 20, (4, 30)):
        assert torch.allclose(resized(grey, size), torch.tensor(0.3, dtype=torch.float64), atol=1e-12)


def test_class_offset_shifts_the_labels():
    """A surrogate with one more class in front is the same net under class_offset=1."""

    class Background(nn.Module):
        def forward(self, x):
            scores = NEAR(x)
            return torch.cat([torch.full((len(x), 1), -1e9, dtype=scores.dtype), scores], 1)

    net = Background().eval()
    assert torch.allclose(gradient(Surrogate(net, class_offset=1)), by_hand(NEAR), atol=1e-15)

    class Foreground(nn.Module):
        def forward(self, x):
            return NEAR(x)[:, 1:]

    behind = gradient(Surrogate(Foreground().eval(), class_offset=-1), labels=LABELS.clamp_min(1))
    assert torch.allclose(behind, by_hand(lambda x: NEAR(x)[:, 1:], labels=LABELS.clamp_min(1) - 1))


@pytest.mark.parametrize(("offset", "label"), [(-1, 0), (1, 3)])
def test_a_label_the_surrogate_does_not_have_is_refused(offset, label):
    made = prior(Surrogate(NEAR, class_offset=offset))
    made.learn_classes(PICTURES[0])
    with pytest.raises(dowse.InputError, match=rf"label {label} is none of the surrogate's 4 classes"):
        made.check_label(label)


@pytest.mark.parametrize("loss", ["ce", "margin"])
def test_a_label_that_only_the_target_knows_is_the_least_likely_of_the_surrogate(loss):
    """The target gave it, when queries were spent already; the other images hear what they hear alone."""

    def wider(x):
        z = NEAR(x)
        return torch.cat([z, z.detach().amin(1, keepdim=True)], 1)

    labels = torch.tensor([0, 7, 2, 4, 1, 7])
    found = as_prior(NEAR, Objective(loss), PICTURES[0]).gradient(PICTURES, labels, NO_TURN)
    x = PICTURES.clone().requires_grad_()
    (expected,) = torch.autograd.grad(Objective(loss).value(wider(x), labels.clamp_max(4)).sum(), x)
    assert torch.allclose(found[[1, 3, 5]], expected[[1, 3, 5]], atol=1e-12)
    alone = as_prior(NEAR, Objective(loss), PICTURES[0]).gradient(PICTURES, LABELS.where(labels > 3, labels), NO_TURN)
    assert torch.equal(found[[0, 2, 4]], alone[[0, 2, 4]])


@pytest.mark.parametrize("method", ["prgf", "averaging", "transfer", "dowse", "gfcs"])
def test_a_surrogate_of_too_few_classes_does_not_end_a_run_whose_labels_the_target_gave(method):
    target, x = Tanh(5, classes=9), pictures(3)
    with pytest.warns(SurrogateWarning):
        result = dowse.attack(target, x, method=method, surrogate=Tanh(6, classes=2), budget=30, eps=1e-3)
    assert max(outcome.label for outcome in result.outcomes) >= 2
    assert (result.queries > 1).all()


def test_another_number_of_classes_is_remarked_on_once():
    with pytest.warns(UserWarning, match="surrogate has 5 classes, the target 4"):
        made = prior(Pooled(5), classes=4)  # before any question
    made.gradient(PICTURES, LABELS, NO_TURN)
    prior(Surrogate(Pooled(5), class_offset=1), classes=4).gradient(PICTURES, LABELS, NO_TURN)


def test_the_kernel_is_a_gaussian_that_spans_three_sigma():
    impulse = torch.zeros(1, 1, 31, 31, dtype=torch.float64)
    impulse[0, 0, 15, 15] = 1
    kernel = smoothed(impulse, 15)[0, 0]
    axis = torch.linspace(-3, 3, 15, dtype=torch.float64)
    density = torch.exp(-(axis[:, None] ** 2 + axis**2) / 2)
    assert torch.allclose(kernel[8:23, 8:23], density / density.sum(), atol=1e-15)
    assert float(kernel.sum()) == pytest.approx(1, abs=1e-12)
    assert not kernel[7].any()


@pytest.mark.parametrize("side", [1, 3, 15])
def test_smoothing_is_a_depth_wise_convolution_with_zeros_beyond_the_border(side):
    g = torch.randn(2, 3, 20, 17, generator=generator(0), dtype=torch.float64)
    axis = torch.linspace(-3, 3, side, dtype=torch.float64)
    density = torch.exp(-(axis[:, None] ** 2 + axis**2) / 2)
    kernel = (density / density.sum()).numpy()
    expected = [[correlate(channel, kernel, mode="constant") for channel in image] for image in g.numpy()]
    assert smoothed(g, side).numpy() == pytest.approx(np.array(expected), abs=1e-12)


def test_smooth_is_applied_to_the_gradient():
    torch.testing.assert_close(gradient(Surrogate(NEAR, smooth=3)), smoothed(by_hand(NEAR), 3))


def test_mean_averages_unit_gradients():
    units = [by_hand(net) / by_hand(net).flatten(1).norm(dim=1).view(-1, 1, 1, 1) for net in (NEAR, FAR)]
    assert torch.allclose(gradient([NEAR, FAR]), sum(units) / 2, atol=1e-15)
    scaled = [Linear(1e6 * torch.eye(4, 48, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)), FAR]
    lengths = [float(g.flatten(1).norm(dim=1).max()) for g in (gradient(scaled[0]), gradient(scaled))]
    assert lengths[1] <= 1 < lengths[0]


def test_a_surrogate_without_a_gradient_leaves_the_mean_to_the_others():
    flat = Linear(torch.zeros(4, 48, dtype=torch.float64), torch.zeros(4, dtype=torch.float64))
    unit = by_hand(NEAR) / by_hand(NEAR).flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    assert torch.allclose(gradient([NEAR, flat]), unit / 2)


def test_cycle_takes_turns_by_each_images_own_count():
    turns = torch.tensor([0, 1, 2, 3, 4, 5])
    g = gradient([NEAR, FAR, TARGET], turns=turns, combine="cycle")
    expected = [by_hand(net)[i] for i, net in enumerate([NEAR, FAR, TARGET] * 2)]
    assert torch.equal(g, torch.stack(expected))


def test_an_ensemble_of_ensembles_takes_all_its_turns():
    inner = Ensemble([SurrogatePrior(NEAR, CE), SurrogatePrior(FAR, CE)], "cycle")
    outer = Ensemble([inner, SurrogatePrior(TARGET, CE)], "cycle")
    g = outer.gradient(PICTURES[:4], LABELS[:4], torch.arange(4))
    assert torch.equal(g, torch.stack([by_hand(net)[i] for i, net in enumerate([NEAR, TARGET, FAR, TARGET])]))


@pytest.mark.parametrize("combine", ["mean", "cycle"])
def test_an_image_has_the_same_result_alone_and_among_neighbours(combine):
    run = {"surrogate": [NEAR, FAR, Surrogate(Pooled(), size=5)], "combine": combine}
    run |= {"method": "prgf", "q": 6, "budget": 90, "eps": 0.35}
    together = dowse.attack(TARGET, PICTURES, LABELS, concurrency=4, batch_size=5, **run)
    for i in range(6):
        alone = dowse.attack(TARGET, PICTURES[i : i + 1], LABELS[i : i + 1], concurrency=1, **run)
        assert torch.equal(alone.adversarial[0], together.adversarial[i])
        assert alone.queries[0] == together.queries[i]
    assert len(set(together.queries.tolist())) > 1  # images end at different times


def test_smoothed_alone_and_among_neighbours():
    """A convolution's last bits depend on the rows beside it, so equal up to rounding, and far from any decision."""
    target = Gap(TARGET)
    run = {"method": "prgf", "q": 6, "budget": 90, "eps": 0.35, "surrogate": Surrogate(FAR, smooth=3)}
    together = dowse.attack(target, PICTURES, LABELS, concurrency=4, batch_size=5, **run)
    for i in range(6):
        alone = dowse.attack(target, PICTURES[i : i + 1], LABELS[i : i + 1], concurrency=1, **run)
        torch.testing.assert_close(alone.adversarial[0], together.adversarial[i], rtol=0, atol=1e-9)
        assert alone.queries[0] == together.queries[i]
    assert len(set(together.queries.tolist())) > 1
    assert target.least > 1e-6


@pytest.mark.filterwarnings("ignore::dowse.errors.TargetWarning")  # the target is made so
def test_each_image_counts_its_own_gradients():
    asked = []

    class Recording:
        takes_turns = True

        def gradient(self, x, labels, turns):
            asked.extend(zip(labels.tolist(), turns.tolist(), strict=True))
            return torch.zeros_like(x)

    target = Linear(torch.zeros(6, 48, dtype=torch.float64), torch.zeros(6, dtype=torch.float64))
    dowse.attack(
        target, PICTURES, range(6), method="transfer", steps=3, surrogate=Recording(), accept="never", concurrency=4
    )
    assert sorted(asked) == [(label, turn) for label in range(6) for turn in range(3)]
    assert [label for label, _ in asked[-2:]] == [4, 5]  # the last two entered when others had had their turns


def test_a_prior_of_the_old_kind_needs_no_turns():
    class Fixed:
        def gradient(self, x, labels):
            return torch.ones_like(x)

    assert torch.equal(gradient(Fixed()), torch.ones_like(PICTURES))
    assert torch.allclose(gradient([Fixed(), Fixed()], combine="cycle"), torch.ones_like(PICTURES))


def test_a_randomised_surrogate_draws_from_the_images_turn():
    net, x = Randomization(Pooled()), pictures(6, shape=(3, 40, 40))
    first, again = gradient(net, x), gradient(net, x)
    assert torch.equal(first, again)
    assert not torch.equal(first, gradient(net, x, turns=NO_TURN + 1))


class Detached(Linear):
    """Its scores have a gradient, of its own weights alone."""

    def forward(self, x):
        return super().forward(x.detach())


class Overwritten(Linear):
    """Goes forwards, and cannot go back."""

    def forward(self, x):
        y = super().forward(x).exp()
        z = 1.0 * y
        y.zero_()
        return z


class Alone(Linear):
    """Takes one image at a time, as some networks are exported."""

    def forward(self, x):
        return super().forward(x.view(1, *SHAPE))


def identity(kind):
    return kind(torch.eye(4, 48, dtype=torch.float64), torch.zeros(4, dtype=torch.float64))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Surrogate(print), "nn.Module or a spec, got builtin"),
        (lambda: Surrogate(NEAR, size=0), "size"),
        (lambda: Surrogate(NEAR, size=(4, 4, 4)), "side or \\(height, width\\)"),
        (lambda: Surrogate(NEAR, class_offset=0.5), "class_offset must be a whole number"),
        (lambda: Surrogate(NEAR, smooth=4), "must be odd, got 4"),
        (lambda: Surrogate(NEAR, smooth=0), "smooth"),
        (lambda: prior([NEAR], combine="best"), "combine='best' is unknown"),
        (lambda: AttackSettings(combine="average"), "combine='average' is unknown"),
        (lambda: prior([]), "at least one"),
        (lambda: prior([NEAR, 7]), "got int"),
        (lambda: prior(3.0), "got float"),
        (lambda: prior(Tanh(0, dtype=torch.float32)), "the surrogate is torch.float32"),
        (lambda: prior([NEAR, Tanh(0, dtype=torch.float32)]), "the surrogate is torch.float32"),
        (lambda: prior(Jpeg(NEAR)), "Jpeg has no gradient"),
        (lambda: prior(identity(Detached)), "Detached has no gradient: it detaches"),
        (lambda: prior(identity(Alone)), r"Alone fails on images like these, .* is invalid for input of size 384"),
        (lambda: prior([NEAR, identity(Overwritten)]), "Overwritten fails on images like these.* inplace operation"),
        (lambda: prior("dowse:no_such_net"), "no classifier is named"),
    ],
)
def test_what_cannot_be_a_surrogate_is_refused(made, message):
    with pytest.raises(dowse.InputError, match=message):
        made()


@pytest.mark.parametrize("wrap", [lambda net: net, Surrogate, lambda net: [NEAR, net]])
def test_training_mode_is_remarked_on(wrap):
    net = Tanh(5)
    net.train()
    with pytest.warns(UserWarning, match="surrogate is in training mode"):
        prior(wrap(net))


def test_a_list_of_surrogates_attacks_and_a_spec_is_one(shared, monkeypatch):
    monkeypatch.setenv("DOWSE_SHARED", str(shared))
    x = torch.rand(1, 3, 32, 32, generator=generator(0))
    result = dowse.attack(
        "dowse:cifar10_resnet20", x, method="prgf", q=4, budget=40,
        surrogate=["dowse:cifar10_resnet32", Surrogate("dowse:cifar10_resnet56", smooth=3, size=24)], combine="cycle",
    )  # fmt: skip
    assert int(result.queries) <= 40
