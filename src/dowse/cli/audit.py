"""`dowse audit`: how many queries a model withstands, in one command: a sentence, a page, and a gate for CI."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dowse.cli.execute import execute
from dowse.cli.failing import FAILED, computing
from dowse.cli.manner import Manner
from dowse.cli.options import DryRun, OptionGroup, command_line, group_of, settings_group, taking, whole
from dowse.cli.pictures import Pictures

if TYPE_CHECKING:
    from dowse.audit.looking import FirstLook
    from dowse.audit.result import Audit
    from dowse.experiment.spec import PlannedRun
    from dowse.experiment.tables import Experiment
    from dowse.running.run_under_way import Finished

NOT_MET = 3
OWN = ("norm", "budget", "surrogate", "step", "loss", "targeted")  # settings that an audit says otherwise, or never


def _without(group: OptionGroup, *names: str) -> OptionGroup:
    return OptionGroup([one for one in group.options if one.name not in names], group.gather)


@taking(
    pictures=group_of(Pictures),
    settings=_without(settings_group("Settings, the same words as in an experiment"), *OWN),
    manner=_without(group_of(Manner), "json"),
)
def audit(
    target: Annotated[str, typer.Option(help="What is audited, for example torch:package.module:factory.")],
    pictures: Pictures,
    settings: dict[str, Any],
    manner: Manner,
    surrogate: Annotated[
        list[str] | None,
        typer.Option(help="A network for the same classes; auto takes built-in ones that fit, none does without."),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            parser=whole,
            metavar="INTEGER",
            help="The most queries an attack may spend on a picture; 1,000 if left out.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Stop after so long; the budget grows in rounds: 10, 100, 1,000, 10,000."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(help='A floor, such as "half >= 100" or "accuracy@1000 >= 0.3"; status 3 if it is not met.'),
    ] = None,
    norm: Annotated[list[str] | None, typer.Option(help="l2, linf; both if left out.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Other attacks than dowse, square and, with a surrogate, transfer and prgf."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the model is called on the page.")] = None,
    html: Annotated[Path | None, typer.Option(help="The page; OUT/audit.html if left out.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write every number as JSON, too.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the gate as JUnit, too, for a build server.")] = None,
    dry_run: DryRun = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Go on though the first look finds something wrong.")
    ] = False,
) -> None:
    """Say how many queries a model withstands: a first look, a portfolio of attacks in l2 and l∞, and one page that
    begins with the sentence you need. The same command goes on where it was stopped; nothing is paid for twice.

    Ends with 3 if a requirement is not met. A spec can run code, that of the factory it names: read one that is not
    your own first.
    """
    with computing():
        from dowse.audit.portfolio import BUDGET, NORMS, ROUNDS, audit_experiment, radii, rounds_of
        from dowse.audit.requirements import check_requirements, parse_requirement
        from dowse.audit.result import audit_of, unaudited
        from dowse.report.data.names import short_target

        requirements = [parse_requirement(text) for text in require or ()]
        budget = budget or (BUDGET if minutes is None else ROUNDS[-1])
        norms = norm or list(NORMS)
        check_requirements(requirements, budget, norms)
        if "eps" in settings:
            settings["eps"] = radii(settings["eps"], norms)
        model = pictures.target(target)

        def experiment_with(surrogates: Sequence[str], class_offset: int) -> "Experiment":
            words = {**settings, "norm": norms, "budget": budget}
            if class_offset:
                words["class_offset"] = class_offset
            of = audit_experiment(model, pictures.table, surrogates=surrogates, methods=method or (), **words)
            return of.changed(target_name=name)

        found = _look(experiment_with((), 0), manner, surrogate or (), asks=not dry_run, anyway=anyway)
        chosen = found.surrogates
        experiment = experiment_with(chosen.specs, chosen.class_offset)

        def say(text: str) -> None:
            if not manner.quiet:
                typer.echo(text)

        say(chosen.said)
        if dry_run:
            from dowse.cli.dryrun import show_plan

            show_plan(experiment.changed(rate=manner.rate), manner.out, as_json=False)
            return
        _tell(found, say)
        if found.stops and not anyway:
            if junit is not None:
                unaudited(name or short_target(target), found, manner.out).junit(junit)
            typer.echo("error: something is wrong with the target: mend it, or go on with --anyway", err=True)
            raise typer.Exit(FAILED)
        say(_estimate(experiment, found))
        rounds = rounds_of(experiment) if minutes is not None else []
        finished = execute(experiment, manner, rounds=rounds, seconds=None if minutes is None else 60 * minutes)
        plans = _plans(finished, [*rounds, experiment][0])
        done = audit_of(manner.out, plans, found, requirements, command_line())
        _write(done, html or manner.out / "audit.html", json, junit)
        say(f"\n{done}")
        for verdict in done.verdicts:
            say(str(verdict))
        say(f"page: {html or manner.out / 'audit.html'}")
        if not done.met:
            failed = sum(one.met is not True for one in done.verdicts)
            typer.echo(f"error: {failed} of {len(done.verdicts)} requirements are not met", err=True)
            raise typer.Exit(NOT_MET)


def _look(
    experiment: "Experiment", manner: Manner, surrogates: Sequence[str], *, asks: bool, anyway: bool
) -> "FirstLook":
    """The first look at the target; the one that was kept, if it was of the same and does not stop the audit.

    A dry run, which asks nothing, does without where the target is not on this machine.
    """
    import torch

    from dowse.audit.looking import PICTURES, FirstLook, keep, kept_look, look
    from dowse.audit.surrogates import AUTO, NONE, Surrogates, given_surrogates
    from dowse.images.class_names import names_in_set, names_of, with_names
    from dowse.images.image_set import in_channels
    from dowse.images.sources import open_images
    from dowse.targets import input_shape, open_target, parse_spec, with_rate
    from dowse.targets.weights_digest import weights_digest
    from dowse.wording import without_password

    (spec,) = (one.spec for one in experiment.target)
    table = experiment.images
    names = names_of(spec)
    source = with_names(open_images(table.path, table.labels), names)
    about = {"target": without_password(spec), "images": source.fingerprint, "outputs": experiment.said("outputs")}
    about["outputs"] = about["outputs"][0] if about["outputs"] else "logits"
    if source.labels_from:
        about["labels"] = source.labels_from
    if (digest := weights_digest(spec)) is not None:
        about["weights"] = digest
    if (known := kept_look(manner.out, about, surrogates)) is not None and (anyway or not known.stops):
        return known
    if not asks and parse_spec(spec).served:
        named = [one for one in surrogates if one not in (AUTO, NONE)]
        said = Surrogates(said="Surrogate: chosen after a first look at the target; this plan is without one.")
        return FirstLook(about, {"findings": []}, given_surrogates(named) if named else said, None)
    (limited,) = with_rate([spec], manner.rate)
    device = "cpu" if manner.engine == "ray" else manner.device
    opened = open_target(limited).to(device, torch.float32)
    try:
        side, channels = table.fitting(input_shape(limited))
        pictures = in_channels(source, channels).load(PICTURES, side)
        given = [entry.label for entry in pictures.entries]
        found = look(opened, pictures.images.to(device), given, surrogates, about, names or names_in_set(table.path))
    finally:
        opened.close()
    if asks:
        keep(manner.out, found)
    return found


def _tell(found: "FirstLook", say: Callable[[str], None]) -> None:
    """Say what the first look found."""
    for finding in (*found.notes, *found.wrong):
        say(f"first look, {finding['check']}: {finding['found']}; {finding['remedy']}")


def _estimate(experiment: "Experiment", found: "FirstLook") -> str:
    """The most that an audit can cost, and how long that takes the target."""
    from dowse.experiment.grid import expand
    from dowse.images.sources import open_images
    from dowse.wording import duration, plural

    runs = len(expand(experiment, lambda target: ""))
    pictures = min(
        experiment.images.count or sys.maxsize, len(open_images(experiment.images.path, experiment.images.labels))
    )
    queries = runs * pictures * experiment.said("budget")
    time = "" if not found.rate else f", {duration(queries / found.rate)} of the target's time"
    said = f"{plural(pictures, 'picture')}, {plural(runs, 'run')}: at most {queries:,} queries{time}"
    return f"{said}; a picture costs no more once it has fallen"


def _plans(finished: "Sequence[Finished]", first: "Experiment") -> "list[PlannedRun]":
    """The runs that the page is about: those that were run to their end, else those of the first round, begun."""
    from dowse.experiment.grid import plans_of
    from dowse.images.sources import open_images

    if finished:
        return [one.plan for one in finished]
    return plans_of(first, open_images(first.images.path, first.images.labels))


def _write(done: "Audit", html: Path, json: Path | None, junit: Path | None) -> None:
    done.html(html)
    if json is not None:
        done.json(json)
    if junit is not None:
        done.junit(junit)
