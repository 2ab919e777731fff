"""An audit as an experiment: which attacks, in which norms, and in rounds where time is the limit."""

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

from dowse.errors import InputError
from dowse.experiment.file import make_experiment
from dowse.experiment.tables import Experiment, MethodTable
from dowse.settings import Norm, least_queries

BUDGET = 1000
NORMS: tuple[Norm, ...] = ("l2", "linf")
TITLES = {"dowse": "Dowse", "square": "Square", "transfer": "Transfer", "prgf": "P-RGF"}
ALONE = ("dowse", "square")
WITH_A_SURROGATE = (*ALONE, "transfer", "prgf")
ROUNDS = (10, 100, 1000, 10_000)  # budgets, where minutes are given instead


def audit_experiment(
    target: Mapping[str, Any],
    images: Mapping[str, Any],
    *,
    surrogates: Sequence[str] = (),
    methods: Sequence[str] = (),
    source: str = "dowse audit",
    **words: Any,
) -> Experiment:
    """The experiment that an audit is: every attack of the portfolio in every norm; InputError if none can succeed.

    Args:
        target: Its spec and name, as an experiment's table.
        images: Path, labels, count and size, as an experiment's table.
        surrogates: Specs of networks that work together; without one, the attacks that need one are left out.
        methods: Other attacks than the portfolio's.
        source: Who asks, for errors.
        words: Other words of an experiment; what is not said is the audit's own.
    """
    chosen = methods or (WITH_A_SURROGATE if surrogates else ALONE)
    tables: dict[str, Any] = {
        "name": "audit", "target": dict(target), "images": {k: v for k, v in images.items() if v is not None},
        "method": [{"name": one} | ({"title": TITLES[one]} if one in TITLES else {}) for one in chosen],
        "norm": list(NORMS), "budget": BUDGET, **{word: _plain(value) for word, value in words.items()},
    }  # fmt: skip
    if surrogates:
        tables["surrogate"] = [list(surrogates)]
    experiment = make_experiment(tables, source=source)
    _check_hope(experiment)
    return experiment


def _check_hope(experiment: Experiment) -> None:
    """Raise InputError where the budget is too small for every attack: that nothing falls would say nothing."""
    first = min(experiment.method, key=_least)
    if experiment.said("budget") < (least := _least(first)):
        raise InputError(
            f"no attack of this audit can succeed with budget={experiment.said('budget')}: {first.name} takes {least} "
            f"queries at least; give --budget {least}, or other methods"
        )


def rounds_of(experiment: Experiment) -> list[Experiment]:
    """The rounds before the whole: growing budgets, each with the attacks that it is enough for to make one step."""
    return [
        experiment.model_copy(update={"budget": budget, "method": able})
        for budget in ROUNDS
        if budget < experiment.said("budget")
        if (able := tuple(one for one in experiment.method if _least(one) <= budget))
    ]


def _least(table: MethodTable) -> int:
    """The fewest queries after which an attack can have fooled anybody."""
    from dowse.attacks.registry import find_method

    return least_queries({**find_method(table.name).options(), **table.options})


def radii(eps: Any, norms: Sequence[str]) -> Any:
    """The word eps of an experiment; InputError for one radius of several norms, and for that of a norm not audited."""
    if isinstance(eps, Mapping):
        for norm in eps:
            if norm not in norms:
                raise InputError(f"eps has a radius in {norm}, and the audit has {', '.join(norms)}: say both alike")
        return {norm: _plain(radius) for norm, radius in eps.items()}
    if len(norms) > 1:
        raise InputError(
            f"eps={eps} is a radius in one norm, and the audit has {', '.join(norms)}: say one norm, or a radius each, "
            'eps={"l2": 3.0, "linf": 0.03}, on the command line --eps "{l2 = 3.0, linf = 0.03}"'
        )
    return eps


def _plain(value: Any) -> Any:
    """A number of numpy's as one of Python's, anything else as it is."""
    return value.item() if isinstance(value, Number) and hasattr(value, "item") else value
