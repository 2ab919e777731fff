"""What to do next: what an audit's numbers ask for and what they leave open, with a command where there is one."""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dowse.audit.standing import Standing
from dowse.report.data.names import norm_sign
from dowse.wording import plural, queries

if TYPE_CHECKING:
    from dowse.audit.result import Audit

FEW = 50  # pictures, below which an interval is said first
QUICK = 100  # queries, below which a limit on queries cannot help


@dataclass(frozen=True)
class Advice:
    """What to do, and the command that does it; None where there is none."""

    said: str
    command: str | None = None


def advice(audit: "Audit") -> list[Advice]:
    """What to do next, the most pressing first."""
    return [*_first(audit), *_model(audit), *_sharper(audit), *_gate(audit)]


def _first(audit: "Audit") -> Iterator[Advice]:
    for finding in audit.look.wrong:
        yield Advice(f"Mend this first ({finding['check']}): {finding['found']}. {_sentence(finding['remedy'])}")
    worst = min(audit.standings.values(), key=lambda one: one.clean_accuracy)
    if worst.clean_accuracy < 0.5 and not worst.own_labels:
        yield Advice(
            f"Your model gets {worst.right} of {plural(worst.total, 'picture')} right unchanged: look whether labels "
            "count from 0 in its order, and whether pixels reach it as it was trained."
        )


def _model(audit: "Audit") -> Iterator[Advice]:
    """What the numbers ask of the model."""
    halves = {norm: one.falls_within(0.5) for norm, one in audit.standings.items() if one.right}
    quick = {norm: half for norm, half in halves.items() if half <= QUICK}
    if quick:
        said = " and ".join(
            f"{queries(half)} queries in {' and '.join(norm_sign(norm) for norm in quick if quick[norm] == half)}"
            for half in dict.fromkeys(quick.values())
        )
        yield Advice(
            f"Half of the pictures fall within {said}: a limit on queries does not save this model. Adversarial "
            "training moves these numbers; an audit with a defence in front of it says what that is worth.",
            _defended(audit),
        )


def _sharper(audit: "Audit") -> Iterator[Advice]:
    """What would make the numbers sharper or harsher."""
    none_because = audit.look.surrogates.said.partition("; ")[2]  # empty where none were asked for
    if none_because and not audit.look.surrogates.specs:
        yield Advice(_sentence(none_because))
    left = {norm: one for norm, one in audit.standings.items() if one.fell < one.right}
    if left:
        most = max(left.values(), key=lambda one: one.right - one.fell)
        more = 10 * most.budget
        yield Advice(
            f"{_withstood(left)}: a larger budget goes on with these alone, and pays for nothing twice.",
            _again(audit, {"--budget": str(more)}),
        )
    few = next((one for one in audit.standings.values() if 0 < one.right < FEW), None)
    if few is not None:
        low, high = few.interval_of_half()
        within = queries(low) if low == high else f"{queries(low)} to {queries(high)}"
        yield Advice(
            f"{'These are' if few.right > 1 else 'This is'} {plural(few.right, 'picture')}: of all pictures like them, "
            f"half fall within {within} queries in {norm_sign(few.norm)} (95 %). More pictures tell more."
        )
    for finding in audit.look.notes:
        if finding["remedy"]:
            yield Advice(f"Good to know ({finding['check']}): {finding['found']}. {_sentence(finding['remedy'])}")


def _gate(audit: "Audit") -> Iterator[Advice]:
    """A floor that the model keeps today, for those who have none yet."""
    if audit.verdicts or not any(one.right for one in audit.standings.values()):
        return
    half = min(one.falls_within(0.5) for one in audit.standings.values() if one.right)
    budget = min(one.budget for one in audit.standings.values())
    floor = int(half) if math.isfinite(half) else budget
    yield Advice(
        "Keep what you have: with a requirement the command ends with status 3 as soon as the model falls behind it.",
        _again(audit, {"--require": f"half >= {floor}"}),
    )


def _withstood(left: dict[str, Standing]) -> str:
    words = [
        f"{plural(one.right - one.fell, 'picture')} in {norm_sign(norm)}" + f" withstood {one.budget:,} queries"
        for norm, one in left.items()
    ]
    return " and ".join(words)


def _defended(audit: "Audit") -> str | None:
    target, out = f"jpeg:75+{audit.look.about['target']}", f"{audit.folder}-jpeg"
    return _again(audit, {"--target": target, "--out": out}, without=("--html", "--json", "--junit"))


def _again(audit: "Audit", options: Mapping[str, str], without: Sequence[str] = ()) -> str | None:
    """The command that the audit came from with other values of options, and without some; None if it came from
    Python."""
    if not audit.command:
        return None
    words, kept, dropped = iter(audit.command), list[str](), (*options, *without)
    for word in words:
        if word in dropped:
            next(words, None)
        elif not word.startswith(tuple(f"{one}=" for one in dropped)):
            kept.append(word)
    return shlex.join([*kept, *(word for pair in options.items() for word in pair)])


def _sentence(words: str) -> str:
    """A remedy as a sentence of a page, where no letter stands for code."""
    words = words.replace("`", "")
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "?")) else ".")
