"""Options that are declared elsewhere, or once for several commands: a command takes them as one argument."""

import sys
import tomllib
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from dowse.settings import ExperimentSettings, Setting, settings_of
from dowse.wording import without_password

StoreFolder = Annotated[Path, typer.Argument(help="The folder of the store, or a packed file.")]
Labels = Annotated[str, typer.Option(help="auto, target (the target's own), or a CSV file.")]
Weights = Annotated[Path | None, typer.Option(help="Weights: .safetensors, or a torch file.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Torch threads; by default one a core.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be run, and for how long.")]


def command_line() -> list[str]:
    """The command that was given, as it may be kept and shown."""
    return ["dowse", *map(without_password, sys.argv[1:])]


@dataclass(frozen=True)
class OptionGroup:
    """Options that reach a command together.

    Attributes:
        options: Each as typer understands a command's parameter.
        gather: Makes the command's one argument of the values by name.
    """

    options: list[Parameter]
    gather: Callable[..., Any]


def taking(**groups: OptionGroup) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let typer see the options of each group in place of the argument of that name."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options: list[Parameter] = []
        for one in signature(command).parameters.values():
            options += groups[one.name].options if one.name in groups else [one.replace(kind=Parameter.KEYWORD_ONLY)]

        def run(**values: Any) -> None:
            for name, group in groups.items():
                values[name] = group.gather(**{one.name: values.pop(one.name) for one in group.options})
            command(**values)

        run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
        run.__annotations__ = {one.name: one.annotation for one in options}
        run.__signature__ = signature(command).replace(parameters=options)  # type: ignore[attr-defined]
        return run

    return decorate


def group_of(kind: type[Any]) -> OptionGroup:
    """The fields of a dataclass, each Annotated with its typer.Option, as the options that make one."""
    return OptionGroup([_parameter(one.name, one.type, one.default) for one in fields(kind)], kind)


def settings_group(panel: str, kind: Any = ExperimentSettings) -> OptionGroup:
    """The settings of a dataclass as options; the command gets those that have a value, as TOML would say them."""
    settings = settings_of(kind)
    order = sorted(settings, key="surrogate".__ne__)  # which most commands need, comes first
    options = [_option(name, settings[name], panel) for name in order]
    return OptionGroup(options, lambda **values: {name: value for name, value in values.items() if value is not None})


def _option(name: str, setting: Setting, panel: str) -> Parameter:
    """One setting. A word that may be a list in a file takes any value of TOML, so that it may be one here too."""
    more: dict[str, Any] = {"help": setting.help, "rich_help_panel": panel}
    kind, default = setting.kind, setting.default
    if get_origin(kind) is tuple:  # given several times
        kind, default = list[str] | None, None
    elif setting.many or setting.words or setting.spoken is int:
        kind = Any
        shown = _shown(setting.spoken)
        more |= {"parser": partial(_value, shown=shown), "metavar": f"<{shown}>"}
    flag = f"--{name.replace('_', '-')}"
    return _parameter(name, Annotated[kind, typer.Option(flag, **more)], default)


def _shown(kind: Any) -> str:
    """A type as --help shows it: a Literal's words; of several forms the plainest, which comes first."""
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    if kind is bool:
        return "true|false"
    plainest: type[Any] = next(iter(get_args(kind)), kind)
    return plainest.__name__


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    """An option; it has to be given where its default is MISSING."""
    default = Parameter.empty if default is MISSING else default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def whole(text: str) -> int:
    """A whole number of at least 1, 1e4 among them."""
    value = literal(text)
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise typer.BadParameter(f"{text!r} is no whole number of at least 1")
    return value


def _value(text: Any, shown: str) -> Any:
    """As `literal`; an option where the value of another, shown as its type or words, is missing is refused."""
    if isinstance(text, str) and text.startswith("--"):
        raise typer.BadParameter(f"it needs a value, <{shown}>, and {text} is the next option")
    return literal(text)


def literal(text: Any) -> Any:
    """A value as TOML would write it; anything else, such as a default, is what it is."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
