"""A row: what became of one task, as the store keeps it. Its fields are the columns, said here and nowhere else."""

from dataclasses import dataclass, replace
from typing import Any, get_args, get_type_hints

from dowse.core.outcome import End

GOES_ON = (End.BUDGET, End.TARGET_FAILED)
"""A task that ended so can go on: its answers stay in the log."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of one task.

    Attributes:
        task: Its number in the store, given when the row is committed.
        run: The run's id.
        position: Its place in the image set, a task's `index`.
        name: Its file, or its number.
        checksum: Of its pixels and label; its random stream is drawn from it.
        end: Why it ended.
        queries: Rows the target answered.
        sent: Rows handed to the target: in answers that became void, in flight at a kill, about a saved picture too.
        budget: The most queries it was allowed.
        label: The class it was attacked as.
        target_label: The class wanted of a targeted attack.
        predicted: The target's label of the adversarial image, or of the last iterate.
        confidence: The probability the target gives that label.
        confidence_before: The probability it gave its label of the original.
        l2: ‖adversarial − x‖₂, or of the last iterate; None in a row cut to a smaller budget.
        linf: The same in the maximum norm.
        loss: f there.
        seconds: How long it was under attack, beside others, in all processes together.
        seed: The run's seed.
        cause: What the target raised.
        file: Where the adversarial image is, relative to the store's folder, given when the row is committed.
        saved_adversarial: Whether the picture that was saved still fools the target; None if none was saved.
        saved_inside: Whether that picture lies in the ball.
        saved_distance: How far it is from the original, in the attack's norm.
        saved_queries: Queries spent on asking about it, which `queries` does not count.
        verified: How many of the further answers that `verify` asked for found the image adversarial too.
        refused: Rows among `queries` that a detector refused; None in a row cut to a smaller budget after the first.
        queries_until_detected: Which query was the first of them, counted from 1; None if none was refused.
        finished: When, in seconds since 1970, given when the row is committed.
        session: The process that wrote it, given when the row is committed.
    """

    task: int = 0
    run: str
    position: int
    name: str
    checksum: str
    end: End
    queries: int
    sent: int
    budget: int
    label: int | None
    target_label: int | None
    predicted: int | None
    confidence: float | None
    confidence_before: float | None
    l2: float | None
    linf: float | None
    loss: float | None
    seconds: float
    seed: int
    cause: str | None
    file: str | None = None
    saved_adversarial: bool | None = None
    saved_inside: bool | None = None
    saved_distance: float | None = None
    saved_queries: int = 0
    verified: int = 0
    refused: int | None = 0
    queries_until_detected: int | None = None
    finished: float = 0.0
    session: int = 0

    @property
    def success(self) -> bool:
        """Whether an adversarial image was found."""
        return self.end is End.ADVERSARIAL

    @property
    def refused_share(self) -> float | None:
        """The share of its queries that were refused; None if that is not known."""
        return None if self.refused is None else self.refused / max(self.queries, 1)

    def goes_on(self, budget: int) -> bool:
        """Whether the image would go on with a budget: it ran out of a smaller one, or the target failed."""
        return self.end is End.TARGET_FAILED or (self.end is End.BUDGET and self.budget < budget)

    def within(self, budget: int) -> "Row":
        """The row as it would stand if no more than a smaller budget had been allowed.

        An attack that such a budget ends on its way has left nothing that is known of: no image, no distance.
        """
        if budget >= self.budget:
            return self
        if self.queries <= budget:
            return replace(self, budget=budget)
        detected = first if (first := self.queries_until_detected) is not None and first <= budget else None
        return replace(
            self, budget=budget, queries=budget, end=End.BUDGET, predicted=None, confidence=None, l2=None, linf=None,
            loss=None, cause=None, file=None, saved_adversarial=None, saved_inside=None, saved_distance=None,
            saved_queries=0, verified=0, refused=0 if detected is None else None, queries_until_detected=detected,
        )  # fmt: skip

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Row":
        """A row of the columns of the database; those that an older store does not have are empty, its counts zero."""
        known = dict(values) if values.keys() == _TYPES.keys() else {name: values.get(name) for name in _TYPES}
        for name, kind in _MADE.items():
            if known[name] is not None:
                known[name] = kind(known[name])
        for name in ("saved_queries", "refused"):
            known[name] = known[name] or 0
        return cls(**known)

    def values(self) -> tuple[Any, ...]:
        """What stands in the columns of the database, in their order."""
        return tuple(getattr(self, name) for name in COLUMNS)


def type_of(hint: Any) -> Any:
    """The type of a field's value where it has one: of `int | None` it is int."""
    return next((one for one in get_args(hint) if one is not type(None)), hint)


_SQL = {int: "INTEGER", bool: "INTEGER", float: "REAL", str: "TEXT", End: "TEXT"}
_TYPES = {name: type_of(hint) for name, hint in get_type_hints(Row).items()}
_MADE = {name: kind for name, kind in _TYPES.items() if kind in (bool, End)}  # SQLite has no such types
OF_THE_TASK = ("run", "position", "name")
"""The fields of a row that the table of tasks has."""
COLUMNS = {name: _SQL[kind] for name, kind in _TYPES.items() if name not in OF_THE_TASK}
"""The columns of the table of rows, and their types in SQL."""
