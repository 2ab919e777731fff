"""Two stores against each other: which runs belong together, what differs, and what that did to the results."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dowse.errors import InputError, choose
from dowse.machine.csv_and_json import csv_text, json_text
from dowse.report.data.model import Numbers, measure
from dowse.report.data.names import norm_sign, short_target
from dowse.report.data.statistics import Paired, compare_rows
from dowse.report.text.markdown import escape, table_lines
from dowse.store import RunInfo, Store
from dowse.wording import p_value, percent, plural, queries

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
        forms = {"text": _text, "csv": _csv, "json": _json, "markdown": _markdown}
        choose("format", form, forms)
        return forms[form](self)


def compare_stores(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> Versus:
    """Compare the runs of two stores: first those of the same content, then those of one method, target and norm.

    Among several that could belong together, those that differ least do. Both are read with the smaller budget of the
    two, and measured and tested on the images that both attacked.
    """
    with Store(Path(first)) as one, Store(Path(second)) as other:
        left, right = _begun(one), _begun(other)
        pairs = _pairs(left, right)
        matches = [_match(one, left[i], other, right[j]) for i, j in pairs.items()]
    only_first = [run for i, run in enumerate(left) if i not in pairs]
    only_second = [run for j, run in enumerate(right) if j not in pairs.values()]
    return Versus(matches, only_first, only_second)


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


def _begun(store: Store) -> list[RunInfo]:
    """The runs of a store that have an image that ended."""
    runs = [run for run in store.runs() if store.counted(run.id, run.budget, run.count).stored]
    if not runs:
        raise InputError(f"the store in {store.folder} holds no image that ended: there is nothing to compare")
    return runs


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


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _match(one: Store, first: RunInfo, other: Store, second: RunInfo) -> Match:
    budget = min(first.budget, second.budget)
    attacked = [store.counted(run.id, budget, run.count).by_image() for store, run in ((one, first), (other, second))]
    common = attacked[0].keys() & attacked[1].keys()
    before, after = (measure([row for key, row in side.items() if key in common], budget) for side in attacked)
    return Match(first, second, differences(first, second), budget, (before, after), compare_rows(*attacked))


def _words(match: Match) -> dict[str, str]:
    """A match in the columns of a table for readers."""
    before, after = (side.summary for side in match.numbers)
    title = match.first.title
    return {
        "method": title if title == match.second.title else f"{title} → {match.second.title}",
        "target": short_target(match.first.content["target"]), "norm": norm_sign(match.first.content["norm"]),
        "images": str(match.paired.n), "ASR before": percent(before.asr), "ASR after": percent(after.asr),
        "AVG. Q before": queries(before.mean_queries), "AVG. Q after": queries(after.mean_queries),
        "median before": queries(before.median_queries), "median after": queries(after.median_queries),
        "fewer": str(match.paired.losses), "more": str(match.paired.wins),
        "p (Wilcoxon)": p_value(match.paired.wilcoxon_p), "what differs": "; ".join(match.differs) or "nothing",
    }  # fmt: skip


def _values(match: Match) -> dict[str, Any]:
    """A match in the columns of a table for programs."""
    before, after, paired = match.numbers[0].summary, match.numbers[1].summary, match.paired
    return {
        "title": match.first.title, **{word: match.first.content[word] for word in ("method", "target", "norm")},
        "budget": match.budget, "run_before": match.first.id, "run_after": match.second.id,
        "asr_before": before.asr, "asr_after": after.asr,
        "mean_queries_before": before.mean_queries, "mean_queries_after": after.mean_queries,
        "median_queries_before": before.median_queries, "median_queries_after": after.median_queries,
        "images": paired.n, "fewer": paired.losses, "more": paired.wins, "same": paired.ties,
        "mean_difference": -paired.mean_difference, "sign_p": paired.sign_p, "wilcoxon_p": paired.wilcoxon_p,
        "differs": match.differs,
    }  # fmt: skip


def _unmatched(versus: Versus) -> dict[str, list[str]]:
    """What only one of the stores has, by the words that say which."""
    sides = {"only in the first": versus.only_first, "only in the second": versus.only_second}
    return {
        side: [f"{run.title} · {run.content['target']} · {run.content['norm']}" for run in runs]
        for side, runs in sides.items()
    }


def _text(versus: Versus) -> str:
    lines = []
    for match in versus.matches:
        words = _words(match)
        changes = "   ".join(f"{word} {words[f'{word} before']} → {words[f'{word} after']}"
                             for word in ("ASR", "AVG. Q", "median"))  # fmt: skip
        lines += [
            f"{words['method']} · {words['target']} · {words['norm']} · at most {match.budget:,} queries",
            *([f"    {changes}"] if match.paired.n else []),
            f"    {_against(match.paired)}",
            f"    differs: {words['what differs']}",
            "",
        ]
    lines += [f"{side}: {name}" for side, names in _unmatched(versus).items() for name in names]
    return "\n".join(lines).rstrip() + "\n"


def _against(p: Paired) -> str:
    """How the second does against the first on the images that both attacked."""
    if not p.n:
        return "no images in common, so nothing to compare"
    return (
        f"{plural(p.n, 'image')} in common: the second takes fewer queries on {p.losses}, more on {p.wins}, the same "
        f"on {p.ties}; Wilcoxon p {p_value(p.wilcoxon_p)}, sign test p {p_value(p.sign_p)}"
    )


def _csv(versus: Versus) -> str:
    rows = [{**_values(match), "differs": "; ".join(match.differs)} for match in versus.matches]
    return csv_text(list(rows[0]) if rows else ["title"], rows)


def _json(versus: Versus) -> str:
    only_first, only_second = _unmatched(versus).values()
    matches = [_values(match) for match in versus.matches]
    return json_text({"matches": matches, "only_first": only_first, "only_second": only_second})


def _markdown(versus: Versus) -> str:
    rows = [_words(match) for match in versus.matches]
    lines = table_lines(list(rows[0]), [[escape(word) for word in row.values()] for row in rows]) if rows else []
    alone = [f"- {side}: {escape(name)}" for side, names in _unmatched(versus).items() for name in names]
    return "\n".join([*lines, *([""] if lines and alone else []), *alone]) + "\n"
