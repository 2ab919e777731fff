"""The engine that attacks in the runner's own process."""

from dowse.running.engines.base import Work
from dowse.running.worker import Instructions, Networks, attack_tasks


class LocalEngine:
    """Attacks in this process."""

    def __init__(self) -> None:
        self.networks = Networks()

    def run(self, told: Instructions, work: Work) -> None:
        """As Engine.run."""
        attack_tasks(told, iter(work.take, None), work.commit, self.networks)

    def close(self) -> None:
        """Let go of the networks."""
        self.networks.close()
