"""`dowse attack`: one method on one target, the shortcut of `dowse run` with the same words."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from dowse.cli.completion import method_names
from dowse.cli.execute import execute
from dowse.cli.failing import computing
from dowse.cli.manner import Manner
from dowse.cli.options import group_of, literal, settings_group, taking
from dowse.cli.pictures import Pictures

EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}  # a method's own options, such as --q 20


@taking(
    pictures=group_of(Pictures),
    settings=settings_group("Settings, the same words as in an experiment"),
    manner=group_of(Manner),
)
def attack(
    context: typer.Context,
    target: Annotated[str, typer.Option(help="What is attacked, for example dowse:cifar10_resnet20.")],
    pictures: Pictures,
    settings: dict[str, Any],
    manner: Manner,
    name: Annotated[str | None, typer.Option(help="What the target is called in tables and in the report.")] = None,
    method: Annotated[
        str,
        typer.Option(help="`dowse methods` lists them; your own is package.module:Class.", autocompletion=method_names),
    ] = "dowse",
    defence: Annotated[str, typer.Option(help="In front of the target, for example jpeg:75 or blacklight.")] = "none",
) -> None:
    """Attack images with one method. Its own options, which `dowse methods NAME` explains, can follow: --q 20,
    --lam 0.05, --subspace 50. A list runs one after the other: --lam "[0.5, 0.05]".

    A spec can run code, that of the factory it names: read one that is not your own first.
    """
    with computing():
        from dowse.experiment.file import make_experiment

        own = extra_words(context.args)
        _refuse_unknown(own, method, [one for known in context.command.params for one in known.opts])

        if "surrogate" in settings:
            settings["surrogate"] = [settings["surrogate"]]  # those of one command work together
        tables: dict[str, Any] = {
            "name": method, "target": pictures.target(target), "defence": defence, "images": pictures.table,
            "method": {"name": method, **own}, **settings,
        }  # fmt: skip
        execute(make_experiment(tables, source="dowse attack").changed(target_name=name), manner)


def _refuse_unknown(words: Iterable[str], method: str, options: list[str]) -> None:
    """Raise InputError for a word that is no option of the method's; one of the command's may have been meant."""
    from dowse.errors import InputError, nearest
    from dowse.experiment.tables import MethodTable

    known = MethodTable.known(method)
    for word in words:
        if word not in known:
            also = [option.lstrip("-").replace("-", "_") for option in options]
            raise InputError(f"{method} has no option {word!r}: {nearest(word, known, also)}")


def extra_words(arguments: list[str]) -> dict[str, Any]:
    """The words after the known options: --q 20 --lam=0.05 -> {"q": 20, "lam": 0.05}."""
    from dowse.errors import InputError

    words: dict[str, Any] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if not name.startswith("--"):
            raise InputError(f"got {argument!r} where an option was expected: write --{argument} VALUE")
        if not equals:
            given = next(rest, None)
            if given is None:
                raise InputError(f"{name} needs a value")
            value = given
        words[name[2:].replace("-", "_")] = literal(value)
    return words
