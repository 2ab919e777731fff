"""The closed forms of the paper: Theorems 1 to 3, both λ*, both μ*, E[β], and the estimates of ‖∇f‖ and A².

"Improving Black-box Adversarial Attacks with a Transfer-based Prior" (NeurIPS 2019), Sec. 3 and Appendices
A to C. `bias` is about P-RGF and its λ, `weight` about averaging and its μ, `norms` about what both have to estimate
first, `noise` about that where answers are noisy; `span`, of a later paper, about several priors.

Throughout:
- D, `D`: the dimension of the input; d, `d`: that of the subspace spanned by the columns of V; at least 1
- q, `q`: the number of random directions, at least 1
- λ, `lam`: the bias, in [0, 1]; μ, `mu`: the weight, in [0, 1]
- α, `alpha`: the cosine vᵀ∇f/‖∇f‖ of the prior v; `alpha_square` is its square
- α₁, `alpha_1`: vᵀVVᵀ∇f/‖∇f‖, what the subspace sees of it
- A², `a_square`: ‖VVᵀ∇f‖²/‖∇f‖², the share of the gradient inside the subspace
- E[β], `expected_beta`: the expected cosine of ∇f and an estimate without the prior, at least 0

Differences to the paper:
- λ* is J/(J + (K−J)) where Eqs. (12) and (18) print J/K. Factored, J and K−J are both positive: it is the
  same number with no cancellation, and it cannot leave [0, 1] by rounding.
- μ* is the optimum over μ in [0, 1], as Eq. (B.1) has it. Eq. (B.7) as printed may leave that interval (it
  exceeds 1 as soon as α·α₁ > A²), and is clipped here.
- Estimates are noisy, so α² > 1 is taken for what it says: the prior is the gradient.
"""

from dowse.maths.theory.bias import (
    lambda_star,
    lambda_star_before_fix,
    lambda_star_subspace,
    objective,
    objective_subspace,
    rgf_loss,
)
from dowse.maths.theory.noise import norm_square_leaning, norm_square_noisy
from dowse.maths.theory.norms import a_square, gradient_norm
from dowse.maths.theory.span import objective_span, prior_share
from dowse.maths.theory.weight import (
    THRESHOLD_C,
    averaging_loss,
    averaging_loss_subspace,
    expected_cosine,
    expected_cosine_subspace,
    mu_star,
    mu_star_approximate,
    mu_star_subspace,
)

__all__ = [
    "THRESHOLD_C",
    "a_square",
    "averaging_loss",
    "averaging_loss_subspace",
    "expected_cosine",
    "expected_cosine_subspace",
    "gradient_norm",
    "lambda_star",
    "lambda_star_before_fix",
    "lambda_star_subspace",
    "mu_star",
    "mu_star_approximate",
    "mu_star_subspace",
    "norm_square_leaning",
    "norm_square_noisy",
    "objective",
    "objective_span",
    "objective_subspace",
    "prior_share",
    "rgf_loss",
]
