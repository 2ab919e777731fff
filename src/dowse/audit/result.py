"""What an audit found, as an object: accuracy after given queries, sentences, verdicts, and the forms it takes."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dowse.audit.looking import FirstLook
from dowse.audit.requirements import Judgement, Requirement, judge, parse_requirement, passed
from dowse.audit.sentence import sentence, where
from dowse.audit.standing import Standing, standing_of
from dowse.errors import InputError, choose
from dowse.experiment.spec import PlannedRun
from dowse.machine.files import write_file
from dowse.report.data.gather import gather
from dowse.report.data.model import Report
from dowse.store import Store


@dataclass(frozen=True)
class Audit:
    """What an audit found; `dowse.benchmark` returns one.

    Attributes:
        name: What the model is called.
        standings: How it stands in each norm, by norm.
        look: What the first look at it told.
        verdicts: What became of every requirement, in each norm that it is about.
        folder: Where all rows and images are.
        report: The same as a report has it: every run in numbers.
        command: The command line that it came from; empty if it came from Python.
    """

    name: str
    standings: dict[str, Standing]
    look: FirstLook
    verdicts: tuple[Judgement, ...]
    folder: Path
    report: Report = field(repr=False)
    command: tuple[str, ...] = ()

    @property
    def sentences(self) -> dict[str, str]:
        """By norm, how many pictures fall within how many queries."""
        return {norm: sentence(standing) for norm, standing in self.standings.items()}

    @property
    def clean_accuracy(self) -> float:
        """The share of all pictures that it gets right unchanged."""
        return min(standing.clean_accuracy for standing in self.standings.values())

    def robust_accuracy(self, queries: int | None = None, norm: str | None = None) -> float:
        """The share of all pictures still right after so many queries of the strongest attack of each.

        Args:
            queries: How many; None is the budget. More than the budget is an InputError, for nobody knows.
            norm: In which norm; None takes the lowest of all.
        """
        if norm is not None:
            choose("norm", norm, self.standings)
        meant = [one for one in self.standings.values() if norm in (None, one.norm)]
        budget = min(one.budget for one in meant)
        if queries is not None and not 0 <= queries <= budget:
            raise InputError(f"accuracy is known up to the budget, {budget} queries, got {queries}: audit with more")
        return min(one.accuracy(budget if queries is None else queries) for one in meant)

    def queries(self, share: float = 0.5, norm: str | None = None) -> float:
        """The queries within which so large a share of the pictures it gets right falls, in a norm or in the worst.

        Infinite if so many never fell.
        """
        if norm is not None:
            choose("norm", norm, self.standings)
        return min(one.falls_within(share) for one in self.standings.values() if norm in (None, one.norm))

    def require(self, *requirements: str) -> list[Judgement]:
        """What becomes of requirements such as "half >= 100" or "accuracy@1000 >= 0.3" (docs/audit.md)."""
        return judge(map(parse_requirement, requirements), list(self.standings.values()))

    @property
    def met(self) -> bool:
        """Whether every requirement that was given is met."""
        return passed(self.verdicts)

    def html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The page, one file that needs nothing else; written to a path if one is given."""
        from dowse.audit.page import page

        return _written(page(self), path)

    def json(self, path: str | os.PathLike[str] | None = None) -> str:
        """All of it for a program; docs/audit.md lists the words."""
        from dowse.audit.records import record

        return _written(json.dumps(record(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n", path)

    def junit(self, path: str | os.PathLike[str] | None = None) -> str:
        """The gate as a JUnit file, a test a requirement, which build servers show."""
        from dowse.audit.records import junit

        return _written(junit(self), path)

    def __str__(self) -> str:
        return "\n".join(f"{where(one)}: {sentence(one)}" for one in self.standings.values())


def audit_of(
    folder: Path,
    plans: Sequence[PlannedRun] | None,
    look: FirstLook,
    requirements: Iterable[Requirement] = (),
    command: Sequence[str] = (),
) -> Audit:
    """What the runs that plans are about, or all for None, amount to, as far as the store of a folder has them."""
    with Store(folder) as store:
        report = gather(store, plans=plans)
    standings = {table.norm: standing_of(table, group) for table, group in report.columns}
    verdicts = judge(requirements, list(standings.values()))
    name = report.columns[0][1].name
    return Audit(name, standings, look, tuple(verdicts), folder, report, tuple(command))


def unaudited(name: str, look: FirstLook, folder: Path) -> Audit:
    """What is told of a model whose first look stopped the audit: no run, and no verdict but that."""
    return Audit(name, {}, look, (), folder, Report("", [], []))


def _written(text: str, path: str | os.PathLike[str] | None) -> str:
    if path is not None:
        write_file(Path(path), text)
    return text


def as_plain(value: float) -> Any:
    """A number as JSON can say it: None where there is none or where it is infinite, whole where it is whole."""
    if value != value or value in (float("inf"), float("-inf")):
        return None
    return int(value) if value == int(value) else value
