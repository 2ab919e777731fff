"""What every engine with workers must hold; a class of tests for each engine inherits it."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dowse.running.engines import LocalEngine
from dowse.running.engines.pool import Pool
from tests.crews import Killing, Workshop, asked_twice, largest_round, rows_sent, rows_written_to, run_with
from tests.victims import calls_seen, image_file, rows_seen, tables


class EngineContract:
    """Tests of an engine with two workers; `engine` makes it, `loss` is in what it says of a killed worker."""

    engine: ClassVar[Callable[..., Pool]]
    loss: ClassVar[str]

    @pytest.fixture(scope="class")
    @classmethod
    def workshop(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
        told: list[str] = []
        with (
            rows_written_to(tmp_path_factory.mktemp("workshop") / "seen") as seen,
            closing(cls.engine(2, tell=told.append)) as engine,
        ):
            yield Workshop(engine, seen, told)

    @pytest.fixture(scope="class")
    @classmethod
    def said(cls, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
        return tables(image_file(tmp_path_factory.mktemp("images"), 10))

    @pytest.fixture(scope="class")
    @classmethod
    def local(cls, said: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[Any, ...]], Path]:
        """The rows of a run with the local engine, and what the target saw of it."""
        folder = tmp_path_factory.mktemp("local")
        with rows_written_to(folder / "seen") as seen:
            return run_with(LocalEngine(), said, folder / "out"), seen

    def test_rows_are_those_of_the_local_engine(
        self, workshop: Workshop, said: Any, local: Any, tmp_path: Path
    ) -> None:
        workshop.clear()
        assert run_with(workshop.engine, said, tmp_path / "out") == local[0]
        assert rows_seen(workshop.seen) == rows_seen(local[1])
        assert rows_sent(tmp_path / "out") == rows_seen(workshop.seen).total()
        workers = {pid for pid, _ in calls_seen(workshop.seen)}
        assert len(workers) == 2
        assert os.getpid() not in workers
        assert workshop.complaints == []

    def test_the_account_of_an_image_is_the_same_wherever_it_is_attacked(
        self, workshop: Workshop, said: Any, tmp_path: Path
    ) -> None:
        workshop.clear()
        watched = {**said, "defence": "blacklight:window=3,threshold=16,then=refuse", "budget": 20}
        rows = run_with(LocalEngine(), watched, tmp_path / "local")
        assert run_with(workshop.engine, watched, tmp_path / "out") == rows
        assert sum(refused for *_, refused, _ in rows) > 0
        assert workshop.complaints == []

    def test_killed_workers_lose_nothing(
        self, workshop: Workshop, said: Any, local: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        workshop.clear()
        killing = Killing(workshop.seen, {4, 9})
        assert run_with(workshop.engine, said, tmp_path / "out", report=killing) == local[0]
        assert len(set(killing.killed)) == 2
        in_flight = 2 * largest_round(workshop.seen)
        assert asked_twice(workshop.seen, local[1]).total() <= in_flight
        assert 0 <= rows_sent(tmp_path / "out") - rows_seen(workshop.seen).total() <= in_flight
        assert len(workshop.complaints) == 2
        assert self.loss in workshop.complaints[0]
        assert capfd.readouterr().out == "", "standard output is for events"

    def test_a_target_in_a_worker_can_warn_and_cannot_write_to_standard_output(
        self, workshop: Workshop, said: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        workshop.clear()
        run_with(workshop.engine, {**said, "target": "torch:tests.crews:grumbling", "budget": 10}, tmp_path / "out")
        assert set(workshop.complaints) == {"a worker warns: UserWarning: mind the weights"}
        assert "a target's own words" not in capfd.readouterr().out
