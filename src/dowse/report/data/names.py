"""What things are called to readers: targets, norms, runs, columns, tables, reports; short, and never two the same."""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from dowse.report.data.model import Group, Table
from dowse.store import RunInfo
from dowse.wording import epsilon, plural

MODELS = {
    "mobilenetv2": "MobileNetV2", "mobilenet_v2": "MobileNetV2", "vgg16": "VGG-16", "vgg16_bn": "VGG-16-BN",
    "squeezenet10": "SqueezeNet", "squeezenet1_0": "SqueezeNet", "squeezenet": "SqueezeNet",
    "inception_v3": "Inception-v3",
    **{f"resnet{i}": f"ResNet-{i}" for i in (18, 20, 32, 34, 50, 56, 101, 152)},
    **{f"efficientnet_lite{i}": f"EfficientNet-Lite{i}" for i in range(5)},
}  # fmt: skip
DEFENCES = {
    "jpeg": "JPEG", "randomization": "Randomization", "denoiser": "Denoiser", "noise": "Noise",
    "output-noise": "Output noise", "boundary": "Boundary", "round": "Rounded", "top-k": "Top", "aaa": "AAA",
    "blacklight": "Blacklight", "piha": "PIHA",
}  # fmt: skip
EXPORTED = re.compile(rf"\bonnx:(?=(?:{'|'.join(DEFENCES)})[:+])")  # of a defended model that was exported whole
NORMS = {"l2": "ℓ₂", "linf": "ℓ∞"}


def short_target(spec: str) -> str:
    """A spec as a table's heading says it: the model's name, its defences in front."""
    rest, defences = EXPORTED.sub("", spec.partition("#")[0]), []
    while match := re.match(r"([\w-]+)(?::([^+:]*))?\+", rest):
        word = DEFENCES.get(match[1], match[1])
        defences.append(f"{word} {match[2]}" if match[2] and match[2].isdecimal() else word)
        rest = rest[match.end() :]
    kind, _, name = rest.partition(":")
    name = name.rstrip("/") or kind
    stem = re.sub(r"\.(onnx|safetensors|pth|pt)$", "", re.split(r"[/:\\]", name)[-1])
    plain = re.sub(r"^(imagenet|cifar10|cifar)_", "", stem)
    return " + ".join([*defences, MODELS.get(plain.lower(), plain)])


def norm_sign(norm: str) -> str:
    """A norm as mathematics writes it."""
    return NORMS.get(norm, norm)


def subscripts(title: str) -> list[tuple[str, bool]]:
    """A title in pieces, each with whether it stands below the line: RGF_D has a D that does, as in the paper."""
    pieces = re.split(r"_([A-Z]{1,3})(?![A-Za-z0-9_])", title)
    return [(piece, i % 2 == 1) for i, piece in enumerate(pieces) if piece]


UNSAID = "null"  # what a run has not been told, which tells it apart without a word
APART = ("target", "image_set", "norm", "eps", "targeted", "weights")  # what tells columns and tables apart


def own_titles(columns: Iterable[Iterable[RunInfo]]) -> dict[str, str]:
    """Titles of the runs of some columns, by their ids: what tells two of a column apart stands behind their title.

    It stands there in every column, so that a run is a row of the same name beside columns that have two of its title.
    """
    named: dict[str, list[list[RunInfo]]] = defaultdict(list)
    for column in columns:
        same: dict[str, list[RunInfo]] = defaultdict(list)
        for run in column:
            same[run.title].append(run)
        for title, runs in same.items():
            named[title].append(runs)
    titles = {}
    for title, found in named.items():
        differ = list(dict.fromkeys(word for runs in found for word in _differing(list(map(_words, runs)))))
        every = {run.id: _words(run) for runs in found for run in runs}
        of_all = {word for word in differ if all(word in words for words in every.values())}
        for run_id, words in every.items():
            given = [word for word in differ if word in words and not (words[word] == UNSAID and word in of_all)]
            said = ", ".join(_said(word, words[word], every.values()) for word in given)
            titles[run_id] = f"{title} ({said})" if said else title
    return titles


def _differing(spoken: Sequence[dict[str, str]]) -> list[str]:
    """The words that do not say the same of all; an option that came later is not in all."""
    every = dict.fromkeys(word for words in spoken for word in words)
    return [word for word in every if len({words.get(word) for words in spoken}) > 1]


def _said(word: str, value: str, spoken: Iterable[dict[str, str]]) -> str:
    """One word of a run in its title: surrogates by the names of their networks where those tell the runs apart."""
    if word == "surrogate":
        names = {words[word]: _by(json.loads(words[word])) for words in spoken if word in words}
        if len(set(names.values())) == len(names):
            return names[value]
    return f"{word}={value}"


def _by(surrogates: Sequence[str]) -> str:
    return f"by {' and '.join(map(short_target, surrogates))}" if surrogates else "no surrogate"


def column_names(runs: Sequence[RunInfo]) -> list[str]:
    """What heads the columns that these runs stand for: as few words as tell them apart.

    A target's name, or a short one made of its spec; its spec beside it where two targets share that; behind it, where
    a target is attacked on several image sets, what tells those apart: the set's name, its size, whose labels it has,
    its fingerprint.
    """
    targets = [run.content["target"] for run in runs]
    given = {run.content["target"]: run.target_name for run in runs if run.target_name}
    short = {target: given.get(target) or short_target(target) for target in targets}
    shared = Counter(short.values())
    whole = {target: f"{given[target]} ({target})" if target in given else target for target in targets}
    names = [short[target] if shared[short[target]] == 1 else whole[target] for target in targets]
    fingerprints, sizes = zip(*(run.content["image_set"].partition("@")[::2] for run in runs), strict=True)
    labels = ["the target's labels" if run.own_labels else "" for run in runs]
    for words in ([Path(run.source).name for run in runs], sizes, labels, [one[:6] for one in fingerprints]):
        known: dict[str, set[str]] = defaultdict(set)
        for name, word in zip(names, words, strict=True):
            known[name].add(word)
        names = [
            f"{name}, {word}" if word and len(known[name]) > 1 else name
            for name, word in zip(names, words, strict=True)
        ]
    return names


def report_title(groups: Sequence[Group]) -> str:
    """A title made of the names of a report's columns or, where these are many, of the number of their targets."""
    names = list(dict.fromkeys(group.name for group in groups))
    if len(names) > 3:
        return f"How few queries fool {plural(len({group.target for group in groups}), 'classifier')}"
    return "How few queries fool " + " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _words(run: RunInfo) -> dict[str, str]:
    """What makes a run, in words that can be compared."""
    content = {word: value for word, value in run.content.items() if word not in (*APART, "options")}
    return {word: json.dumps(value).strip('"') for word, value in {**content, **run.content["options"]}.items()}


FORMULA = "√(0.001·D)"  # the paper's radius for ℓ₂, as dowse.maths.geometry has it


def ball(table: Table) -> str:
    """The ball of a table in words: its norm and its radius, with the paper's formula where that was taken."""
    words, known = radius(table), [group.eps for group in table.groups]
    sizes = sorted({f"{eps:.3g}" for eps in known if words == FORMULA and not math.isnan(eps)})
    return f"{norm_sign(table.norm)}, ε = {words}" + (f" = {', '.join(sizes)}" if sizes else "")


def radius(table: Table) -> str:
    """The radius of a table's ball: as it was asked for, else the paper's, for ℓ₂ as its formula."""
    if table.eps is None and table.norm == "l2":
        return FORMULA
    return epsilon(table.groups[0].eps if table.eps is None else table.eps)


def captions(tables: Sequence[Table]) -> list[str]:
    """What each table is about; those that share a caption name their targets too."""
    plain = [_caption(table) for table in tables]
    return [
        said if plain.count(said) == 1 else f"{said}: {', '.join(group.name for group in table.groups)}"
        for said, table in zip(plain, tables, strict=True)
    ]


def short_captions(tables: Sequence[Table]) -> list[str]:
    """The shortest words that tell tables apart: the norm, where needed the radius and the budget."""
    norms, balls = [norm_sign(table.norm) for table in tables], [ball(table) for table in tables]
    whole = [_caption(table) for table in tables]
    return next(words for words in (norms, balls, whole) if len(set(words)) == len(set(whole)))


def _caption(table: Table) -> str:
    aim = "targeted, " if table.targeted else ""
    return f"{ball(table)}, {aim}at most {table.budget:,} queries an image"
