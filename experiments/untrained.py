"""A surrogate that knows nothing: an attack that is given it must notice."""

import torch
from torch import nn

from dowse.models.efficientnet_lite import EfficientNetLite


def efficientnet_lite0(seed: int = 0) -> nn.Module:
    """EfficientNet-Lite0 with random weights, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return EfficientNetLite(0).eval()
