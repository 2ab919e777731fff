"""The engine `processes`, with real processes: killed workers, a killed runner, Ctrl-C, targets that take them down."""

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from dowse.machine.cpu import usable_cores
from dowse.running.engines import LocalEngine, WorkerFailedError
from dowse.running.engines.processes import ProcessEngine, _how_it_ended
from tests.contracts import EngineContract
from tests.crews import (
    asked_twice,
    ctrl_c,
    interrupted,
    largest_round,
    rows_sent,
    rows_written_to,
    run_with,
    wait_for_the_end_of,
)
from tests.victims import PROJECT, rows_seen


class TestProcesses(EngineContract):
    engine = ProcessEngine
    loss = "was killed by SIGKILL"

    def test_a_target_that_takes_its_process_down_ends_the_run_with_the_cause(self, said: Any, tmp_path: Path) -> None:
        told: list[str] = []
        deadly = {**said, "target": "torch:tests.crews:deadly", "images": {"path": said["images"], "count": 4}}
        with closing(ProcessEngine(1, tell=told.append)) as engine, pytest.raises(WorkerFailedError) as raised:
            run_with(engine, deadly, tmp_path / "out")
        assert "3 times in a row, at last because its process was killed by SIGKILL" in str(raised.value)
        assert len([text for text in told if text.startswith("lost a worker")]) == 2

    def test_runs_survive_the_death_of_the_runner_and_ctrl_c(self, said: Any, local: Any, tmp_path: Path) -> None:
        """Workers of a killed runner end by themselves; those of an interrupted one finish their rounds."""
        seen, out, engine = tmp_path / "seen", tmp_path / "out", ("processes", "-j", "2")
        with interrupted(said, out, seen, tmp_path / "first", *engine) as (runner, workers):
            runner.kill()
            runner.wait()
            (tmp_path / "first" / "open").touch()
            wait_for_the_end_of(workers)
        in_flight = 2 * largest_round(seen)
        with interrupted(said, out, seen, tmp_path / "second", *engine) as (runner, workers):
            words = ctrl_c(runner, tmp_path / "second")
            assert runner.wait() == 130
            assert "Go on with: dowse attack" in words
            wait_for_the_end_of(workers)
        with rows_written_to(seen):
            assert run_with(LocalEngine(), {**said, "target": "torch:tests.crews:gated"}, out) == local[0]
        assert asked_twice(seen, local[1]).total() <= in_flight, "more than the rounds of the kill was asked twice"
        assert 0 <= rows_sent(out) - rows_seen(seen).total() <= in_flight


@pytest.mark.parametrize(
    ("code", "words"),
    [(-11, "was killed by SIGSEGV"), (7, "ended with status 7"), (None, "has closed its pipe")],
)
def test_how_a_process_ended_is_said(code: int | None, words: str) -> None:
    assert words in _how_it_ended(code)


def test_the_default_is_a_worker_a_core_with_one_thread_each() -> None:
    with closing(ProcessEngine()) as several, closing(ProcessEngine(1)) as one:
        assert several.crew.capacity() == usable_cores() <= (os.cpu_count() or 1)
        assert several.crew.threads == 1
        assert one.crew.threads is None


def test_a_new_process_is_made_like_the_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    from dowse.running.engines.pool_worker import prepare

    monkeypatch.chdir(PROJECT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    before = torch.get_num_threads()
    try:
        warned = prepare(folder=str(tmp_path), path=["/somewhere/else", sys.path[0]], threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert Path.cwd() == tmp_path
    assert sys.path[-1] == "/somewhere/else"
    assert len(sys.path) == len(set(sys.path)) or sys.path.count("/somewhere/else") == 1
    warnings.showwarning("late", UserWarning, "file", 1)
    assert warned == ["UserWarning: late"]
