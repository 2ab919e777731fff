"""σ where f is flat: it grows until a probe moves f, and returns to its start when that would do again.

The paper takes σ for small enough and large enough; its released code lets it grow, and so do we, a little otherwise
(docs/decisions/0003-sigma.md). Nothing of it happens on a target whose answers move with every probe.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from dowse.core.flow import Flow
from dowse.estimators.probing import Probes, ask_probes

SIGMA_LIMIT = math.sqrt(0.001)  # per pixel: the paper's ε, so a longer probe says nothing about where the ball leads
SCOUTS = 2  # probes that look for a σ at which f moves, before a whole set is asked again

Draw = Callable[[], Tensor]
"""Makes unit directions, (n, *s), anew each time it is called."""


@dataclass(frozen=True)
class SigmaPolicy:
    """How σ grows and returns. Its state is σ itself, a length per pixel, which is passed in and returned.

    Attributes:
        start: σ to begin with, and to return to.
        clip: Whether probes are clipped to [0, 1].
    """

    start: float
    clip: bool

    @property
    def limit(self) -> float:
        """Where growth ends."""
        return max(self.start, SIGMA_LIMIT)

    def probe(self, sigma: float, x: Tensor, f: float, draw: Draw) -> Flow[tuple[Probes, float]]:
        """Ask about x + σ√D·u for the directions u, (n, *s), of draw(), where f = f(x): costs n queries.

        Where none of them moves f, σ doubles and they are repeated along fresh directions, each try paid for, until a
        slope shows or σ reaches its limit. For a set of probes two scouts go first and find a σ at which f moves.
        """
        while True:
            probes = yield from ask_probes(x, f, draw(), sigma, clip=self.clip)
            if probes.slope.any() or sigma >= self.limit:
                return probes, sigma
            sigma = self._doubled(sigma)
            if len(probes.slope) > SCOUTS:
                sigma = yield from self._scout(sigma, x, f, draw)

    def settle(self, sigma: float, iteration: int, x: Tensor, f: float, draw: Draw) -> Flow[float]:
        """Every second iteration of a grown σ, see whether every probe along draw() moves f at the start again."""
        if sigma == self.start or iteration % 2:
            return sigma
        probes = yield from ask_probes(x, f, draw(), self.start, clip=self.clip)
        return self.start if probes.rise.all() else sigma

    def _scout(self, sigma: float, x: Tensor, f: float, draw: Draw) -> Flow[float]:
        """Double σ until one of two probes moves f, or up to the limit."""
        while sigma < self.limit:
            probes = yield from ask_probes(x, f, draw()[:SCOUTS], sigma, clip=self.clip)
            if probes.rise.any():
                break
            sigma = self._doubled(sigma)
        return sigma

    def _doubled(self, sigma: float) -> float:
        return min(2 * sigma, self.limit)
