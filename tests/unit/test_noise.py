"""What P-RGF and averaging do about noise when they are asked to: what it costs, and that it finds α."""

import math

import pytest
import torch

import dowse
from dowse.attacks import PGD
from dowse.attacks.registry import resolve_method
from dowse.errors import InputError
from dowse.estimators import PRGF, Averaging
from dowse.estimators.noise import Noise
from dowse.maths.geometry import L2
from dowse.settings import AttackSettings
from tests.support import SHAPE, D, Noisy, Tanh, canned, converse, generator, pictures

X = torch.full(SHAPE, 0.5, dtype=torch.float64)
FIRST = torch.zeros(SHAPE, dtype=torch.float64)
FIRST[0, 0, 0] = 1.0
REST = torch.randn(SHAPE, generator=generator(5), dtype=torch.float64)
REST[0, 0, 0] = 0
REST /= torch.linalg.vector_norm(REST)


class Sloped:
    """f(x) = slope along the first pixel + 1 along a fixed other direction, each answer with an error of its own."""

    def __init__(self, first: float, τ: float, rest: float = 1.0) -> None:
        self.g, self.τ, self.rng = first * FIRST + rest * REST, τ, generator(3)

    def __call__(self, points: torch.Tensor) -> torch.Tensor:
        error = torch.randn(len(points), generator=self.rng, dtype=torch.float64)
        return (points * self.g).flatten(1).sum(1) + self.τ * error


def notes_of(estimator, loss, iterations):
    flow = PGD(estimator).flow(X, float(loss(X[None])), L2(0.2), generator(0))
    return converse(flow, canned(loss), lambda x: FIRST.clone(), candidates=iterations)


@pytest.mark.parametrize("kind", [PRGF, Averaging])
def test_a_target_that_says_the_same_is_asked_again_only_once(kind):
    options = {"q": 4, "norm_samples": 6, "norm_period": 3}
    plain, before = notes_of(kind(**options), Sloped(1e-3, 0.0), 7)
    heard, after = notes_of(kind(**options, noise_samples=2, follow_noise=True), Sloped(1e-3, 0.0), 7)
    assert heard == [plain[0] + 2, *plain[1:]]
    assert after == before  # and nothing else is changed


def test_a_noisy_target_is_asked_again_at_every_estimate():
    options = {"q": 4, "norm_samples": 6, "norm_period": 3, "lam": None}
    spent, _ = notes_of(PRGF(**options, noise_samples=2), Sloped(1e-9, 1e-3), 7)
    assert all(cost in (8, 14, 2 + 8 + 6, 2 + 6, 2) or cost <= 14 for cost in spent)
    assert min(spent[0], spent[3], spent[6]) - 8 >= max(spent[1], spent[2]) - 6


def test_alpha_behind_noise_is_near_the_truth_where_the_papers_is_not():
    loss, true = Sloped(0.5, 0.02), 0.5 / math.sqrt(1.25)
    _, plain = notes_of(PRGF(q=40, norm_samples=40, sigma=1e-2, norm_period=1), Sloped(0.5, 0.02), 20)
    mended = PRGF(q=40, norm_samples=40, sigma=1e-2, norm_period=1, noise_samples=3, track_norm=True)
    _, corrected = notes_of(mended, loss, 20)
    far = torch.tensor([note["alpha"] for note in plain]).mean()
    near = torch.tensor([note["alpha"] for note in corrected]).mean()
    assert abs(near - true) < abs(far - true)


def test_where_random_probes_see_nothing_and_the_prior_does_it_is_followed():
    def notes(**more):
        return notes_of(PRGF(q=4, norm_samples=4, sigma=1e-3, **more), Sloped(1.0, 0.03, rest=0.0), 10)[1]

    plain, mended = notes(), notes(noise_samples=4, follow_noise=True)
    assert {note["sigma"] for note in plain} == {1e-3}
    assert all(note["sigma"] >= 8e-3 for note in mended)
    followed = [sum(note["lam"] == 1 for note in some) for some in (plain, mended)]
    assert followed[0] <= 3
    assert followed[1] >= 8


def test_probes_that_are_paid_for_anyway_keep_the_norm_fresh():
    """The gradient grows threefold at the fourth answer about an iterate; the paper's norm stays for the period."""

    class Growing(Sloped):
        checks = 0

        def __call__(self, points: torch.Tensor) -> torch.Tensor:
            self.checks += len(points) == 1
            return (3.0 if self.checks > 4 else 1.0) * super().__call__(points)

    def last(track: bool) -> float:
        _, notes = notes_of(PRGF(q=60, norm_samples=60, track_norm=track), Growing(1e-3, 0.0), 9)
        return notes[-1]["norm"]

    assert last(track=False) == pytest.approx(1, rel=0.4)
    assert last(track=True) == pytest.approx(3, rel=0.4)


def test_the_noise_is_pooled_and_answers_that_differ_by_rounding_are_silence():
    assert Noise().heard([1.0, 1.0 + 1e-7]).silent
    noise = Noise().heard([1.0, 3.0]).heard([5.0, 5.0, 8.0])
    assert noise.variance == pytest.approx((2 + 6) / 3)
    assert not noise.silent
    assert Noise().norm(10, 1.0) is None
    assert Noise(variance=1.0).measured(50.0, 100).norm(10, 1.0) == pytest.approx(math.sqrt(50))
    assert Noise(variance=1.0).measured(1.0, 100).norm(10, 1.0) is None


def test_the_preset_is_these_choices_and_bad_ones_are_refused():
    attack = resolve_method(AttackSettings(method="prgf", options={"preset": "steady"}))
    assert attack.estimator == PRGF(noise_samples=2, follow_noise=True)
    with pytest.raises(InputError, match="needs to know the noise"):
        PRGF(follow_noise=True)
    with pytest.raises(InputError, match="norm_samples= must be 2"):
        PRGF(noise_samples=2, norm_samples=1)


def test_it_runs_whole_on_a_noisy_network_within_the_budget():
    target = Noisy(Tanh(5), 0.02)
    result = dowse.attack(
        target, pictures(2, seed=3), method="prgf", preset="steady", q=6, norm_samples=4, budget=40,
        surrogate=Tanh(7, near=Tanh(5)), track_norm=True, subspace=2,
    )  # fmt: skip
    assert int(result.queries.max()) <= 40
    assert D == 48
