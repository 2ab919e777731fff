"""The engine that attacks in the runner's own process."""

from dowse.running.engines.base import Work
from dowse.running.instructions import Instructions
from dowse.running.networks import Networks
from dowse.running.worker import attack_tasks


class LocalEngine:
    """Attacks in this process."""

    def __init__(self) -> None:
        self.networks = Networks()

    def run(self, told: Instructions, work: Work) -> None:
        """As Engine.run."""
        attack_tasks(told, iter(work.take, None), work.commit, self.networks)

    def input_size(self, spec: str) -> int | None:
        """As Engine.input_size; what must be opened for it stays open for the attacks."""
        return self.networks.input_size(spec)

    def close(self) -> None:
        """Let go of the networks."""
        self.networks.close()
