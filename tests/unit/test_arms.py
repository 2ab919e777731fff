"""The bandit inside `dowse`: which arms there are, when they are drawn, and how far they reach."""

import math

import pytest
import torch

from dowse.attacks.arms import INFORMED, TRANSFERS, Arms


def drawn(arms: Arms, n: int = 400) -> dict[str, float]:
    """How often each arm is drawn."""
    rng = torch.Generator().manual_seed(0)
    draws = [arms.draw(rng) for _ in range(n)]
    return {arm: draws.count(arm) / n for arm in arms.gain}


def moved(arms: Arms, moves: int, arm: str = "bump") -> Arms:
    for _ in range(moves):
        arms = arms.after(arm, 0.0, won=False)
    return arms


@pytest.mark.parametrize(
    ("surrogates", "norm", "usable"),
    [
        (True, "l2", ["climb", "ods", "bump"]),
        (True, "linf", ["climb", "ods", "slope", "bump"]),
        (False, "l2", ["climb", "bump", "ripple"]),
        (False, "linf", ["slope", "bump"]),
    ],
)
def test_the_arms_that_a_ball_and_surrogates_allow(surrogates, norm, usable):
    arms = Arms.fresh(surrogates, norm, -1.0, 4)
    assert list(arms.gain) == usable
    assert arms.opening == (("climb",) * TRANSFERS if surrogates else ("bump",) * 4)


def test_the_slope_waits_until_it_has_learnt():
    arms = Arms.fresh(False, "linf", -1.0, 4)
    assert drawn(moved(arms, INFORMED - 1))["slope"] == 0
    assert drawn(moved(arms, INFORMED))["slope"] > 0


def test_what_gains_is_drawn_more_often_and_nothing_is_forgotten():
    arms = Arms.fresh(True, "l2", -1.0, 0)
    for _ in range(20):
        arms = arms.after("bump", 1.0, won=True).after("climb", 0.0, won=False).after("ods", 0.0, won=False)
    often = drawn(arms)
    assert often["bump"] > 0.7
    assert min(often.values()) > 0.02


def test_ripples_that_gain_little_and_often_leave_room_for_windows():
    arms = Arms.fresh(False, "l2", -1.0, 0)
    for _ in range(20):
        arms = arms.after("bump", 0.0, won=False).after("climb", 0.0, won=False).after("ripple", 0.01, won=True)
    assert drawn(arms)["bump"] > 0.12


def test_windows_shrink_by_their_own_moves_and_without_a_surrogate_in_l2_by_all():
    for arms, passed in ((Arms.fresh(True, "l2", -1.0, 2), 1), (Arms.fresh(False, "l2", -1.0, 2), 4)):
        for arm in ("bump", "bump", "climb", "climb", "climb", "bump"):
            arms = arms.after(arm, 0.0, won=False)
        assert arms.windows == passed


def test_gains_that_are_no_numbers_leave_all_arms_alike():
    arms = Arms.fresh(True, "l2", -math.inf, 0)
    assert min(drawn(moved(arms, TRANSFERS, "climb")).values()) > 0.2


@pytest.mark.parametrize(
    ("arm", "least", "most"), [("climb", 0.05, 1.0), ("ods", 0.1, 2.0), ("slope", 0.01, 1.0), ("ripple", 0.1, 3.0)]
)
def test_a_reach_grows_with_gains_and_shrinks_without_within_bounds(arm, least, most):
    arms = Arms.fresh(False, "l2", -1.0, 0) if arm == "ripple" else Arms.fresh(True, "linf", -1.0, 0)
    assert arms.after(arm, 0.0, won=False).size[arm] < 1
    for won, end in ((False, least), (True, most)):
        for _ in range(60):
            arms = arms.after(arm, 0.0, won=won)
        assert arms.size[arm] == end


def test_a_new_place_gives_the_climb_room_and_other_moves_the_slope():
    arms = Arms.fresh(True, "linf", -1.0, 0)
    for _ in range(20):
        arms = arms.after("climb", 0.0, won=False).after("slope", 0.0, won=False)
    won = arms.after("bump", 1.0, won=True)
    assert won.size["climb"] == 0.25
    assert won.size["slope"] > arms.size["slope"]
