"""Intervals, paired tests and curves against known answers, scipy and laws."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dowse.report.data.statistics import (
    EXACT,
    _exact,
    bootstrap_mean,
    median_interval,
    sign_test,
    success_curve,
    wilcoxon,
    wilson,
)
from tests.scripts import experiment_script


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (81, 263), (1, 5000)])
def test_wilsons_ends_are_where_the_score_test_would_reject(k: int, n: int) -> None:
    for p in set(wilson(k, n)) - {0.0, 1.0}:
        assert abs(k / n - p) == pytest.approx(stats.norm.ppf(0.975) * math.sqrt(p * (1 - p) / n))


def test_wilson_of_a_published_example() -> None:
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998, table I


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_mirrors(case: tuple[int, int]) -> None:
    k, n = case
    low, high = wilson(k, n)
    assert 0 <= low <= k / n <= high <= 1
    assert wilson(n - k, n) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys(case: tuple[int, int]) -> None:
    expected = stats.binomtest(*case).proportion_ci(method="wilson")
    assert wilson(*case) == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_sign_test_is_scipys(wins: int, losses: int) -> None:
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert sign_test(wins, losses) == pytest.approx(expected, rel=1e-9)


def test_nothing_has_no_interval() -> None:
    assert all(
        math.isnan(end)
        for interval in (wilson(0, 0), bootstrap_mean([]), bootstrap_mean([7.0]), median_interval([]))
        for end in interval
    )


def test_bootstrap_is_repeatable_and_as_wide_as_the_normal_interval() -> None:
    sample = np.random.default_rng(3).exponential(100, 400).tolist()
    low, high = bootstrap_mean(sample)
    assert (low, high) == bootstrap_mean(sample)
    half = 1.96 * np.std(sample) / math.sqrt(len(sample))
    assert high - low == pytest.approx(2 * half, rel=0.1)
    assert low < np.mean(sample) < high


def test_bootstrap_covers_the_mean_in_about_19_of_20() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        low, high = bootstrap_mean(rng.normal(5, 1, 40).tolist(), draws=400)
        covered += low <= 5 <= high
    assert abs(covered - 0.94 * 300) < 4 * math.sqrt(300 * 0.94 * 0.06)


def test_median_interval_of_known_ranks() -> None:
    assert median_interval([1, 2, 3, 4, 5]) == (0.0, math.inf)
    assert median_interval(list(range(1, 7))) == (1, 6)
    assert median_interval(list(range(1, 11))) == (2, 9)  # the tables of the sign test: n = 10, ranks 2 and 9
    assert median_interval([*range(1, 6), *[math.inf] * 5]) == (2, math.inf)


@given(st.integers(1, 400))
def test_the_median_interval_covers_95_in_100_and_is_the_narrowest(n: int) -> None:
    low, high = median_interval([float(i) for i in range(1, n + 1)])
    if math.isinf(high):
        assert stats.binom.cdf(0, n, 0.5) > 0.025
    else:
        assert high == n + 1 - low
        below, at = stats.binom.cdf([low - 1, low], n, 0.5)
        assert below <= 0.025 < at


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_sign_test_sums_up_coins(wins: int, losses: int) -> None:
    n = wins + losses
    tail = sum(math.comb(n, k) for k in range(min(wins, losses) + 1)) / 2**n
    assert sign_test(wins, losses) == pytest.approx(min(1.0, 2 * tail), rel=1e-9)


def brute(differences: list[int]) -> float:
    """Two-sided p of the signed-rank test by trying all signs."""
    kept = np.array([d for d in differences if d])
    if not len(kept):
        return 1.0
    ranks = stats.rankdata(np.abs(kept))
    total = ranks.sum()
    smaller = min(ranks[kept > 0].sum(), total - ranks[kept > 0].sum())
    sums = [np.dot(signs, ranks) for signs in itertools.product((0, 1), repeat=len(kept))]
    return min(1.0, 2 * float(np.mean(np.array(sums) <= smaller + 1e-9)))


@given(st.lists(st.integers(-6, 6), max_size=9))
def test_wilcoxon_is_exact_with_ties_and_zeros(differences: list[int]) -> None:
    assert wilcoxon(np.array(differences, dtype=np.float64)) == pytest.approx(brute(differences), abs=1e-12)


@pytest.mark.parametrize("n", [12, 60, 100])
def test_wilcoxon_without_ties_is_scipys(n: int) -> None:
    rng = np.random.default_rng(n)
    differences = rng.permutation(np.arange(1, n + 1)) * rng.choice([-1, 1], n, p=[0.4, 0.6]) * 1.0
    expected = stats.wilcoxon(differences, method="exact").pvalue
    assert wilcoxon(differences) == pytest.approx(expected, rel=1e-9)


def test_wilcoxon_of_many_is_normal_and_near_the_exact_one() -> None:
    rng = np.random.default_rng(1)
    differences = rng.integers(-55, 60, 300) * 1.0  # ties and zeros among them
    kept = differences[differences != 0]
    assert len(kept) > EXACT
    assert wilcoxon(differences) == pytest.approx(_exact(kept), rel=0.02)
    assert wilcoxon(np.ones(400)) < 1e-60


def test_wilcoxon_keeps_its_level() -> None:
    rng = np.random.default_rng(5)
    rejected = sum(wilcoxon(rng.normal(size=25)) < 0.05 for _ in range(800))
    assert abs(rejected - 40) < 4 * math.sqrt(800 * 0.05 * 0.95)


def test_a_curve_is_the_share_fooled() -> None:
    curve = success_curve([3, 10, 10], 4, 100)
    assert [(point.queries, point.rate) for point in curve] == [(1, 0.0), (3, 0.25), (10, 0.75), (100, 0.75)]
    assert all((point.low, point.high) == wilson(round(4 * point.rate), 4) for point in curve)
    assert success_curve([], 0, 100) == []


@given(st.lists(st.integers(1, 5000), max_size=600))
def test_a_long_curve_is_thinned_and_never_wrong(taken: list[int]) -> None:
    n = len(taken) + 3
    curve = success_curve(taken, n, 5000, most=50)
    assert len(curve) <= 52
    for point in curve:
        assert point.rate == sum(q <= point.queries for q in taken) / n


def test_holm_keeps_the_order_and_never_lowers_a_p() -> None:
    holm = experiment_script("claims").holm
    assert holm([]) == []
    assert holm([0.5]) == [0.5]
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_whole_images_are_turned_with_all_their_copies() -> None:
    whole_image_p = experiment_script("claims").whole_image_p
    six = {str(i): -1.0 for i in range(6)}
    alone, twice = whole_image_p([six]), whole_image_p([six, six])
    assert alone == twice == pytest.approx(2 / 2**6, abs=0.005)  # a copy of a photograph says nothing more
    assert whole_image_p([six, {str(i): -1.0 for i in range(6, 12)}]) < 0.003  # other photographs do
    assert whole_image_p([{"0": 0.0}]) == 1.0
    few, many = {"0": 5.0, "1": 5.0}, {str(i): -1.0 for i in range(2, 22)}
    assert whole_image_p([few, many]) == 1.0  # each target weighs one: the two speak against each other
