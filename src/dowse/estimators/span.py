"""P-RGF with several priors: the gradient's part in the space they span with random directions (Cheng et al. 2021)."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from dowse.core.flow import Flow, Opening, note, opening, pull
from dowse.estimators.directions import slope_of_loss
from dowse.estimators.rgf import RGFFamily, State
from dowse.maths.sampling import sphere, unit
from dowse.maths.span import orthonormal, projection
from dowse.maths.theory import prior_share


@dataclass(frozen=True)
class SpanState(State):
    """What the estimator carries on.

    Attributes:
        last: The last estimate, brought to length one, (*s); None before the first.
    """

    last: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class PRGFSpan(RGFFamily):
    """ĝ is ∇f's projection onto the space spanned by the surrogates' gradients, the last estimate and q random ones.

    Cost an iteration: a query for each prior (as many as surrogates, and one for the last estimate) and each of the q
    directions, and 1 for the check. The priors are made orthonormal, the random directions orthogonal to them and to
    each other; then the sum of slopes times directions is the best estimate that these queries allow. It explains the
    share F = Σα² + (1 − Σα²)·q/(D − m) of ‖∇f‖² on average (`maths.theory.objective_span`): no prior hurts by more
    than the query it costs, so none has to be weighed.

    Differences to the original: one finite difference a direction, on the displacement really sent, solved for
    exactly where clipping bends the directions; several surrogates at once, where the original has one prior and
    the last estimate; σ grows where f is flat.

    Attributes:
        q: Random directions of an estimate.
        history: Whether the last estimate is a prior too.
    """

    name = "prgf-span"
    paper = "Cheng et al. 2021 (NeurIPS)"
    cost = "q+m+1, m priors"
    needs_surrogate = True
    looks_inside = True

    q: int = 10
    history: bool = True
    subspace: int | tuple[int, int] | None = field(default=None, init=False)  # random directions are of all space

    def init(self, x: Tensor) -> SpanState:
        """The state before the first iterate, for an image like x, (*s)."""
        return SpanState(self.sigma)

    def estimate(self, state: State, x: Tensor, f: float, rng: torch.Generator) -> Flow[tuple[Tensor, State]]:
        """ĝ at x, (*s)."""
        assert isinstance(state, SpanState)
        known = yield from opening()
        priors = yield from self.priors(x, state.last, known)
        settled = yield from self.settle(state, x, f, rng)
        probes, settled = yield from self.probe(settled, x, f, lambda: self.span(priors, x, rng))
        m = len(priors)
        yield from note(prior_share=prior_share(probes.slope[:m], probes.slope[m:], x.numel() - m), priors=float(m))
        ĝ = projection(probes.displacement, probes.rise).view(x.shape)
        return ĝ, SpanState(settled.sigma, state.iteration + 1, last=unit(ĝ) if self.history else None)

    def priors(self, x: Tensor, last: Tensor | None, known: Opening) -> Flow[Tensor]:
        """The surrogates' gradients of f at x and the last estimate made orthonormal, (m, *s); zero ones left out."""
        seen = yield from pull(x, dict.fromkeys(range(known.surrogates), slope_of_loss(known)))
        given = [one.gradient for one in seen.values() if one.gradient is not None]
        if last is not None:
            given.append(last)
        return orthonormal(torch.stack(given))

    def span(self, priors: Tensor, x: Tensor, rng: torch.Generator) -> Tensor:
        """The priors, (m, *s), and q random directions orthogonal to them and to each other, (m + q, *s)."""
        return orthonormal(torch.cat([priors, sphere(min(self.q, x.numel() - len(priors)), x, rng)]))
