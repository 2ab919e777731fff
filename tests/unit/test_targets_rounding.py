"""σ's growth against a target that rounds: P-RGF keeps most of its success, and pays little more."""

import pytest
import torch
from torch import nn

import dowse
from dowse import models
from dowse.images.sources import open_images


@pytest.mark.long
def test_rounding_to_four_decimals_leaves_prgf_most_of_its_success(shared, monkeypatch):
    """50 images at less than half of the paper's ε, of a target that shows probabilities: 43 fooled either way."""
    monkeypatch.setenv("DOWSE_SHARED", str(shared))
    net, surrogate = models.load("cifar10_resnet20"), models.load("cifar10_resnet56")
    images = open_images(shared / "data" / "cifar10_test1000.npz").load(60)
    with torch.no_grad():
        right = net(images.images).argmax(1) == images.labels
    x, y = images.images[right][:50], images.labels[right][:50]
    assert len(x) == 50
    target = nn.Sequential(net, nn.Softmax(1)).eval()
    given = {"method": "prgf", "surrogate": surrogate, "outputs": "probs", "q": 20, "eps": 0.7, "budget": 150}
    full = dowse.attack(target, x, y, **given).summary()
    rounded = dowse.attack(target, x, y, decimals=4, **given).summary()
    assert full.asr > 0.8
    assert rounded.asr >= 0.8 * full.asr
    assert rounded.mean_queries < 1.5 * full.mean_queries
