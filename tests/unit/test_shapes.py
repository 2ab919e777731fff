"""Drawn shapes and the classifiers of them."""

import pytest
import torch

from dowse.errors import InputError
from dowse.images.sources import open_images
from dowse.models.shapes import NAMES, classifier, shapes


def test_shapes_are_images_and_the_same_for_the_same_seed() -> None:
    x, y = shapes(12, seed=4)
    assert x.shape == (12, 3, 32, 32)
    assert 0 <= x.min() < x.max() <= 1
    assert y.tolist() == [*range(6), *range(6)]
    assert torch.equal(x, shapes(12, seed=4)[0])
    assert not torch.equal(x, shapes(12, seed=5)[0])


def test_the_first_shapes_do_not_depend_on_how_many_are_drawn_as_far_as_labels_go() -> None:
    assert shapes(3)[1].tolist() == shapes(9)[1].tolist()[:3]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_classifier_knows_new_shapes(seed: int) -> None:
    x, y = shapes(120, seed=9)
    net = classifier(seed)
    assert not net.training
    assert (net(x).argmax(1) == y).float().mean() > 0.9


def test_a_classifier_is_one_s_own_and_another_seed_another_network() -> None:
    x, _ = shapes(2)
    first, again, other = classifier(0), classifier(0), classifier(1)
    assert first is not again
    assert torch.equal(first[2].weight, again[2].weight)
    assert not torch.allclose(first(x), other(x))


def test_drawings_are_an_image_set() -> None:
    source = open_images("demo:shapes")
    loaded = source.load(7)
    assert len(source) == 60
    assert loaded.images.shape == (7, 3, 32, 32)
    assert [NAMES[label] for label in loaded.labels] == [name.split()[0] for name in loaded.names]
    assert source.load(1, size=16).images.shape == (1, 3, 16, 16)
    with pytest.raises(InputError, match="table for a folder"):
        open_images("demo:shapes", "labels.csv")
