"""The one contract of methods: facts as class attributes, each used; a user's own objects are adapted at the door."""

from dataclasses import dataclass, fields

import pytest
import torch

import dowse
from dowse.attacks import PGD, Attack
from dowse.attacks.adapter import as_method, as_method_class
from dowse.attacks.registry import METHODS, resolve_method
from dowse.core.flow import check
from dowse.core.method import FACTS
from dowse.errors import InputError
from dowse.estimators import PRGF, Estimator
from dowse.maths.geometry import Linf
from dowse.settings import AttackSettings
from tests.victims import Tanh, pictures


class Corner:
    """An attack of a user who has never heard of the contract."""

    def flow(self, x, f, ball, rng):
        return (yield from check(ball.project(x + ball.eps, x)))


class Flat:
    """An estimator of that user."""

    needs_surrogate = True

    def init(self, x):
        return None

    def estimate(self, state, x, f, rng):
        yield from check(x)
        return torch.ones_like(x), None


@pytest.mark.parametrize("kind", METHODS.values(), ids=METHODS)
def test_facts_are_no_options_and_options_no_facts(kind):
    assert not {one.name for one in fields(kind)} & {*FACTS}
    assert all((kind.paper, kind.cost, kind.norms))
    assert METHODS[kind.name] is kind


def test_a_class_is_called_what_it_is_called_unless_it_says():
    class Mine(PRGF):
        pass

    assert (Mine.name, Mine.needs_surrogate, PRGF.name) == ("Mine", True, "prgf")


@pytest.mark.parametrize(
    ("facts", "run", "match"),
    [
        ({"norms": ("linf",)}, {"norm": "l2"}, "'Only' is defined for linf, not for l2"),
        ({"targeted": False}, {"target_labels": [1, 1, 1]}, "'Only' cannot aim at a class"),
        ({"needs_surrogate": True}, {}, "'Only' needs a surrogate"),
    ],
)
@pytest.mark.parametrize("base", [Corner, Attack], ids=["own", "derived"])
def test_facts_are_heard_before_any_query(base, facts, run, match):
    def target(x):
        assert not len(x), "asked"
        return torch.zeros(0, 3)

    only = type("Only", (base,), {"flow": Corner.flow, **facts})()
    with pytest.raises(InputError, match=match):
        dowse.attack(target, pictures(3), [0, 0, 0], method=only, **run)


def test_a_methods_own_loss_is_heard():
    target, x = Tanh(0), pictures(1)
    corner = type("Corner", (Corner,), {"loss": "margin"})
    said = dowse.attack(target, x, method=corner(), norm="linf", eps=1e-6).outcomes[0].loss
    assert said == dowse.attack(target, x, method=Corner(), norm="linf", eps=1e-6, loss="margin").outcomes[0].loss
    assert said != dowse.attack(target, x, method=Corner(), norm="linf", eps=1e-6).outcomes[0].loss


def test_what_is_adapted_has_every_hook():
    corner, flat = as_method(Corner()), as_method(Flat())
    assert isinstance(corner, Attack)
    assert isinstance(flat, Estimator)
    assert (corner.name, corner.needs_surrogate, corner.uses_scores) == ("Corner", False, True)
    assert (flat.name, flat.needs_surrogate) == ("Flat", True)
    assert flat.default_step(Linf(0.1)) == pytest.approx(0.01)
    corner.check(pictures(1)[0])
    ours = PRGF()
    assert as_method(ours) is ours


def test_classes_are_adapted_too():
    corner, flat = as_method_class(Corner), as_method_class(Flat)
    assert (corner.__name__, corner.name, corner.__doc__) == ("Corner", "Corner", Corner.__doc__)
    assert isinstance(corner(), Attack)
    assert isinstance(flat(), Estimator)
    assert as_method_class(PRGF) is PRGF


def test_pgd_adapts_the_estimator_it_holds():
    attack = resolve_method(AttackSettings(method=PGD(Flat(), step=0.5)))
    assert (attack.name, attack.needs_surrogate, attack.step) == ("Flat", True, 0.5)
    with pytest.raises(InputError, match="Corner is a whole attack"):
        PGD(Corner())


def test_what_is_no_method_is_refused():
    with pytest.raises(InputError, match=r"an estimator \(init, estimate\) or an attack \(flow\), got int"):
        resolve_method(AttackSettings(method=3))
    with pytest.raises(InputError, match=r"got the class PRGF: write PRGF\(\)"):
        resolve_method(AttackSettings(method=PRGF))


def test_a_method_that_forgets_its_conversation_says_so():
    @dataclass(frozen=True)
    class Silent(Attack):
        pass

    with pytest.raises(NotImplementedError, match="Silent has no flow"):
        dowse.attack(Tanh(0), pictures(1), method=Silent())
