"""Targets of this process by name: networks built in, of torchvision or timm, and what a user's own code makes."""

import ast
import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from dowse import models
from dowse.errors import InputError, in_words, nearest
from dowse.machine import cpu
from dowse.machine.importing import imported
from dowse.models.layers import Normalize
from dowse.models.weights import read
from dowse.targets.model import Model
from dowse.targets.options import ModelOptions

ABOUT_MODELS = frozenset(one.name for one in fields(ModelOptions))
RESCALING = ("googlenet", "inception_v3")  # their weights expect an input that torchvision rescales only if told to


def load(kind: str, name: str, options: Mapping[str, Any]) -> nn.Module | Model:
    """The module of a spec `kind:name`, frozen and in eval mode: points (n, C, H, W) in [0, 1] -> logits (n, K).

    A Model where a factory of a user's own makes something else, or options say what it takes.
    """
    options = dict(options)
    weights = options.pop("weights", None)
    if kind == "torch":
        return _from_factory(name, weights, options)
    if kind == "hf":
        return _from_folder(name, weights, options)
    if options:
        raise InputError(f"{kind}: takes the option weights, got {', '.join(sorted(options))}")
    if kind == "dowse":
        return models.load(name, weights)
    return {"torchvision": _from_torchvision, "timm": _from_timm}[kind](name, weights)


def _from_factory(name: str, weights: str | None, options: Mapping[str, Any]) -> nn.Module | Model:
    """What `package.module:factory` makes: a function that returns a module is called, a module is taken as it is.

    Options that say what a model takes are about what is made, unless the factory has a parameter of that name.
    """
    module_name, _, attribute = name.partition(":")
    if not attribute:
        raise InputError(f"torch:{name} names no factory: write torch:package.module:factory")
    made = factory = imported(module_name, attribute)
    if isinstance(factory, nn.Module):
        own, about = {}, dict(options)
        if unknown := sorted(set(options) - ABOUT_MODELS):
            raise InputError(f"torch:{name} is a module already and takes no options, got {', '.join(unknown)}")
    else:
        if not callable(factory):
            raise InputError(
                f"torch:{name} must be a module or a function that makes one, got {type(factory).__name__}"
            )
        theirs = _parameters(factory)
        about = {key: value for key, value in options.items() if key in ABOUT_MODELS and not theirs(key)}
        own = {key: _literal(value) for key, value in options.items() if key not in about}
        made = _made(name, factory, own)
    if isinstance(made, nn.Module):
        made = _finished(made, weights, name)
        return Model.of(made, about) if about else made
    if weights is not None:
        raise InputError(f"torch:{name} makes a {type(made).__name__}, which takes no weights: leave them out")
    return Model.of(made, about)


def _parameters(factory: Callable[..., Any]) -> Callable[[str], bool]:
    """Tells whether a factory takes a keyword of a name."""
    try:
        parameters = signature(factory).parameters
    except (TypeError, ValueError):
        return lambda name: False
    anything = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return lambda name: anything or name in parameters


def _made(name: str, factory: Callable[..., Any], options: Mapping[str, Any], kind: str = "torch") -> Any:
    """What a factory makes with these options; that it cannot, or fails, is an InputError with its cause."""
    try:
        signature(factory).bind(**options)
    except TypeError as error:
        given = ", ".join(f"{key}={value!r}" for key, value in options.items()) or "no option"
        raise InputError(
            f"{kind}:{name} takes {signature(factory)}, got {given}: {error}. Options stand behind it: "
            f"{kind}:{name}#OPTION=VALUE&OPTION=VALUE"
        ) from error
    except ValueError:  # some functions that are not written in Python do not say what they take
        pass
    try:
        return factory(**options)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{kind}:{name} failed to make a network: {in_words(error)}") from error


def from_python(name: str, options: Mapping[str, Any]) -> Model:
    """The model `package.module:name` of a user's own: a function of images, any object that is a model, or a function
    of no arguments that makes one."""
    module_name, _, attribute = name.partition(":")
    if not attribute:
        raise InputError(f"python:{name} names no function: write python:package.module:function")
    found = imported(module_name, attribute)
    if callable(found) and not isinstance(found, nn.Module) and _needs_nothing(found):
        found = _made(name, found, {}, kind="python")
    if isinstance(found, nn.Module):
        found = _finished(found, None, name)
    return Model.of(found, options)


def _needs_nothing(function: Callable[..., Any]) -> bool:
    """Whether a function takes no argument by position, so that it cannot be a model but may make one."""
    try:
        signature(function).bind(None)
    except TypeError:
        return True
    except ValueError:
        return False
    return isinstance(function, type)


def _from_torchvision(name: str, weights: str | None) -> nn.Module:
    """A model with its default weights, with others of torchvision's by name (IMAGENET1K_V1), or with a file's."""
    zoo = _import_optional("torchvision.models", "torchvision")
    _check_listed("torchvision", name, zoo.list_models())
    known = zoo.get_model_weights(name)
    theirs = "DEFAULT" if weights is None else weights if weights in known.__members__ else None
    transforms = known[theirs or "DEFAULT"].transforms()
    if theirs is not None:
        net = _finished(zoo.get_model(name, weights=theirs), None, name)
    elif not Path(str(weights)).is_file():
        found = nearest(str(weights), known.__members__)
        raise InputError(f"torchvision has no weights {weights!r} of {name}, nor is there such a file: {found}")
    else:
        rescales = {"transform_input": True} if name in RESCALING else {}
        net = _finished(zoo.get_model(name, weights=None, **rescales), weights, name)
    return _normalized(net, transforms.mean, transforms.std)


def _from_timm(name: str, weights: str | None) -> nn.Module:
    timm = _import_optional("timm", "timm")
    _check_listed("timm", name.partition(".")[0], timm.list_models())
    made = timm.create_model(name, pretrained=weights is None)
    return _normalized(_finished(made, weights, name), made.pretrained_cfg["mean"], made.pretrained_cfg["std"])


def _from_folder(name: str, weights: str | None, options: Mapping[str, Any]) -> nn.Module:
    """A classifier of transformers, whose weights lie beside its configuration."""
    if given := sorted({*options, *(() if weights is None else ("weights",))}):
        raise InputError(f"hf: takes no options, got {', '.join(given)}: all it needs is in the folder")
    from dowse.targets import hf

    return _finished(hf.load(name), None, name)


def _normalized(net: nn.Module, mean: Iterable[float], std: Iterable[float]) -> nn.Module:
    return nn.Sequential(Normalize(tuple(mean), tuple(std)), net).eval()


def _finished(net: nn.Module, weights: str | None, name: str) -> nn.Module:
    """The module with its weights, frozen, in eval mode and laid out for a CPU."""
    if weights is not None:
        try:
            net.load_state_dict(read(Path(weights)))
        except RuntimeError as error:
            raise InputError(f"{weights} does not fit {name!r}: {error}") from error
    return cpu.channels_last(net.eval().requires_grad_(False))


def _import_optional(name: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise InputError(
            f"{package} cannot be imported here ({in_words(error)}): install a build of it that fits "
            f"your torch, or use dowse:NAME ({', '.join(models.names()[:3])}, …) or torch:package.module:factory"
        ) from error


def _check_listed(kind: str, name: str, known: Iterable[str]) -> None:
    known = tuple(known)
    if name not in known:
        raise InputError(f"{kind} has no model {name!r}: {nearest(name, known)}")


def _literal(value: Any) -> Any:
    """An option's text as the Python value it spells, else as text."""
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
