"""Spec strings: how a target is written on the command line and in files, and how it becomes a target.

    [DEFENCE[:ARGUMENT]+]…KIND:NAME[#OPTION=VALUE&OPTION=VALUE]

for example `dowse:imagenet_resnet18`, `jpeg:75+onnx:net.onnx#threads=2`, `http://127.0.0.1:8080/v2/models/net#rate=50`.
In a URL the options may also stand where they are looked for, after `?`; they are never sent.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qsl, urlencode

from torch import nn

from dowse.core.target import Target, as_target
from dowse.errors import InputError, nearest
from dowse.targets import torch as torch_targets
from dowse.targets.model import OF_THE_PROTOCOL, Model
from dowse.targets.options import HttpOptions, OnnxOptions, TfliteOptions, refuse_password
from dowse.wording import without_password

Weights = str | os.PathLike[str] | None
Resolved = Target | nn.Module

TORCH_KINDS = ("dowse", "torch", "torchvision", "timm", "hf")
KINDS = (*TORCH_KINDS, "python", "onnx", "tflite", "http", "https")
BACKEND = "backend"  # of torch kinds: torch, or auto, which lets a run take onnxruntime where that is faster
PACE = ("rate", "connections", "timeout", "retries", "longest_wait")  # what changes no answer, only when it comes


@dataclass(frozen=True)
class Spec:
    """A spec string taken apart.

    Attributes:
        kind: One of KINDS.
        name: What the kind makes of it: a model's name, `package.module:factory`, a path, a URL.
        defences: Pairs (name, argument), the one that sees an image first before the others.
        options: Options of the kind, by name.
    """

    kind: str
    name: str
    defences: tuple[tuple[str, str | None], ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def served(self) -> bool:
        """Whether a server answers, which may be far away and cost money."""
        return self.kind.startswith("http")

    @property
    def text(self) -> str:
        """The spec as a string again, its options behind #."""
        front = "".join(f"{name}+" if argument is None else f"{name}:{argument}+" for name, argument in self.defences)
        name = self.name if self.served else f"{self.kind}:{self.name}"
        return front + name + (f"#{urlencode(self.options, safe='/:,')}" if self.options else "")


def parse_spec(text: str) -> Spec:
    """Take a spec string apart; what is wrong with it is an InputError."""
    rest, _, fragment = text.strip().partition("#")
    defences: list[tuple[str, str | None]] = []
    while (match := re.match(r"([\w-]+)(?::([^+]*))?\+", rest)) and match[1] not in KINDS:
        defences.append((match[1], match[2]))
        rest = rest[match.end() :]
    kind, colon, name = rest.partition(":")
    if not colon or kind not in KINDS:
        known = f"{', '.join(f'{kind}:' for kind in KINDS[:-2])}, http:// or https://"
        raise InputError(f"{without_password(text)!r} is not a target: a spec starts with {known}{_suggestion(rest)}")
    if not name.strip("/"):
        raise InputError(f"{without_password(text)!r} names nothing after {kind}:")
    options = _options(fragment)
    if kind.startswith("http"):
        url, _, query = name.partition("?")  # the protocol has no query part of its own
        name, options = f"{kind}:{url}", {**_options(query), **options}
        refuse_password(url)
        HttpOptions.of(options)  # what is no option, a secret perhaps, goes no further
    return Spec(kind, name, tuple(defences), options)


def is_torch_spec(name: str) -> bool:
    """Whether what follows `onnx:` is not a file but a torch target to be exported."""
    try:
        return parse_spec(name).kind in TORCH_KINDS
    except InputError:
        return False


def with_options(spec: str, **options: object) -> str:
    """A spec with these options, before those it has; None is no value."""
    parsed = parse_spec(spec)
    given = {name: str(value) for name, value in options.items() if value is not None}
    return replace(parsed, options={**parsed.options, **given}).text if given else spec


def with_rate(specs: Iterable[str], rate: float | None) -> tuple[str, ...]:
    """Specs, those of http targets limited to so many rows a second; an InputError if none of them is one.

    None limits nothing.
    """
    specs = tuple(specs)
    if rate is None:
        return specs
    served = [parse_spec(spec).served for spec in specs]
    if not any(served):
        raise InputError(
            f"a rate is a limit of http targets, {', '.join(map(without_password, specs))} is none: leave it out"
        )
    limited = [with_options(spec, rate=rate) if http else spec for spec, http in zip(specs, served, strict=True)]
    for spec in limited:
        parse_spec(spec)
    return tuple(limited)


def without_pace(spec: str) -> str:
    """A spec without the options that change no answer, so that a run may go on at another rate.

    Which backend runs a torch network is one of them: a store remembers it for each run. What is no spec is left as it
    is.
    """
    if "://" not in spec and BACKEND not in spec:
        return spec
    try:
        parsed = parse_spec(spec)
    except InputError:
        return spec
    pace = PACE if parsed.served else (BACKEND,) if parsed.kind in TORCH_KINDS else ()
    kept = {name: value for name, value in parsed.options.items() if name not in pace}
    return spec if kept == dict(parsed.options) else replace(parsed, options=kept).text


def resolve_target(spec: str | Spec, weights: Weights = None, **options: Any) -> Resolved:
    """The target of a spec: from points (n, C, H, W) in [0, 1] to scores (n, K).

    Args:
        spec: For example "dowse:imagenet_resnet18", "torch:package.module:factory", "torchvision:NAME", "timm:NAME",
            "hf:FOLDER", "python:package.module:function", "onnx:PATH", "tflite:PATH", "http://HOST/v2/models/NAME";
            defences stand in front ("jpeg:75+…"), options behind ("…#a=1").
        weights: A file of weights (.safetensors, or a torch file of a state dict), for the torch kinds.
        options: Options of the kind, before those of the spec; None is no value. docs/targets.md lists them.
    """
    parsed = parse_spec(spec) if isinstance(spec, str) else spec
    chosen = {**parsed.options, **{name: value for name, value in options.items() if value is not None}}
    if weights is not None:
        chosen["weights"] = os.fspath(weights)
    defences = [(_defence(name), argument) for name, argument in parsed.defences]
    target = _behind_defences(parsed, chosen)
    for defend, argument in reversed(defences):
        target = defend(target, argument)
    return target


def resolve_surrogate(spec: str | Spec, weights: Weights = None, **options: Any) -> nn.Module:
    """The white-box module of a spec of a torch kind: from points (n, C, H, W) in [0, 1] to logits (n, K)."""
    return module_of(spec, resolve_target(spec, weights, **options), "a surrogate must give gradients")


def module_of(spec: str | Spec, made: Resolved, needed: str) -> nn.Module:
    """What a spec made, if it is a module of torch; if not, an InputError that begins with why one is needed."""
    if isinstance(made, nn.Module):
        return made
    text = spec if isinstance(spec, str) else spec.text
    raise InputError(
        f"{needed}, and {text!r} is no torch network: use one of {', '.join(f'{k}:' for k in TORCH_KINDS)} "
        "that makes a module, without options that say how it is asked, such as shape= or layout="
    )


def _behind_defences(spec: Spec, options: Mapping[str, Any]) -> Resolved:
    if spec.kind in TORCH_KINDS:
        own = {name: value for name, value in options.items() if name != BACKEND}
        return torch_targets.load(spec.kind, spec.name, own)
    if spec.kind == "python":
        return torch_targets.from_python(spec.name, options)
    if spec.kind == "onnx":
        from dowse.targets.export_cache import exported_file
        from dowse.targets.onnx import OnnxTarget

        chosen = OnnxOptions.of(options)
        file = exported_file(spec.name, chosen.size) if is_torch_spec(spec.name) else spec.name
        return OnnxTarget(file, chosen)
    if spec.kind == "tflite":
        from dowse.targets.tflite import TfliteTarget

        return TfliteTarget(spec.name, TfliteOptions.of(options))
    from dowse.targets.http.target import HttpTarget

    return HttpTarget(spec.name, HttpOptions.of(options))


def _defence(name: str) -> Callable[[Resolved, str | None], Resolved]:
    from dowse.defences import DEFENCES

    if name not in DEFENCES:
        raise InputError(f"no defence is named {name!r}: {nearest(name, DEFENCES)}")
    return DEFENCES[name]


def _options(fragment: str) -> dict[str, str]:
    if not fragment:
        return {}
    try:
        return dict(parse_qsl(fragment, keep_blank_values=True, strict_parsing=True))
    except ValueError:
        raise InputError(f"options, after # or ?, must be OPTION=VALUE&OPTION=VALUE, got {fragment!r}") from None


def _suggestion(text: str) -> str:
    """What may have been meant: a model or a file without its kind, a misspelt kind; empty if that cannot be told."""
    from dowse.models import names

    kind, _, factory = text.partition(":")
    meant = [f"dowse:{name}" for name in names() if kind and kind in (name, name.partition("_")[2])]
    if not meant and kind.endswith((".onnx", ".tflite")):
        meant = [f"{kind.rpartition('.')[2]}:{without_password(kind)}"]
    if not meant:
        meant = get_close_matches(kind, KINDS, n=1)
    if not meant and re.fullmatch(r"[\w.]+:\w+", text):
        meant = [f"torch:{kind}:{factory}"]
    return f"; did you mean {' or '.join(map(repr, meant))}?" if meant else ""


def open_target(given: Any) -> Target:
    """The Target of what a user gives: a spec string, a Target, an nn.Module, any callable, or a model with
    `predict_proba` or `predict`. What it takes and answers with may be of many forms: `dowse.targets.model`."""
    if isinstance(given, str):
        given = resolve_target(given)
    if isinstance(given, Target) or any(hasattr(given, name) for name in OF_THE_PROTOCOL):
        return as_target(given)
    return Model(given)
