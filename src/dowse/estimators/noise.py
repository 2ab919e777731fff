"""What is known of a target's noise, and of ‖∇f‖ behind it: pooled over an attack, passed in and returned."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

QUIET = 1e-5  # relative: answers of one image that differ by less differ by the rounding of float32
STANDS_OUT = 2.0  # standard deviations of the noise: what is above that is seen
LOUD = (
    3.0  # the same for a rise that σ is chosen by: it is looked at after every doubling, and is to be seen again later
)
FORGETTING = 0.9  # per estimate: ‖∇f‖ changes along the way, and a single estimate behind noise says next to nothing


@dataclass(frozen=True)
class Noise:
    """The error of an answer, and what the probes so far say of ‖∇f‖².

    Attributes:
        variance: τ², of a single answer; 0 for a target that always says the same, or has not been asked twice.
        freedom: How many answers more than images τ² was seen in; 0 before the first look.
        square: ‖∇f‖² pooled over the probes so far; may be negative.
        weight: The number of slopes it stands on, older ones counting less.
    """

    variance: float = 0.0
    freedom: int = 0
    square: float = 0.0
    weight: float = 0.0

    @property
    def silent(self) -> bool:
        """Whether the target was asked twice and said the same."""
        return self.freedom > 0 and self.variance == 0

    def heard(self, answers: Sequence[float]) -> "Noise":
        """The noise after one image was asked about several times."""
        mean, more = sum(answers) / len(answers), len(answers) - 1
        if max(answers) - min(answers) <= QUIET * (1 + abs(mean)) and self.variance == 0:
            return replace(self, freedom=self.freedom + more)
        squares = sum((one - mean) ** 2 for one in answers)
        freedom = self.freedom + more
        return replace(self, variance=(self.variance * self.freedom + squares) / freedom, freedom=freedom)

    def of_slope(self, length: float) -> float:
        """τ²/‖δ‖²: the variance that it gives a slope seen over a length."""
        return self.variance / length**2

    def measured(self, square: float, slopes: int) -> "Noise":
        """‖∇f‖² after another estimate, which stands on so many slopes."""
        before = FORGETTING * self.weight
        weight = before + slopes
        return replace(self, square=(before * self.square + slopes * square) / weight, weight=weight)

    def norm(self, per: float, length: float) -> float | None:
        """‖∇f‖ if the probes have seen it: if its square stands out of its standard error, per·τ²/‖δ‖²·√(2/weight)."""
        error = per * self.of_slope(length) * math.sqrt(2 / self.weight) if self.weight else math.inf
        return math.sqrt(self.square) if self.square > STANDS_OUT * error else None

    def hides(self, rise: float, at: float = STANDS_OUT) -> bool:
        """Whether a difference of two answers is no larger than so many standard deviations of their noise."""
        return abs(rise) <= at * math.sqrt(2 * self.variance)


NO_NOISE = Noise()
