"""What runs the targets of an experiment: what the store remembers, else what was measured, once for each target."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from dowse.errors import InputError
from dowse.experiment.spec import PlannedRun
from dowse.images.image_set import UNREADABLE, ImageSource, Size
from dowse.running.engines import Engine
from dowse.store import StoreWriter
from dowse.store.reader import RunInfo
from dowse.targets.fast import COMPARED, ONNXRUNTIME, Choice, may_be_fast


class Backends:
    """Chooses for each run (docs/decisions/0011).

    A run that a store knows goes on with what it was begun with, torch where nothing is recorded.

    Args:
        plans: All runs of the experiment.
        images: How many images there are.
        store: Where they will be kept; no run of the experiment has begun in this process.
        engine: Where the attacks will take place.
        device: Where torch networks live.
        tell: Is told in a line what was chosen, once for each target.
    """

    def __init__(
        self,
        plans: Sequence[PlannedRun],
        images: int,
        store: StoreWriter,
        engine: Engine,
        device: str,
        tell: Callable[[str], None],
    ) -> None:
        self.store, self.engine, self.device, self.tell = store, engine, device, tell
        self.begun = {run.id: run for run in store.runs()}
        self._rows: Counter[str] = Counter()
        self._chosen: dict[tuple[str, Size], Choice] = {}
        for plan in plans:
            if plan.spec.id not in self.begun:
                asked = images if plan.count is None else min(plan.count, images)
                self._rows[plan.spec.target] += asked * plan.budget

    def settled(self, plan: PlannedRun, images: ImageSource, size: Size) -> PlannedRun:
        """The plan with its backend, chosen by the first images at their size."""
        if plan.spec.id in self.begun:
            return _as_begun(plan, self.begun[plan.spec.id])
        if not self._may_choose(plan):
            return plan
        key = plan.spec.target, size
        if key not in self._chosen:
            self._chosen[key] = self._choose(plan, images, size)
        choice = self._chosen[key]
        return replace(
            plan, backend=choice.backend, rows_per_pass=choice.rows if plan.spec.batch_size is None else None
        )

    def agreed(self, plan: PlannedRun, images: ImageSource, source: str) -> PlannedRun:
        """The plan as the store has it: of several processes that begin a run at once, who enters it first decides."""
        if plan.spec.id in self.begun:
            return plan
        self.store.begin(plan, source, images.entries)
        entered = self.store.known(plan.spec.id)
        assert entered is not None
        self.begun[entered.id] = entered
        if entered.backend != plan.backend:
            self.tell(f"another process has begun {plan.title} with {entered.backend or 'torch'}: so it goes on")
        return _as_begun(plan, entered)

    def _may_choose(self, plan: PlannedRun) -> bool:
        """Whether the target is a network on a CPU in single precision that gives scores only."""
        spec = plan.spec
        if self.device != "cpu" or spec.dtype != "float32" or spec.attack.whitebox:
            return False
        try:
            return may_be_fast(spec.target)
        except InputError:  # no spec, but words for what is there already; or one that the run refuses better
            return False

    def _choose(self, plan: PlannedRun, images: ImageSource, size: Size) -> Choice:
        first = []
        for index in range(min(COMPARED, len(images))):
            try:
                first.append(images.read(index, size).to(torch.float32))
            except UNREADABLE:
                continue
        if not first or any(x.shape != first[0].shape for x in first):
            return Choice()
        choice = self.engine.choose_backend(plan.spec.target, torch.stack(first), self._rows[plan.spec.target])
        if choice.words is not None:
            self.tell(choice.words)
        return choice


def _as_begun(plan: PlannedRun, begun: RunInfo) -> PlannedRun:
    return replace(plan, backend=begun.backend, rows_per_pass=begun.rows_per_pass)


def backend_of(plan: PlannedRun) -> str | None:
    """What workers are told: ONNXRUNTIME, or None for a target that is opened as its spec says."""
    return ONNXRUNTIME if plan.backend == ONNXRUNTIME else None
