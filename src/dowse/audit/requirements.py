"""Floors that a model must keep, how they are written, and whether they are met: the gate of an audit."""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dowse.audit.standing import Standing
from dowse.errors import InputError, nearest
from dowse.report.data.names import norm_sign
from dowse.report.data.statistics import Interval
from dowse.wording import plural

WORDS = {"first": 0.0, "half": 0.5, "all": 1.0}
FORM = 'write it like "half >= 100", "90% >= 300", "accuracy@1000 >= 0.3" or "linf half >= 50"'
WRITTEN = re.compile(
    r"(?:(?P<norm>l2|linf)\s+)?(?P<measure>[a-z]+(?:@(?P<at>[\w.,+]+))?|(?P<share>[\d.]+)\s*%)\s*"
    r"(?P<sign>[<>=!]+)\s*(?P<floor>[\d.,e+]+)\s*(?P<percent>%?)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Requirement:
    """A floor under one number of an audit.

    Attributes:
        text: As it was written.
        norm: The norm it is about; None is every norm of the audit.
        share: Of the queries within which so large a share falls; None if it is about accuracy.
        queries: Of the accuracy left after so many queries; 0 is the clean accuracy.
        floor: What the number must reach.
        strict: Whether it must lie above the floor.
    """

    text: str
    norm: str | None
    share: float | None
    queries: int
    floor: float
    strict: bool

    @property
    def budget(self) -> int:
        """The least budget that can tell whether it is met."""
        return self.queries if self.share is None else math.ceil(self.floor) - (not self.strict)

    def verdict(self, standing: Standing) -> "Judgement":
        """Whether a model meets it in one norm."""
        if standing.right == 0:
            why = "your model gets no picture right" if standing.total else "no picture could be asked about"
            return Judgement(self, standing.norm, math.nan, None, why)
        if standing.unfinished:
            why = f"{plural(standing.unfinished, 'picture')} of an attack are not done"
            return Judgement(self, standing.norm, math.nan, None, why)
        if self.budget > standing.budget:
            why = f"the audit came to {plural(standing.budget, 'query')}, and {self.budget:,} tell"
            return Judgement(self, standing.norm, math.nan, None, why)
        value, between, said = self._measured(standing)
        met = value > self.floor if self.strict else value >= self.floor
        return Judgement(self, standing.norm, value, met, said, between)

    def _measured(self, standing: Standing) -> tuple[float, Interval, str]:
        if self.share is None:
            value = standing.accuracy(self.queries)
            when = f"after {plural(self.queries, 'query')}" if self.queries else "unchanged"
            return value, standing.interval_of_accuracy(self.queries), f"{value:.1%} of all pictures are right {when}"
        value = standing.falls_within(self.share)
        between = standing.interval_of_half() if self.share == 0.5 else (math.nan, math.nan)
        names = {0.0: "the first falls", 0.5: "half fall", 1.0: "all fall"}
        who = names.get(self.share, f"{100 * self.share:g} % fall")
        if math.isinf(value):
            return (
                value,
                between,
                f"not within {plural(standing.budget, 'query')}: {standing.fell:,} of {standing.right:,} fall",
            )
        return value, between, f"{who} within {plural(int(value), 'query')}"


@dataclass(frozen=True)
class Judgement:
    """Whether a requirement is met in one norm.

    Attributes:
        requirement: Which.
        norm: Where.
        value: The number it is about; NaN if it cannot be told.
        met: Whether it reaches the floor; None if that cannot be told.
        said: What was found, or why nothing can be told.
        interval: 95 %, of the number; NaN where there is none.
    """

    requirement: Requirement
    norm: str
    value: float
    met: bool | None
    said: str
    interval: Interval = (math.nan, math.nan)

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        return "cannot be told" if self.met is None else "met" if self.met else "not met"

    @property
    def between(self) -> str:
        """The interval in words, empty where there is none."""
        low, high = self.interval
        if math.isnan(low):
            return ""
        if self.requirement.share is None:
            return f"{100 * low:.0f} % to {100 * high:.0f} %"
        least, most = ("∞" if math.isinf(end) else f"{end:,.0f}" for end in (low, high))
        return least if least == most else f"{least} to {most}"

    def __str__(self) -> str:
        return f"{self.requirement.text} [{norm_sign(self.norm)}]: {self.word}, {self.said}"


def parse_requirement(text: str) -> Requirement:
    """A requirement as it is written; InputError says how it should be."""
    written = WRITTEN.fullmatch(text.strip())
    if written is None:
        raise InputError(f"cannot read the requirement {text!r}: {FORM}")
    if written["sign"] not in (">=", ">"):
        raise InputError(f"a requirement is a floor, {text!r} says {written['sign']}: write >= or >")
    norm = None if written["norm"] is None else written["norm"].lower()
    share, queries = _measure(text, written)
    floor = _number(text, written["floor"]) / (100 if written["percent"] else 1)
    if share is None and not 0 <= floor <= 1:
        raise InputError(f"accuracy lies between 0 and 1, {text!r} says {floor:g}: write 0.3 or 30%")
    if share is not None and written["percent"]:
        raise InputError(f"{text!r} is about a number of queries, which is no per cent: leave the last % out")
    return Requirement(text.strip(), norm, share, queries, floor, written["sign"] == ">")


def _measure(text: str, written: re.Match[str]) -> tuple[float | None, int]:
    """The share whose fall is meant, or None and the queries after which accuracy is."""
    if written["share"] is not None:
        share = _number(text, written["share"]) / 100
        if not 0 < share <= 1:
            raise InputError(f"a share of the pictures lies between 0 and 100 %, got {text!r}")
        return share, 0
    word, at = written["measure"].partition("@")[0].lower(), written["at"]
    if word == "accuracy" and at is not None:
        queries = _number(text, at)
        if queries != int(queries):
            raise InputError(f"accuracy is told after a whole number of queries, got {text!r}")
        return None, int(queries)
    if word == "accuracy":
        raise InputError(f"{text!r} does not say after how many queries: write accuracy@1000")
    if at is not None:
        raise InputError(f"only accuracy is told @ a number of queries, got {text!r}: {FORM}")
    if word == "clean":
        return None, 0
    if word not in WORDS:
        raise InputError(f"{word!r} in {text!r} is unknown: {nearest(word, [*WORDS, 'accuracy', 'clean'])} {FORM}")
    return WORDS[word], 0


def _number(text: str, word: str) -> float:
    try:
        number = float(word.replace(",", ""))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{word!r} in {text!r} is no number that can be reached: {FORM}")
    return number


def check_requirements(requirements: Iterable[Requirement], budget: int, norms: Collection[str]) -> None:
    """Raise InputError for a requirement that an audit with this budget and these norms cannot tell about."""
    for one in requirements:
        if one.norm is not None and one.norm not in norms:
            raise InputError(f"{one.text!r} is about {one.norm}, and the audit has {', '.join(norms)}: audit it too")
        if one.budget > budget:
            raise InputError(
                f"a budget of {budget:,} cannot tell whether {one.text!r} is met: give --budget {one.budget} at least"
            )


def judge(requirements: Iterable[Requirement], standings: Sequence[Standing]) -> list[Judgement]:
    """What becomes of every requirement in every norm that it is about; InputError for a norm that is not there."""
    verdicts = []
    for one in requirements:
        meant = [standing for standing in standings if one.norm in (None, standing.norm)]
        if not meant:
            raise InputError(f"{one.text!r} is about {one.norm}, and the audit has no run there: audit that norm too")
        verdicts += [one.verdict(standing) for standing in meant]
    return verdicts


def passed(verdicts: Sequence[Judgement]) -> bool:
    """Whether every requirement is met; what cannot be told is not met."""
    return all(verdict.met is True for verdict in verdicts)
