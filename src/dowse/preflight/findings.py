"""What a preflight finds: a verdict, what was seen, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """What a finding means for a run: nothing, something to know, or something to mend first."""

    GOOD = "good"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """One thing that the preflight looked at.

    Attributes:
        check: What was looked at.
        verdict: What it means.
        found: What was seen.
        remedy: What to do; empty where there is nothing to do.
    """

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""


def option(name: str, value: object) -> str:
    """An option as Python writes it and as the command line does: one remedy serves both."""
    return f"{name}={value!r} (--{name}{'' if value is True else f' {value}'})"


@dataclass(frozen=True)
class Preflight:
    """All findings, and what they cost.

    Attributes:
        findings: In the order of the checks; later ones are left out where an earlier one makes them pointless.
        queries: Rows answered.
        sent: Rows handed to the target.
        labels: The target's own label of each image, as far as it answered.
        classes: How many scores it answers with; None if it did not.
        rate: Rows a second; None if it was not timed.
    """

    findings: tuple[Finding, ...]
    queries: int
    sent: int
    labels: tuple[int, ...] = ()
    classes: int | None = None
    rate: float | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.verdict is not Verdict.WRONG for finding in self.findings)


def as_record(report: Preflight) -> dict[str, Any]:
    """A report as plain data, for JSON."""
    return {
        "ok": report.ok,
        "queries": report.queries,
        "sent": report.sent,
        "labels": list(report.labels),
        "findings": [
            {"check": f.check, "verdict": str(f.verdict), "found": f.found, "remedy": f.remedy} for f in report.findings
        ],
    }
