"""The one Target protocol: whatever a user has becomes a Target once, and nobody asks again what it has."""

import pytest
import torch
from torch import nn

import dowse
from dowse.core.oracle import Oracle
from dowse.core.target import AdaptedTarget, Delivery, Kind, Target, as_target
from dowse.defences import Jpeg, Randomization
from dowse.maths.losses import Objective
from dowse.targets import open_target
from tests.support import Noisy, Tanh, labels_of, pictures

NET = Tanh(0)
X = pictures(4)


class Halved(Target):
    """A target of one's own, as the protocol documents it."""

    input_shape = (3, 4, 4)

    def __call__(self, points, seeds=None):
        return NET(points) / 2


def test_a_target_is_left_as_it_is():
    target = Halved()
    assert as_target(target) is target
    assert as_target(as_target(NET)).module is NET
    assert open_target(target) is target


def test_the_defaults():
    target = Halved()
    assert (target.takes_row_seeds, target.rows_per_call, target.differentiable) == (False, None, False)
    assert (target.name, target.kind, target.in_training) == ("Halved", None, False)
    assert target.to("cpu", torch.float32) is target
    target.close()
    delivery = target.deliver(X)
    assert torch.equal(delivery.scores, NET(X) / 2)
    assert delivery.sent.tolist() == [1] * 4
    assert delivery.answered.all()


def test_a_module():
    net = Tanh(0, dtype=torch.float32)
    target = as_target(net)
    assert isinstance(target, AdaptedTarget)
    assert target.differentiable
    assert target.kind == Kind(torch.float32, torch.device("cpu"))
    assert target.name == "Tanh"
    assert not target.in_training
    net.train()
    assert target.in_training, "asked each time, for a user may change it"
    assert target.to("cpu", torch.float64).kind.dtype is net.U.dtype is torch.float64
    assert as_target(nn.Flatten()).kind is None


def test_a_callable_with_some_of_the_parts():
    class Own:
        takes_row_seeds = True
        rows_per_call = 3
        input_shape = (3, 4, 4)
        closed = False

        def __call__(self, points, seeds):
            return NET(points) + seeds.unsqueeze(1)

        def close(self):
            self.closed = True

    own = Own()
    target = as_target(own)
    assert (target.takes_row_seeds, target.rows_per_call, target.input_shape) == (True, 3, (3, 4, 4))
    assert not target.differentiable
    assert torch.equal(target(X, torch.arange(4)), NET(X) + torch.arange(4).unsqueeze(1))
    assert torch.equal(target.deliver(X, torch.arange(4)).scores, target(X, torch.arange(4)))
    target.close()
    assert own.closed


def test_seeds_do_not_reach_who_takes_none():
    assert torch.equal(as_target(lambda points: NET(points))(X, torch.arange(4)), NET(X))


def test_an_account_of_its_own_is_kept():
    class Sends:
        def __call__(self, points):
            return NET(points)

        def deliver(self, points):
            return Delivery(NET(points), torch.full((len(points),), 7), torch.ones(len(points), dtype=torch.bool))

    assert as_target(Sends()).deliver(X).sent.tolist() == [7] * 4
    assert Jpeg(Sends()).deliver(X).sent.tolist() == [7] * 4


@pytest.mark.parametrize("answer", [lambda x: {"a": NET(x), "b": x}, lambda x: NET(x)[0, :3], lambda x: NET(x)[1:]])
def test_what_is_no_tensor_of_scores_is_named(answer):
    with pytest.raises(TypeError, match=r"must answer 4 rows with a tensor \(4, K\), got"):
        as_target(answer).deliver(X)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(dowse.InputError, match="callable from points to scores, got int"):
        as_target(3)


def test_a_defence_has_the_parts_of_what_is_behind_it():
    defended = Jpeg(Randomization(Halved()))
    assert isinstance(defended, Target)
    assert defended.takes_row_seeds
    assert not defended.differentiable
    assert defended.input_shape == (3, 4, 4)
    assert Randomization(NET).differentiable
    assert not Randomization(Halved()).differentiable, "no gradient comes out of it"
    assert Jpeg(NET).kind == Kind(torch.float64, torch.device("cpu"))
    assert list(Jpeg(NET).state_dict()) == ["net.U", "net.V"], "the net's weights are there once"


def test_an_attack_takes_each_of_them():
    """A module, a callable and a subclass that answer alike are attacked alike."""

    class Sub(Target):
        def __call__(self, points, seeds=None):
            return NET(points)

    run = {"method": "rgf", "q": 4, "eps": 0.3, "budget": 60}
    results = [dowse.attack(target, X, labels_of(NET, X), **run) for target in (NET, lambda x: NET(x), Sub())]
    for result in results[1:]:
        assert torch.equal(result.queries, results[0].queries)
        assert torch.equal(result.adversarial, results[0].adversarial)


def test_the_oracle_asks_through_it():
    oracle = Oracle(Noisy(NET, 0.1), Objective())
    assert oracle.takes_row_seeds
    oracle.learn_classes(X[0])
    assert oracle.classes == 4
