"""Tries: a search that gets on is left alone, one that stands still begins anew, and the better of two goes on."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from dowse.attacks.tries import AHEAD, WINDOW, Tries

losses = st.floats(-100, -0.01)


@dataclass(frozen=True)
class Place:
    f: float


FRESH = Place(-50.0)


def fresh() -> Place:
    return FRESH


@given(losses, st.integers(0, WINDOW - 1))
def test_nothing_happens_within_a_window(f: float, asked: int) -> None:
    tries: Tries[Place] = Tries(f).after(asked)
    assert tries.go_on(Place(f), fresh) == (Place(f), tries)


@given(losses, losses)
def test_who_gets_there_within_a_few_windows_more_goes_on(since: float, f: float) -> None:
    at, tries = Tries[Place](since).after(WINDOW).go_on(Place(f), fresh)
    if since + (AHEAD + 1) * (f - since) >= 1e-9:
        assert at == Place(f)
        assert (tries.since, tries.asked, tries.window, tries.aside) == (f, 0, WINDOW, None)
    elif since + (AHEAD + 1) * (f - since) <= -1e-9:
        assert at == FRESH
        assert (tries.since, tries.asked, tries.window, tries.aside) == (FRESH.f, 0, WINDOW, Place(f))


@given(losses, losses)
def test_the_better_of_two_goes_on_with_more_patience(first: float, second: float) -> None:
    tries = Tries(FRESH.f, WINDOW, WINDOW, Place(first))
    at, later = tries.go_on(Place(second), fresh)
    assert at == Place(max(first, second))
    assert later == Tries(at.f, window=2 * WINDOW)


def test_a_second_try_costs_at_most_as_much_as_the_first() -> None:
    """A search that never gains: after n queries at most half, and a window, were spent on places that were left."""
    tries: Tries[Place] = Tries(-1.0)
    at, spent = Place(-1.0), {"here": 0, "anew": 0}
    for _ in range(5_000):
        spent["here" if tries.aside is None else "anew"] += 1
        at, tries = tries.after(1).go_on(at, fresh)
    assert spent["anew"] <= spent["here"]
    assert tries.window >= 1_024  # patience grows with what was spent
