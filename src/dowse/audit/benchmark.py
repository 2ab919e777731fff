"""`dowse.benchmark`: the audit of a model that is at hand, on images that are at hand."""

import hashlib
import secrets
import shutil
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from torch import Tensor, nn

from dowse.audit.looking import PICTURES, look
from dowse.audit.portfolio import BUDGET, NORMS, ROUNDS, audit_experiment, radii, rounds_of
from dowse.audit.requirements import check_requirements, parse_requirement
from dowse.audit.result import Audit, audit_of
from dowse.audit.surrogates import AUTO, NONE
from dowse.core.inputs import Labels, as_labels, check_pixels
from dowse.errors import TargetFailedError, count, positive_or_none
from dowse.experiment.grid import expand
from dowse.experiment.spec import PlannedRun
from dowse.images.class_names import names_of
from dowse.images.image_set import Entry, ImageSource
from dowse.running.engines import LocalEngine
from dowse.running.interrupt import Interrupt
from dowse.running.progress import Lines, Reporter
from dowse.running.run_experiment import run_plans
from dowse.running.run_under_way import Finished
from dowse.settings import Norm, Outputs
from dowse.store.events import Stopped
from dowse.surrogates.surrogate import Surrogate, SurrogateLike
from dowse.targets import open_target
from dowse.targets.hf import names_in
from dowse.targets.model import ModelLike
from dowse.targets.weights_digest import module_digest, weights_digest
from dowse.wording import without_password


def benchmark(
    target: ModelLike | str,
    x: Tensor,
    y: Labels | None = None,
    *,
    surrogate: SurrogateLike | Sequence[SurrogateLike] | None = AUTO,
    norms: Norm | Sequence[Norm] = NORMS,
    eps: float | Mapping[str, float] | None = None,
    budget: int | None = None,
    minutes: float | None = None,
    methods: str | Sequence[str] = (),
    require: str | Sequence[str] = (),
    seed: int = 0,
    outputs: Outputs = "logits",
    name: str | None = None,
    out: str | Path | None = None,
    concurrency: int | None = None,
    batch_size: int | None = None,
    verbose: bool = False,
) -> Audit:
    """Audit a model: how many queries the strongest attack of a portfolio needs on each image.

    The attacks are `dowse` and `square`, with a surrogate `transfer` and `prgf` too, in l2 and l∞ (docs/audit.md).

    Args:
        target: As in `attack`: an nn.Module in eval mode, any callable, or a spec string.
        x: The images, (N, C, H, W) in [0, 1], float32 or float64.
        y: Their labels, (N,); None takes the target's own.
        surrogate: As in `attack`; "auto" takes built-in networks whose classes fit, None does without.
        norms: In which norms, or in which one.
        eps: The ball's radius, or one by norm, {"l2": 3.0, "linf": 8 / 255}; None, or a norm left out, is the paper's.
        budget: The most queries an attack may spend on an image; 1,000 if nothing is said.
        minutes: Stop after so long; the budget then grows in rounds, 10, 100, 1,000, 10,000, on all images.
        methods: Other attacks than the portfolio's.
        require: Floors such as "half >= 100" or "accuracy@1000 >= 0.3"; `met` and `verdicts` say what becomes of them.
        seed: As in `attack`.
        outputs: As in `attack`.
        name: What the model is called; its class or spec if left out.
        out: A folder for rows and images, with which the same call goes on; None keeps them as long as the result.
        concurrency: As in `attack`.
        batch_size: As in `attack`.
        verbose: Tell on standard error how far it is.

    Returns:
        An Audit: `clean_accuracy`, `robust_accuracy(queries)`, `queries(share)`, `sentences`, `html()`, `json()`.

    Raises:
        InputError: What was passed cannot be used; no query was spent.
        TargetFailedError: The target failed on images.
    """
    check_pixels(x, rank=4)
    positive_or_none(minutes=minutes)
    norms, methods, require = _several(norms), _several(methods), _several(require)
    requirements = [parse_requirement(text) for text in require]
    if budget is None:
        budget = BUDGET if minutes is None else ROUNDS[-1]
    count(budget=budget)
    check_requirements(requirements, budget, norms)
    live, specs = _named(surrogate)
    spec = target if isinstance(target, str) else f"object:{_name(target)}"
    live |= {} if isinstance(target, str) else {spec: target}
    images = _source(x, as_labels("y", y, len(x)))
    folder = Path(mkdtemp(prefix="dowse-audit-") if out is None else out)
    with closing(LocalEngine(live)) as engine:
        known = [entry.label for entry in images.entries[:PICTURES]]
        about = {"target": without_password(spec), "images": images.fingerprint, "outputs": outputs}
        dtype = torch.float64 if x.element_size() == 8 else torch.float32
        opened = open_target(target)
        if isinstance(target, str):
            opened = opened.to(x.device, dtype)
        taken = x[:PICTURES].to(dtype if opened.kind is None else opened.kind.dtype)
        found = look(opened, taken, known, specs, about, _class_names(target))
        experiment = audit_experiment(
            {"spec": spec, "name": name or _name(target)}, {"path": "memory"}, surrogates=found.surrogates.specs,
            methods=methods, source="dowse.benchmark", norm=norms, budget=budget, seed=seed, outputs=outputs,
            class_offset=found.surrogates.class_offset,
            dtype="float64" if dtype is torch.float64 else "float32",
            **({} if eps is None else {"eps": radii(eps, norms)}),
            **({} if concurrency is None else {"concurrency": concurrency}),
            **({} if batch_size is None else {"batch_size": batch_size}),
        )  # fmt: skip
        digests = {word: _digest(thing) for word, thing in live.items()}
        stages = [
            expand(stage, lambda _: images.fingerprint, lambda word: digests.get(word) or weights_digest(word))
            for stage in (*(rounds_of(experiment) if minutes is not None else ()), experiment)
        ]
        report = Lines(sys.stderr) if verbose else Reporter()

        def run(plans: Sequence[PlannedRun], interrupt: Interrupt) -> list[Finished]:
            return run_plans(
                plans, images, experiment.images, folder, engine, report=report, device=str(x.device),
                interrupt=interrupt,
            )  # fmt: skip

        plans = _rounds(stages, minutes, run)
    audit = audit_of(folder, plans, found, requirements)
    if out is None:
        weakref.finalize(audit, shutil.rmtree, folder, ignore_errors=True)
    return audit


def _rounds(stages: Sequence[list[PlannedRun]], minutes: float | None, run: Any) -> list[PlannedRun]:
    """Run stage after stage until time is over; the plans of the last that was done, or of the first that was not."""
    interrupt, done = Interrupt(), stages[0]
    with interrupt.after(None if minutes is None else 60 * minutes):
        for plans in stages:
            try:
                finished: list[Finished] = run(plans, interrupt)
            except Stopped:
                break
            done = plans
            if trouble := [one.trouble for one in finished if one.trouble is not None]:
                raise TargetFailedError(trouble[0])
    return done


def _several(words: Any) -> list[Any]:
    """Words as a list; one that stands alone is a list of one."""
    return [words] if isinstance(words, str) else list(words)


def _named(
    surrogate: SurrogateLike | Sequence[SurrogateLike] | None,
) -> tuple[dict[str, Any], list[str]]:
    """Surrogates that are objects, by the words that stand for them; and the words of all."""
    if surrogate is None:
        return {}, [NONE]
    given: list[Any] = [*surrogate] if isinstance(surrogate, list | tuple) else [surrogate]
    words = [one if isinstance(one, str) else f"object:surrogate{i}:{_name(one)}" for i, one in enumerate(given)]
    return {word: one for word, one in zip(words, given, strict=True) if not isinstance(one, str)}, words


def _name(thing: Any) -> str:
    """What an object is called: its own name, else its class's; a spec is its own name."""
    if isinstance(thing, Surrogate):
        return _name(thing.net)
    return thing if isinstance(thing, str) else str(getattr(thing, "__name__", type(thing).__name__))


def _class_names(target: ModelLike | str) -> Sequence[str]:
    """What a model calls its classes: by its spec, or by the id2label of its configuration, as transformers has it."""
    if isinstance(target, str):
        return names_of(target)
    config = getattr(target, "config", None)
    return names_in(config) if isinstance(getattr(config, "id2label", None), Mapping) else ()


def _source(x: Tensor, labels: Sequence[int | None]) -> ImageSource:
    """Images at hand, (N, C, H, W), as an image set."""
    digest = hashlib.blake2b(x.detach().cpu().contiguous().numpy().tobytes(), digest_size=8)
    digest.update(repr(labels).encode())
    entries = [Entry(str(i), label) for i, label in enumerate(labels)]
    return ImageSource(entries, digest.hexdigest(), lambda i, size: x[i])


def _digest(thing: Any) -> str:
    """What tells a model from another: its weights; for what shows none, a word that never comes again."""
    net = thing.net if isinstance(thing, Surrogate) else thing
    return module_digest(net) if isinstance(net, nn.Module) else secrets.token_hex(8)
