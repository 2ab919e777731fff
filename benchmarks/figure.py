"""A measured figure and its goal: one line each, `name: value (goal …)`."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Figure:
    """A ratio or a number with a goal; `samples` are its repeats and `value` their median."""

    name: str
    samples: Sequence[float]
    sense: Literal["at most", "at least"]
    goal: float
    remark: str = ""

    @property
    def value(self) -> float:
        return statistics.median(self.samples)

    @property
    def met(self) -> bool:
        return self.value <= self.goal if self.sense == "at most" else self.value >= self.goal

    def __str__(self) -> str:
        spread = f"{min(self.samples):.3g} to {max(self.samples):.3g} in {len(self.samples)} repeats"
        verdict = "" if self.met else "   MISSED"
        remark = f", {self.remark}" if self.remark else ""
        return f"{self.name}: {self.value:.3f} (goal {self.sense} {self.goal:g}; {spread}{remark}){verdict}"


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of one call, of all threads: what another load on the machine changes little."""
    start = time.process_time()
    work()
    return time.process_time() - start
