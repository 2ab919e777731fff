"""What an engine is, what a run gives it to do, and the engine that works in this process."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from torch import Tensor

from dowse.core.target import Shape
from dowse.core.task import Task
from dowse.running.instructions import Instructions
from dowse.running.networks import Networks
from dowse.running.worker import attack_tasks
from dowse.store.events import Event
from dowse.targets.fast import Choice, choose_backend

Tell = Callable[[str], None]


def tell_by_warning(text: str) -> None:
    """Tell by a warning."""
    warnings.warn(text, stacklevel=2)


class Work(Protocol):
    """The tasks of one run, and where what becomes of them goes. It belongs to the runner's process and thread."""

    def take(self) -> Task | None:
        """The next task, with all that is known of it, claimed for this process; None if there is none now."""

    def give_back(self, indices: Collection[int]) -> None:
        """Tasks that were taken and did not end are free again; whoever takes them goes on from what is committed."""

    def waiting(self, most: int) -> int:
        """How many tasks there are to take, counted up to `most`."""

    def commit(self, events: Sequence[Event]) -> None:
        """Commit events, all of them together; no events ask whether to go on. Raises what ends the run.

        With a Reserved among them it raises only if they could not be committed, see `store.events.Commit`.
        """


class Engine(Protocol):
    """Attacks the tasks of a run, here or elsewhere."""

    def run(self, told: Instructions, work: Work) -> None:
        """Take tasks as slots become free, and commit what happens.

        A task's NewAnswer events must be committed before its next question is asked. Returns when every task that it
        took has ended; once `commit` has raised it takes no more, commits the rounds in flight, and raises that.
        """

    def input_shape(self, spec: str) -> Shape | None:
        """(C, H, W) of the images that a target takes; None if it does not say, or takes any."""

    def choose_backend(self, spec: str, images: Tensor, rows: int) -> Choice:
        """What is to run a target that `may_be_fast`, see `targets.fast`; it is opened for that and let go."""
        return choose_backend(spec, images, rows)

    def close(self) -> None:
        """Let go of whatever it holds."""


class LocalEngine(Engine):
    """Attacks in this process.

    Args:
        live: Targets and surrogates that are objects here, by the words that stand for them in a run's spec.
    """

    def __init__(self, live: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.networks = Networks(live)

    def run(self, told: Instructions, work: Work) -> None:
        attack_tasks(told, iter(work.take, None), work.commit, self.networks)

    def input_shape(self, spec: str) -> Shape | None:
        """As Engine.input_shape; what must be opened for it stays open for the attacks."""
        return self.networks.input_shape(spec)

    def choose_backend(self, spec: str, images: Tensor, rows: int) -> Choice:
        """As Engine.choose_backend; what is chosen stays open for the attacks."""
        return self.networks.choose_backend(spec, images, rows)

    def close(self) -> None:
        """Let go of the networks."""
        self.networks.close()
