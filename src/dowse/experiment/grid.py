"""The grid of an experiment: every run that it asks for, each with its id."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from dowse.attacks.adapter import AnyMethod
from dowse.attacks.registry import default_options, find_method, without_preset
from dowse.core.method import loss_of
from dowse.core.target import Shape, TargetLike
from dowse.defences import DEFENCES
from dowse.errors import InputError, nearest
from dowse.experiment.spec import PlannedRun, RunSpec
from dowse.experiment.tables import FOR_ALL, GRID, Experiment, MethodTable, as_tuple
from dowse.images.class_names import names_of, with_names
from dowse.images.image_set import ImageSource
from dowse.machine.importing import check_trusted
from dowse.settings import ExperimentSettings, settings_of
from dowse.surrogates.surrogate import Surrogate
from dowse.targets import Mask, Spec, input_shape, parse_spec
from dowse.targets.options import ModelOptions, OnnxOptions, Options, TfliteOptions
from dowse.targets.weights_digest import weights_digest

DEFAULTS = {name: setting.default for name, setting in settings_of(ExperimentSettings).items()}
ABOUT_SURROGATES = ("surrogate", "smooth", "class_offset", "surrogate_size", "combine")
AXES = (*ABOUT_SURROGATES, *(word for word in GRID if word not in ABOUT_SURROGATES))  # the last varies fastest
OPTIONS: Mapping[str, type[Options]] = {"onnx": OnnxOptions, "tflite": TfliteOptions, "python": ModelOptions}


def plans_of(
    experiment: Experiment, source: ImageSource, shape_of: Callable[[str], Shape | None] = input_shape
) -> list[PlannedRun]:
    """The grid of an experiment on an image set, each run with its id; shape_of tells what images a target takes."""

    def image_set(target: str) -> str:
        return with_names(source, names_of(target)).fingerprint + experiment.images.suffix(shape_of(target))

    return expand(experiment, image_set, weights_digest)


def expand(
    experiment: Experiment,
    image_set: Callable[[str], str],
    weights: Callable[[str], str | None] = lambda spec: None,
) -> list[PlannedRun]:
    """One plan a run, in the file's order, none twice.

    Args:
        experiment: What to run.
        image_set: From a target's spec to the fingerprint of the images it is given.
        weights: From a spec to the fingerprint of the file it is read from, None if there is none.
    """
    plans: dict[str, PlannedRun] = {}
    for (target, name), defence in itertools.product(experiment.targets.items(), experiment.defence):
        guarded = target if defence == "none" else f"{defence}+{target}"
        called = name if name is None or defence == "none" else f"{defence} + {name}"
        for table in experiment.method:
            if table.on and target not in table.on:
                continue
            count = table.count_on(target, experiment.images.count)
            for title, words in _runs_of(experiment, table):
                read = {spec: weights(spec) for spec in (guarded, *words["surrogate"])}
                known = {spec: digest for spec, digest in read.items() if digest is not None}
                spec = _checked(RunSpec(target=guarded, image_set=image_set(guarded), weights=known, **words))
                plans.setdefault(spec.id, PlannedRun(spec=spec, title=title, count=count, target_name=called))
    return list(plans.values())


def _runs_of(experiment: Experiment, table: MethodTable) -> Iterator[tuple[str, dict[str, Any]]]:
    """A title and the settings of every run that a method asks for."""
    method = find_method(table.name)
    given = {option: as_tuple(value) for option, value in table.options.items()}
    for words, values in itertools.product(_words_of(experiment, table, method), itertools.product(*given.values())):
        pairs = zip(given, values, strict=True)  # a list inside a list is one value, such as a subspace's sides
        options = {option: tuple(value) if isinstance(value, list) else value for option, value in pairs}
        defaults = default_options(method, quantize=words["quantize"])
        every = {option: default for option, default in defaults.items() if option not in GRID}
        every |= without_preset(method, options)
        before = method.as_before()
        every = {option: value for option, value in every.items() if option not in before or value != before[option]}
        title = table.title or " ".join([method.name, *(f"{name}={value}" for name, value in options.items())])
        yield title, {"method": table.name, "options": every, **words}


def _words_of(experiment: Experiment, table: MethodTable, method: type[AnyMethod]) -> Iterator[dict[str, Any]]:
    """Every combination of the words that a method may say for itself, and those that stand for all."""
    axes = {word: table.said(word) or experiment.said(word) or (DEFAULTS[word],) for word in AXES}
    if not (method.needs_surrogate or method.uses_surrogate):
        axes |= {word: (DEFAULTS[word],) for word in ABOUT_SURROGATES}
    for eps in axes["eps"]:
        _check_radii(eps, axes["norm"])
    for values in itertools.product(*axes.values()):
        words: dict[str, Any] = dict(zip(axes, values, strict=True))
        words["loss"] = words["loss"] or loss_of(method, targeted=experiment.said("targeted"))
        words["surrogate"] = tuple(as_tuple(words["surrogate"]))
        if not words["surrogate"]:
            words |= {word: DEFAULTS[word] for word in ABOUT_SURROGATES}
        if isinstance(words["eps"], dict):
            words["eps"] = words["eps"].get(words["norm"])
        yield words | {word: experiment.said(word) for word in FOR_ALL}


def _check_radii(eps: Any, norms: Sequence[str]) -> None:
    """Raise InputError for radii by norm if none of them is for a norm that is run; a norm left out has the paper's."""
    if isinstance(eps, dict) and eps and eps.keys().isdisjoint(norms):
        norm, run = next(iter(eps)), " and ".join(norms)
        raise InputError(
            f"eps has a radius for {' and '.join(eps)} only, and the run is in {run}: add --norm {norm} "
            f'(norm = "{norm}" in a file), or a radius for {run}'
        )


def _checked(spec: RunSpec) -> RunSpec:
    """A spec that can be run, as far as that is known before anything is opened; InputError else."""
    for named in (spec.target, *spec.surrogate):
        for module in re.findall(r"\b(?:torch|python):([\w.]+):", named):
            check_trusted(module)
        _check_named(named)
    if spec.attack.needs_surrogate and not spec.surrogate:
        raise InputError(f'method {spec.method!r} needs a surrogate: write surrogate = "SPEC", or --surrogate SPEC')
    Mask.of(spec.outputs, spec.reveals, spec.decimals)
    for surrogate in spec.surrogate:
        Surrogate(surrogate, spec.surrogate_size, spec.class_offset, spec.smooth)
    return spec


def _check_named(spec: str) -> None:
    """Raise InputError for defences that are not there or not made so, and for options that their kind has not."""
    try:
        parsed = parse_spec(spec)
    except InputError:  # no spec, but a word for what is there already; whoever opens a wrong one refuses it better
        return
    _check_defences(parsed)
    if parsed.kind in OPTIONS:
        OPTIONS[parsed.kind].of(parsed.options)


def _check_defences(spec: Spec) -> None:
    """Raise InputError unless the defences of a spec can be made, one in front of the other; none is given an image."""
    behind: TargetLike = nn.Identity().eval()
    for name, argument in reversed(spec.defences):
        if name not in DEFENCES:
            raise InputError(f"no defence is named {name!r}: {nearest(name, DEFENCES)}")
        if name != "denoiser":  # its weights belong to a classifier, which is not there yet
            behind = DEFENCES[name](behind, argument)
