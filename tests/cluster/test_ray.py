"""The engine `ray` on a real Ray of this machine: the local engine's rows, killed workers, Ctrl-C, what cannot be."""

import os
import signal
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from dowse.errors import InputError
from dowse.running.engines import LocalEngine, WorkerFailedError
from dowse.running.engines.ray import RayEngine
from tests.contracts import EngineContract
from tests.crews import (
    Workshop,
    ctrl_c,
    interrupted,
    rows_sent,
    rows_written_to,
    run_with,
    wait_for_the_end_of,
)
from tests.victims import rows_seen

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def sigterm() -> object:
    """What SIGTERM did before Ray was started."""
    return signal.getsignal(signal.SIGTERM)


class TestRay(EngineContract):
    engine = RayEngine
    loss = "ActorDiedError"

    def test_ray_takes_no_signal_and_tells_nobody(
        self, workshop: Workshop, said: Any, sigterm: object, tmp_path: Path
    ) -> None:
        run_with(workshop.engine, {**said, "budget": 10}, tmp_path / "out")
        assert signal.getsignal(signal.SIGTERM) is sigterm, "Ray took over a signal of the runner's"
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"

    def test_a_target_that_takes_its_process_down_ends_the_run_with_the_cause(
        self, workshop: Workshop, said: Any, tmp_path: Path
    ) -> None:
        deadly = {**said, "target": "torch:tests.crews:deadly", "images": {"path": said["images"], "count": 4}}
        with pytest.raises(
            WorkerFailedError, match=r"3 times in a row, at last because ActorDiedError.*worker process"
        ):
            run_with(workshop.engine, deadly, tmp_path / "out")

    @pytest.mark.parametrize("factory", ["stillborn", "no_such_factory"])
    def test_a_target_that_cannot_be_loaded_ends_the_run_with_the_cause(
        self, workshop: Workshop, said: Any, factory: str, tmp_path: Path
    ) -> None:
        with pytest.raises((WorkerFailedError, InputError), match=r"its thread ended|has no 'no_such_factory'"):
            run_with(workshop.engine, {**said, "target": f"torch:tests.crews:{factory}"}, tmp_path / "out")

    @pytest.mark.parametrize(
        ("needs", "words"),
        [
            ({"gpus_per_worker": 1}, "reserves 1 CPU and 1 GPU fits on no node"),
            ({"cpus_per_worker": 64}, "they have 2 CPU"),
        ],
    )
    def test_a_worker_that_fits_nowhere_is_refused(
        self, workshop: Workshop, said: Any, needs: dict[str, float], words: str, tmp_path: Path
    ) -> None:
        with closing(RayEngine(1, **needs)) as engine, pytest.raises(InputError, match=words):
            run_with(engine, said, tmp_path / "out")

    def test_ctrl_c_lets_every_worker_finish_its_round(self, said: Any, local: Any, tmp_path: Path) -> None:
        seen, out, gate = tmp_path / "seen", tmp_path / "out", tmp_path / "gate"
        with interrupted(said, out, seen, gate, "ray", "-j", "2") as (runner, workers):
            words = ctrl_c(runner, gate)
            assert runner.wait() == 130
            assert "Go on with: dowse attack" in words
            wait_for_the_end_of(workers)
        with rows_written_to(seen):
            assert run_with(LocalEngine(), {**said, "target": "torch:tests.crews:gated"}, out) == local[0]
        assert rows_seen(seen) == rows_seen(local[1]), "a question was asked twice, or never"
        assert rows_sent(out) == rows_seen(seen).total()

    def test_a_lost_node_is_made_up_for(self, said: Any, local: Any, tmp_path: Path) -> None:
        seen, out, gate = tmp_path / "seen", tmp_path / "out", tmp_path / "gate"
        with interrupted(said, out, seen, gate, "ray", "-j", "2") as (runner, workers):
            os.kill(raylet_of(runner.pid), signal.SIGKILL)
            wait_for_the_end_of(workers)
            (gate / "open").touch()
            assert runner.stdout is not None
            words = runner.stdout.read()
            assert runner.wait() == 0, words
            assert "lost a worker" in words
        assert run_with(LocalEngine(), {**said, "target": "torch:tests.crews:gated"}, out) == local[0]


def raylet_of(runner: int) -> int:
    """The process of the node that a runner started."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent == runner and b"raylet/raylet" in path.with_name("cmdline").read_bytes():
                return int(path.parent.name)
    raise AssertionError("the runner started no node")
