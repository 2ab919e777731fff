"""The sentence an engineer needs, in one norm: of so many pictures half fall within so many queries."""

import math

from dowse.audit.standing import Standing
from dowse.report.data.names import norm_sign
from dowse.wording import epsilon, plural

MARKS = ((0.5, "half"), (0.9, "90 %"), (1.0, "all"))


def sentence(standing: Standing) -> str:
    """How many of the pictures fall within how many queries, and how many withstand them."""
    n, fell, budget = standing.right, standing.fell, plural(standing.budget, "query")
    if n == 0:
        return _nothing(standing)
    comma = "," if standing.own_labels else ""  # what begins with one ends with one
    if n == 1:
        stands = "still stands, because your model refused queries" if standing.detected else f"withstands {budget}"
        end = f"falls within {plural(int(standing.taken[0]), 'query')}" if fell else stands
        return f"The one picture{_whose(standing)}{comma} {end}."
    if fell == 0:
        return f"None of the {n:,} pictures{_whose(standing)}{comma} falls within {budget}{_refused(standing)}."
    return f"Of the {n:,} pictures{_whose(standing)}, {_falls(standing)}{_rest(standing, n - fell, budget)}."


def where(standing: Standing) -> str:
    """The ball that a sentence is about."""
    return norm_sign(standing.norm) + ("" if math.isnan(standing.eps) else f", ε = {epsilon(standing.eps, 3)}")


def _nothing(standing: Standing) -> str:
    if standing.total == 0:
        return "No picture could be asked about."
    return f"Your model gets none of the {plural(standing.total, 'picture')} right: there was nothing to attack."


def _whose(standing: Standing) -> str:
    if not standing.own_labels:
        return " that your model gets right"
    return f",{' each' if standing.right > 1 else ''} taken as what your model says it is"


def _falls(standing: Standing) -> str:
    """Half, nine in ten and all, as far as so many fell; else how many did. Of equal numbers the larger share."""
    reached = {standing.falls_within(share): word for share, word in MARKS}
    marks = [(word, int(queries)) for queries, word in reached.items() if math.isfinite(queries)]
    if marks:
        (word, first), *others = marks
        return ", ".join(
            [f"{word} fall within {plural(first, 'query')}", *(f"{word} within {q:,}" for word, q in others)]
        )
    fell, first, last = standing.fell, int(standing.taken[0]), int(standing.taken[standing.fell - 1])
    if fell == 1:
        return f"1 falls within {plural(first, 'query')}"
    if first == last:
        return f"{fell:,} fall within {plural(first, 'query')}"
    return f"{fell:,} fall, the first within {plural(first, 'query')}, the last within {last:,}"


def _rest(standing: Standing, left: int, budget: str) -> str:
    if left == 0:
        return ""
    one = "s" if left == 1 else ""
    if standing.detected:
        return f"; {left:,} still stand{one}{_refused(standing)}"
    return f"; {left:,} withstand{one} {budget}"


def _refused(standing: Standing) -> str:
    """How many pictures stand because an attack on them was noticed, not because it failed."""
    return f", {standing.detected:,} of them because your model refused queries" if standing.detected else ""
