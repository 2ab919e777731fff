"""The patterns that `dowse` begins with where no surrogate knows better."""

import pytest
import torch

import dowse
from dowse.attacks.patterns import ALONE, may_repeat
from tests.support import Tanh, pictures


@pytest.mark.parametrize("shape", [(1, 40, 40), (3, 32, 32), (3, 8, 11), (3, 64, 64), (3, 96, 100)])
def test_no_pattern_is_asked_about_twice_where_few_are_different(shape):
    x, asked = pictures(1, seed=6, shape=shape), []

    class Points(dowse.Observer):
        def answered(self, task, query, reply):
            asked.append(query.points.clone())

    dowse.attack(Tanh(5, shape=shape), x, method="dowse", eps=1e-2, budget=ALONE + 1, observers=[Points()])
    points = torch.cat(asked).flatten(1)
    assert len(points) == ALONE + 1
    assert len(points.unique(dim=0)) == len(points)


def test_only_small_and_grey_images_are_looked_over_for_repeats():
    assert may_repeat(torch.zeros(3, 111, 224))
    assert not may_repeat(torch.zeros(3, 112, 112))
