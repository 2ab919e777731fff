"""The paper's radii, which stand for a radius that nobody named."""

import math

from dowse.settings import Norm


def paper_radius(norm: Norm, dimension: int) -> float:
    """√(0.001·D) for l2, 0.05 for l∞ (Sec. 4, App. D).

    >>> paper_radius("l2", 3 * 224 * 224)
    12.26...
    """
    return math.sqrt(0.001 * dimension) if norm == "l2" else 0.05
