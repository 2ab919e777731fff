"""What runs, columns and a report are called: short, and never two the same."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from dowse.report.data.names import short_target
from dowse.store import RunInfo

APART = ("target", "image_set", "norm", "eps", "targeted", "weights")  # what tells columns and tables apart


def own_titles(runs: Iterable[RunInfo]) -> dict[str, str]:
    """Titles of the runs of a column, by their ids: what differs stands behind a title that repeats."""
    named: dict[str, list[RunInfo]] = defaultdict(list)
    for run in runs:
        named[run.title].append(run)
    titles = {}
    for title, same in named.items():
        spoken = [_words(run) for run in same]
        differ = [word for word in spoken[0] if len({words.get(word) for words in spoken}) > 1]
        for run, words in zip(same, spoken, strict=True):
            said = ", ".join(f"{word}={words.get(word)}" for word in differ)
            titles[run.id] = f"{title} ({said})" if said else title
    return titles


def column_names(runs: Sequence[RunInfo]) -> list[str]:
    """What heads the columns that these runs stand for: as few words as tell them apart.

    A target's short name; its spec where two targets share that; behind it, where a target is attacked on several
    image sets, what tells those apart: the set's name, its size, whose labels it has, its fingerprint.
    """
    targets = [run.content["target"] for run in runs]
    short = {target: short_target(target) for target in targets}
    shared = Counter(short.values())
    names = [short[target] if shared[short[target]] == 1 else target for target in targets]
    fingerprints, sizes = zip(*(run.content["image_set"].partition("@")[::2] for run in runs), strict=True)
    labels = ["the target's labels" if one.endswith("-target") else "" for one in fingerprints]
    for words in ([Path(run.source).name for run in runs], sizes, labels, [one[:6] for one in fingerprints]):
        known: dict[str, set[str]] = defaultdict(set)
        for name, word in zip(names, words, strict=True):
            known[name].add(word)
        names = [
            f"{name}, {word}" if word and len(known[name]) > 1 else name
            for name, word in zip(names, words, strict=True)
        ]
    return names


def report_title(columns: Iterable[str]) -> str:
    """A title made of the names of a report's columns."""
    names = list(dict.fromkeys(columns))
    if len(names) > 3:
        return f"How few queries fool {len(names)} classifiers"
    return "How few queries fool " + " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _words(run: RunInfo) -> dict[str, str]:
    """What makes a run, in words that can be compared."""
    content = {word: value for word, value in run.content.items() if word not in (*APART, "options")}
    return {word: json.dumps(value).strip('"') for word, value in {**content, **run.content["options"]}.items()}
