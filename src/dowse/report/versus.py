"""Two stores against each other: which runs belong together, what differs, and what that did to the results."""

import csv
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dowse.errors import InputError, choose
from dowse.report import numbers
from dowse.report.gather import measure
from dowse.report.markdown import escape
from dowse.report.model import Numbers, plain
from dowse.report.names import NORMS, short_target
from dowse.report.paired import Paired, compare_rows
from dowse.store import RunInfo, Store

FORMS = ("text", "csv", "json", "markdown")
SAME = ("method", "target", "norm", "targeted")


@dataclass(frozen=True)
class Match:
    """A run of the first store and the run of the second that belongs to it.

    Attributes:
        first: The run of the first store.
        second: That of the second.
        differs: What differs between them, "word: before → after"; empty if they are the same run.
        budget: The smaller of their budgets, with which both are read.
        numbers: What each amounts to, on the images that both attacked.
        paired: First against second on the images that both attacked.
    """

    first: RunInfo
    second: RunInfo
    differs: list[str]
    budget: int
    numbers: tuple[Numbers, Numbers]
    paired: Paired


@dataclass(frozen=True)
class Versus:
    """All matches of two stores, and the runs of each that the other has nothing like."""

    matches: list[Match]
    only_first: list[RunInfo]
    only_second: list[RunInfo]

    def to(self, form: str) -> str:
        """The comparison as "text", "csv", "json" or "markdown"."""
        choose("format", form, FORMS)
        return {"text": _text, "csv": _csv, "json": _json, "markdown": _markdown}[form](self)


def compare_stores(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> Versus:
    """Compare the runs of two stores: first those of the same content, then those of one method, target and norm.

    Among several that could belong together, those that differ least do. Both are read with the smaller budget of the
    two, and measured and tested on the images that both attacked.
    """
    with Store(Path(first)) as one, Store(Path(second)) as other:
        left, right = _begun(one), _begun(other)
        for runs, store in ((left, one), (right, other)):
            if not runs:
                raise InputError(f"the store in {store.folder} holds no image that ended: there is nothing to compare")
        pairs = _pairs(left, right)
        matches = [_match(one, left[i], other, right[j]) for i, j in pairs.items()]
    only_first = [run for i, run in enumerate(left) if i not in pairs]
    only_second = [run for j, run in enumerate(right) if j not in pairs.values()]
    return Versus(matches, only_first, only_second)


def _begun(store: Store) -> list[RunInfo]:
    """The runs of a store that have an image that ended."""
    return [run for run in store.runs() if store.counted(run.id, run.budget, run.count).stored]


def _pairs(left: list[RunInfo], right: list[RunInfo]) -> dict[int, int]:
    """Places of runs that belong together, those that differ least first, each run once."""
    possible = sorted(
        (len(differences(one, other)) + (one.title != other.title), i, j)
        for i, one in enumerate(left)
        for j, other in enumerate(right)
        if all(one.content[word] == other.content[word] for word in SAME)
    )
    pairs: dict[int, int] = {}
    for _, i, j in possible:
        if i not in pairs and j not in pairs.values():
            pairs[i] = j
    return dict(sorted(pairs.items()))


def differences(one: RunInfo, other: RunInfo) -> list[str]:
    """What differs in the content of two runs, in words."""
    if one.id == other.id:
        return []
    before, after = ({**run.content, **run.content["options"]} for run in (one, other))
    words = [word for word in dict.fromkeys([*before, *after]) if word != "options"]
    return [
        f"{word}: {_word(before.get(word))} → {_word(after.get(word))}"
        for word in words
        if before.get(word) != after.get(word)
    ]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _match(one: Store, first: RunInfo, other: Store, second: RunInfo) -> Match:
    budget = min(first.budget, second.budget)
    attacked = [store.counted(run.id, budget, run.count).by_image() for store, run in ((one, first), (other, second))]
    common = attacked[0].keys() & attacked[1].keys()
    before, after = (measure([row for key, row in side.items() if key in common], budget) for side in attacked)
    return Match(first, second, differences(first, second), budget, (before, after), compare_rows(*attacked))


HEADS = ("method", "target", "norm", "images", "ASR before", "ASR after", "AVG. Q before", "AVG. Q after",
         "median before", "median after", "fewer", "more", "p (Wilcoxon)", "what differs")  # fmt: skip


def _words(match: Match) -> tuple[str, ...]:
    before, after = (numbers_of.summary for numbers_of in match.numbers)
    title = match.first.title
    return (
        title if title == match.second.title else f"{title} → {match.second.title}",
        short_target(match.first.content["target"]), NORMS.get(match.first.content["norm"], ""), str(match.paired.n),
        numbers.percent(before.asr), numbers.percent(after.asr), numbers.queries(before.mean_queries),
        numbers.queries(after.mean_queries), numbers.queries(before.median_queries),
        numbers.queries(after.median_queries), str(match.paired.losses), str(match.paired.wins),
        numbers.p_value(match.paired.wilcoxon_p), "; ".join(match.differs) or "nothing",
    )  # fmt: skip


def _text(versus: Versus) -> str:
    lines = []
    for match in versus.matches:
        words = dict(zip(HEADS, _words(match), strict=True))
        p = match.paired
        lines += [
            f"{words['method']} · {words['target']} · {words['norm']} · at most {match.budget:,} queries",
            f"    ASR {words['ASR before']} → {words['ASR after']}   AVG. Q {words['AVG. Q before']} → "
            f"{words['AVG. Q after']}   median {words['median before']} → {words['median after']}",
            f"    {p.n} images in common: the second takes fewer queries on {p.losses}, more on {p.wins}, the same on "
            f"{p.ties}; Wilcoxon p {numbers.p_value(p.wilcoxon_p)}, sign test p {numbers.p_value(p.sign_p)}",
            f"    differs: {words['what differs']}",
            "",
        ]
    lines += [f"only in the first: {_name(run)}" for run in versus.only_first]
    lines += [f"only in the second: {_name(run)}" for run in versus.only_second]
    return "\n".join(lines).rstrip() + "\n"


def _name(run: RunInfo) -> str:
    return f"{run.title} · {run.content['target']} · {run.content['norm']}"


def _csv(versus: Versus) -> str:
    file = io.StringIO()
    rows = _values(versus)["matches"]
    writer = csv.DictWriter(file, list(rows[0]) if rows else ["title"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "differs": "; ".join(row["differs"])} for row in rows)
    return file.getvalue()


def _json(versus: Versus) -> str:
    return json.dumps(_values(versus), indent=1, ensure_ascii=False) + "\n"


def _markdown(versus: Versus) -> str:
    lines = [f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    lines += [f"| {' | '.join(escape(word) for word in _words(match))} |" for match in versus.matches]
    lines += [""] if versus.only_first or versus.only_second else []
    lines += [f"- only in the first: {escape(_name(run))}" for run in versus.only_first]
    lines += [f"- only in the second: {escape(_name(run))}" for run in versus.only_second]
    return "\n".join(lines) + "\n"


def _values(versus: Versus) -> dict[str, Any]:
    matches = []
    for match in versus.matches:
        before, after, p = match.numbers[0].summary, match.numbers[1].summary, match.paired
        matches.append(
            {
                "title": match.first.title, "method": match.first.content["method"],
                "target": match.first.content["target"], "norm": match.first.content["norm"], "budget": match.budget,
                "run_before": match.first.id, "run_after": match.second.id, "asr_before": plain(before.asr),
                "asr_after": plain(after.asr), "mean_queries_before": plain(before.mean_queries),
                "mean_queries_after": plain(after.mean_queries), "median_queries_before": plain(before.median_queries),
                "median_queries_after": plain(after.median_queries), "images": p.n, "fewer": p.losses, "more": p.wins,
                "same": p.ties, "mean_difference": plain(-p.mean_difference), "sign_p": p.sign_p,
                "wilcoxon_p": p.wilcoxon_p, "differs": match.differs,
            }
        )  # fmt: skip
    sides = {"only_first": versus.only_first, "only_second": versus.only_second}
    return {"matches": matches, **{side: [_name(run) for run in runs] for side, runs in sides.items()}}
