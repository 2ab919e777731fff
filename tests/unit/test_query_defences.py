"""Defences that are made against queries: noise on images and scores, fewer scores, scores that mislead."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dowse
from dowse.core.seeds import normal_of, row_seeds
from dowse.core.target import Delivery, Target
from dowse.defences import AAA, DEFENCES, Boundary, InputNoise, OutputNoise, Rounded, TopK
from dowse.report.data.names import short_target
from dowse.targets.spec import parse_spec
from tests.support import Tanh, attack_anyway, generator, labels_of, pictures

QUERY_DEFENCES = [InputNoise, OutputNoise, Boundary, Rounded, TopK, AAA]
NOISY = [InputNoise, OutputNoise, Boundary]
SEEDS = row_seeds(0, "image", 0, 400)


def see(x):
    """A classifier that shows what it sees."""
    return x


def logits(n=6, K=8, seed=0, scale=2.0):
    return scale * torch.randn(n, K, generator=generator(seed), dtype=torch.float64)


class TestNormalNumbers:
    def test_moments(self):
        draws = normal_of(SEEDS, 51)
        n = draws.numel()
        assert draws.shape == (400, 51)
        assert abs(float(draws.mean())) * math.sqrt(n) < 4
        assert abs(float(draws.square().mean()) - 1) * math.sqrt(n / 2) < 4
        assert abs(float((draws[:, 0] * draws[:, 1]).mean())) * math.sqrt(400) < 4  # a pair of Box and Muller's

    def test_a_row_is_its_seeds_alone(self):
        assert torch.equal(normal_of(SEEDS, 7)[3:4], normal_of(SEEDS[3:4], 7))
        assert torch.equal(normal_of(SEEDS, 8)[:, :7], normal_of(SEEDS, 7))

    def test_no_rows(self):
        assert normal_of(SEEDS[:0], 5).shape == (0, 5)


class TestInputNoise:
    def test_the_noise_has_its_size_and_the_image_stays_one(self):
        x = torch.full((400, 1, 4, 4), 0.5, dtype=torch.float64)
        noise = InputNoise(see, 0.02)(x, SEEDS) - x
        assert abs(float(noise.std()) / 0.02 - 1) < 4 / math.sqrt(2 * noise.numel())
        edges = InputNoise(see, 0.5)(x.round(), SEEDS)
        assert float(edges.min()) == 0
        assert float(edges.max()) <= 1

    def test_the_default_is_the_papers(self):
        assert InputNoise(see).sigma == 0.02

    def test_gradients_pass(self):
        x = torch.full((1, 1, 2, 2), 0.5, requires_grad=True)
        InputNoise(see)(x, SEEDS[:1]).sum().backward()
        assert torch.equal(x.grad, torch.ones_like(x))


class TestBoundary:
    def test_sure_answers_are_shown_as_they_are_and_unsure_ones_are_not(self):
        z = torch.tensor([[9.0, 0, 0, 0, 0], [0.1, 0, 0, 0, 0]], dtype=torch.float64)
        shown = Boundary(see)(z, SEEDS[:2])
        assert torch.equal(shown[0], z[0])
        assert (shown[1] != z[1]).all()
        assert float((shown[1] - z[1]).abs().max()) < 6 * 0.1

    def test_the_defaults_are_the_papers_for_imagenet(self):
        assert (Boundary(see).theta, Boundary(see).sigma) == (0.3, 0.1)


class TestRounded:
    def test_probabilities_have_so_many_decimals(self):
        p = logits().softmax(1)
        assert torch.equal(Rounded(see, 2)(p), p.round(decimals=2))

    def test_logits_stay_logits_of_the_rounded_probabilities(self):
        z = torch.tensor([[3.0, 1, 0, -9]], dtype=torch.float64)
        expected = z.softmax(1).round(decimals=2).clamp_min(0.005).log()
        assert torch.equal(Rounded(see, 2)(z), expected)
        assert expected.argmax() == 0


class TestTopK:
    @given(st.integers(1, 7), st.integers(0, 50))
    def test_the_best_are_shown_and_the_others_are_level(self, k, seed):
        p = logits(seed=seed).softmax(1)
        shown = TopK(see, k)(p)
        best = p.topk(k, dim=1).indices
        assert torch.equal(shown.gather(1, best), p.gather(1, best))
        rest = shown.scatter(1, best, 0)
        assert torch.allclose(rest.amax(1), rest.sum(1) / (8 - k))
        torch.testing.assert_close(shown.sum(1), torch.ones(len(p), dtype=p.dtype))

    def test_all_classes_are_all_scores(self):
        z = logits()
        assert torch.equal(TopK(see, 8)(z), z)


class TestAAA:
    def shown_margin(self, margins, classes=10, rest=-9.0):
        """The margin that is shown of rows with a second class so far behind, the rows shown, and the true ones."""
        z = torch.full((len(margins), classes), rest, dtype=torch.float64)
        z[:, 3], z[:, 7] = 5, 5 - torch.tensor(margins, dtype=torch.float64)
        shown = AAA(see)(z)
        first, second = shown.topk(2, dim=1).values.unbind(1)
        return first - second, shown, z

    def test_within_an_interval_the_margin_falls_where_it_rises(self):
        margins, _, _ = self.shown_margin([4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5])
        assert (margins.diff() < 0).all()
        assert margins[3] == pytest.approx(6, abs=0.2)  # the middle stays

    def test_class_and_confidence_stay(self):
        """The confidence where the margin allows it: two classes 0.5 apart leave the better one at most 0.62."""
        _, shown, z = self.shown_margin([0.5, 1.5, 2.5, 3.5, 5.0, 6.5], classes=1000, rest=-2.0)
        assert (shown.argmax(1) == 3).all()
        change = (shown.softmax(1) - z.softmax(1))[:, 3].abs()
        assert float(change.max()) < 0.02

    def test_probabilities_stay_probabilities(self):
        shown = AAA(see)(logits().softmax(1))
        torch.testing.assert_close(shown.sum(1), torch.ones(6, dtype=torch.float64))

    def test_one_class_has_no_margin(self):
        class One(Target):  # of any other callable one number is read as two classes
            def __call__(self, points, seeds=None):
                return points

        z = torch.ones(2, 1)
        assert torch.equal(AAA(One())(z), z)


@pytest.mark.parametrize("make", QUERY_DEFENCES)
class TestEach:
    @pytest.mark.parametrize("kind", ["logits", "probabilities"])
    def test_a_row_does_not_depend_on_its_neighbours(self, make, kind):
        """By construction: all of them work on each row by elementwise operations and sums along it."""
        z = logits() if kind == "logits" else logits().softmax(1)
        x = z if make is not InputNoise else pictures(6)
        together = make(see)(x, SEEDS[:6])
        alone = torch.cat([make(see)(x[i : i + 1], SEEDS[i : i + 1]) for i in range(6)])
        torch.testing.assert_close(alone, together, rtol=1e-9, atol=1e-9)

    def test_no_rows_cost_nothing(self, make):
        assert make(Tanh())(pictures(2)[:0]).shape == (0, 4)

    def test_an_attack_counts_exactly_and_is_the_same_alone(self, make):
        target = make(Tanh())
        x = pictures(4)
        y = labels_of(Tanh(), x)
        both = attack_anyway(target, x, y, method="square", eps=0.5, budget=12)
        alone = attack_anyway(target, x[2:3], y[2:3], method="square", eps=0.5, budget=12)
        assert int(both.queries[2]) == int(alone.queries[0])
        assert (both.sent == both.queries).all()

    def test_rows_are_accounted_for_as_behind_it(self, make):
        class Half:
            def __call__(self, x):
                return Tanh()(x)

            def deliver(self, x):
                scores = Tanh()(x)
                answered = torch.arange(len(x)) % 2 == 0
                return Delivery(scores, torch.full((len(x),), 3), answered, None)

        delivery = make(Half()).deliver(pictures(4))
        assert delivery.sent.tolist() == [3] * 4
        assert delivery.answered.tolist() == [True, False, True, False]
        assert delivery.scores.shape == (4, 4)

    def test_it_says_whether_it_draws(self, make):
        assert make(Tanh()).takes_row_seeds == (make in NOISY)


@pytest.mark.parametrize(
    ("prefix", "cls", "values"),
    [
        ("noise", InputNoise, {"sigma": 0.02}),
        ("noise:0.05", InputNoise, {"sigma": 0.05}),
        ("output-noise:0.2", OutputNoise, {"sigma": 0.2}),
        ("boundary", Boundary, {"theta": 0.3, "sigma": 0.1}),
        ("boundary:0.7", Boundary, {"theta": 0.7, "sigma": 0.1}),
        ("boundary:0.7,2", Boundary, {"theta": 0.7, "sigma": 2.0}),
        ("round", Rounded, {"decimals": 2}),
        ("round:3", Rounded, {"decimals": 3}),
        ("top-k:2", TopK, {"k": 2}),
        ("aaa", AAA, {"tau": 4.0, "alpha": 1.0, "beta": 5.0, "temperature": 1.0}),
        ("aaa:6,1", AAA, {"tau": 6.0, "alpha": 1.0, "beta": 5.0}),
    ],
)
def test_the_prefix_of_a_spec(prefix, cls, values):
    name, _, argument = prefix.partition(":")
    target = DEFENCES[name](Tanh(), argument or None)
    assert isinstance(target, cls)
    assert {name: getattr(target, name) for name in values} == values


@pytest.mark.parametrize(
    "prefix",
    [
        "noise:loud",
        "noise:0",
        "noise:0.1,2",
        "boundary:2",
        "round:0",
        "round:1.5",
        "top-k:all",
        "aaa:0",
        "aaa:1,1,1,1,1",
    ],
)
def test_a_bad_argument_is_refused_with_a_remedy(prefix):
    name, _, argument = prefix.partition(":")
    with pytest.raises(dowse.InputError, match=r"must|such as"):
        DEFENCES[name](Tanh(), argument)


def test_hyphens_stand_in_specs_and_titles():
    spec = "output-noise:0.2+top-k:5+dowse:imagenet_resnet18"
    assert parse_spec(spec).defences == (("output-noise", "0.2"), ("top-k", "5"))
    assert short_target(spec) == "Output noise + Top 5 + ResNet-18"
