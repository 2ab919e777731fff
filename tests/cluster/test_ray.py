"""The engine `ray` on a real Ray of this machine: the local engine's rows, killed workers, Ctrl-C, what cannot be."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dowse.engines import LocalEngine, WorkerFailedError
from dowse.engines.ray import RayEngine
from dowse.errors import InputError
from tests.crews import (
    Killing,
    Workshop,
    asked_twice,
    ctrl_c,
    interrupted,
    largest_round,
    rows_written_to,
    run_with,
    wait_for_the_end_of,
)
from tests.victims import calls_seen, image_file, rows_seen, tables

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    told: list[str] = []
    with (
        rows_written_to(tmp_path_factory.mktemp("workshop") / "seen") as seen,
        closing(RayEngine(2, tell=told.append)) as engine,
    ):
        yield Workshop(engine, seen, told)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return tables(image_file(tmp_path_factory.mktemp("images"), 10))


@pytest.fixture(scope="module")
def local(said: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[Any, ...]], Path]:
    """The rows of a run with the local engine, and what the target saw of it."""
    folder = tmp_path_factory.mktemp("local")
    with rows_written_to(folder / "seen") as seen:
        return run_with(LocalEngine(), said, folder / "out"), seen


def test_rows_are_those_of_the_local_engine(workshop: Workshop, said: Any, local: Any, tmp_path: Path) -> None:
    workshop.clear()
    sigterm = signal.getsignal(signal.SIGTERM)
    assert run_with(workshop.engine, said, tmp_path / "out") == local[0]
    assert rows_seen(workshop.seen) == rows_seen(local[1])
    workers = {pid for pid, _ in calls_seen(workshop.seen)}
    assert len(workers) == 2
    assert os.getpid() not in workers
    assert workshop.complaints == []
    assert signal.getsignal(signal.SIGTERM) is sigterm, "Ray took over a signal of the runner's"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


def test_killed_workers_lose_nothing(
    workshop: Workshop, said: Any, local: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    workshop.clear()
    killing = Killing(workshop.seen, {4, 9})
    assert run_with(workshop.engine, said, tmp_path / "out", report=killing) == local[0]
    assert len(set(killing.killed)) == 2
    assert asked_twice(workshop.seen, local[1]).total() <= 2 * largest_round(workshop.seen)
    assert len(workshop.complaints) == 2
    assert "ActorDiedError" in workshop.complaints[0]
    assert capfd.readouterr().out == "", "standard output is for events"


def test_a_target_in_a_worker_can_warn(
    workshop: Workshop, said: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    workshop.clear()
    run_with(workshop.engine, {**said, "target": "torch:tests.crews:grumbling", "budget": 10}, tmp_path / "out")
    assert set(workshop.complaints) == {"a worker warns: UserWarning: mind the weights"}
    assert "a target's own words" not in capfd.readouterr().out


def test_a_target_that_takes_its_process_down_ends_the_run_with_the_cause(
    workshop: Workshop, said: Any, tmp_path: Path
) -> None:
    deadly = {**said, "target": "torch:tests.crews:deadly", "images": {"path": said["images"], "count": 4}}
    with pytest.raises(WorkerFailedError, match=r"3 times in a row, at last because ActorDiedError.*worker process"):
        run_with(workshop.engine, deadly, tmp_path / "out")


@pytest.mark.parametrize("factory", ["stillborn", "no_such_factory"])
def test_a_target_that_cannot_be_loaded_ends_the_run_with_the_cause(
    workshop: Workshop, said: Any, factory: str, tmp_path: Path
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
    workshop: Workshop, said: Any, needs: dict[str, float], words: str, tmp_path: Path
) -> None:
    with closing(RayEngine(1, **needs)) as engine, pytest.raises(InputError, match=words):
        run_with(engine, said, tmp_path / "out")


def test_ctrl_c_lets_every_worker_finish_its_round(said: Any, local: Any, tmp_path: Path) -> None:
    seen, out, gate = tmp_path / "seen", tmp_path / "out", tmp_path / "gate"
    with interrupted(said, out, seen, gate, "ray", "-j", "2") as (runner, workers):
        words = ctrl_c(runner, gate)
        assert runner.wait() == 130
        assert "Go on with: dowse attack" in words
        wait_for_the_end_of(workers)
    with rows_written_to(seen):
        assert run_with(LocalEngine(), {**said, "target": "torch:tests.crews:gated"}, out) == local[0]
    assert rows_seen(seen) == rows_seen(local[1]), "a question was asked twice, or never"
