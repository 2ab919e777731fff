"""How many images are attacked at once where nobody says."""

import pytest

import dowse
from dowse.core.target import as_target
from dowse.defences.blacklight import WindowHashes
from tests.support import Tanh, pictures

FEW, MANY = 8, 32
SMALL, LARGE = (3, 16, 16), (3, 72, 72)


def at_once(method: str, shape: tuple[int, ...] = SMALL, said: int | None = None, **facts) -> int:
    """The most images under attack after any round, of more than there is room for."""
    target, active = as_target(Tanh(5, shape=shape)), [0]
    for name, value in facts.items():
        setattr(target, name, value)
    run = {"method": method, "eps": 1e-3, "budget": 9, "concurrency": said}
    options = {"q": 3} if method == "rgf" else {}
    x = pictures(MANY + 2, seed=6, shape=shape)
    dowse.attack(target, x, on_progress=lambda told: active.append(told.active), **run, **options)
    return max(active)


@pytest.mark.parametrize("method", ["dowse", "square", "simba", "signhunter", "bandits"])
def test_many_small_images_whose_questions_have_few_rows(method: str) -> None:
    assert at_once(method) == MANY


def test_few_where_questions_fill_passes_by_themselves_or_images_are_large() -> None:
    assert at_once("rgf") == FEW
    assert at_once("square", LARGE) == FEW


def test_few_where_rows_leave_the_machine_or_their_order_is_remembered() -> None:
    assert at_once("square", remote=True) == FEW
    assert at_once("square", detector=WindowHashes()) == FEW


def test_what_is_said_holds() -> None:
    assert at_once("square", said=5) == 5
    assert at_once("rgf", said=20) == 20
