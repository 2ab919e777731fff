"""The pool of workers, with workers that are threads: every loss is made up for, and nothing is paid twice."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dowse import prepare
from dowse.core import driver
from dowse.core.task import Past, Task
from dowse.errors import InputError
from dowse.running.engines import LocalEngine, WorkerFailedError, make_engine, pool
from dowse.running.engines.messages import NextTask, pack, unpack
from dowse.running.engines.pool import Pool
from dowse.running.engines.processes import ProcessEngine
from dowse.running.interrupt import Interrupt
from dowse.running.progress import Reporter, Snapshot
from dowse.store import StoreError, StoreWriter
from dowse.store.events import Stopped
from tests.crews import StopAfter, ThreadCrew, asked_twice, largest_round, rows_sent, rows_written_to, run_with
from tests.victims import image_file, rows_seen, tables

IMAGES = 7


def silent(text: str) -> None:
    """Hear what a person should know, and say nothing."""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return tables(image_file(tmp_path_factory.mktemp("images"), IMAGES), concurrency=2, budget=60)


@pytest.fixture(scope="module")
def local(said: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[Any, ...]], Path]:
    """The rows of a run with the local engine, and what the target saw of it."""
    folder = tmp_path_factory.mktemp("local")
    with rows_written_to(folder / "seen") as seen:
        return run_with(LocalEngine(), said, folder / "out"), seen


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Path]:
    with rows_written_to(tmp_path / "seen") as seen:
        yield seen


@pytest.mark.parametrize("workers", [1, 3, 20])
def test_rows_are_those_of_the_local_engine(said: Any, local: Any, workers: int, tmp_path: Path, counted: Path) -> None:
    crew = ThreadCrew()
    with closing(Pool(crew, workers)) as engine:
        assert run_with(engine, said, tmp_path / "out") == local[0]
    assert rows_seen(counted) == rows_seen(local[1])
    assert rows_sent(tmp_path / "out") == rows_seen(counted).total()
    assert crew.started <= min(workers, IMAGES), "more workers than images"


deaths = st.dictionaries(
    st.integers(0, 12), st.tuples(st.integers(0, 25), st.sampled_from(["before", "after"])), max_size=12
)


@given(deaths=deaths, workers=st.integers(1, 3))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lost_workers_lose_nothing(
    said: Any, local: Any, deaths: Any, workers: int, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ATTEMPTS", 100)
    folder, crew = tmp_path_factory.mktemp("lost"), ThreadCrew(deaths)
    with rows_written_to(folder / "seen") as seen, closing(Pool(crew, workers, silent)) as engine:
        assert run_with(engine, said, folder / "out") == local[0]
    in_vain = asked_twice(seen, local[1])
    assert rows_sent(folder / "out") >= rows_seen(seen).total()
    rounds = sum(number < crew.started and moment == "before" for number, (_, moment) in deaths.items())
    assert in_vain.total() <= rounds * largest_round(seen), "more than the rounds in flight were asked twice"


@pytest.mark.parametrize("commits", [1, 4, 9])
def test_a_wish_to_stop_lets_every_worker_finish_its_round(
    said: Any, local: Any, commits: int, tmp_path: Path, counted: Path
) -> None:
    interrupt = Interrupt()
    with closing(Pool(ThreadCrew(), 3)) as engine:
        with pytest.raises(Stopped):
            run_with(engine, said, tmp_path / "out", interrupt=interrupt, report=StopAfter(commits, interrupt))
        asked = rows_seen(counted).total()
        assert 0 < asked < rows_seen(local[1]).total()
        assert run_with(engine, said, tmp_path / "out") == local[0]
    assert rows_seen(counted) == rows_seen(local[1]), "a question was asked twice, or never"
    assert rows_sent(tmp_path / "out") == rows_seen(counted).total(), "nobody died: the count is exact"


def test_a_wish_to_stop_is_heard_though_no_worker_speaks(
    said: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "TICK", 0.01)
    monkeypatch.setattr(pool, "PATIENCE", 0.05)
    interrupt, told = Interrupt(), []

    class Never(ThreadCrew):
        def receive(self, workers: Any, timeout: float) -> list[Any]:
            interrupt.wanted = bool(told)
            return []

    with closing(Pool(Never(), 2, told.append)) as engine, pytest.raises(Stopped):
        run_with(engine, said, tmp_path / "out", interrupt=interrupt)
    assert told == ["no worker is ready after 0.05 s: nothing that a thread could wait for"]


def test_a_second_wish_to_stop_ends_workers_at_once_and_loses_no_commit(
    said: Any, local: Any, tmp_path: Path, counted: Path
) -> None:
    class Impatient(ThreadCrew):
        left = 12

        def receive(self, workers: Any, timeout: float) -> list[Any]:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return super().receive(workers, timeout)

    crew = Impatient()
    with closing(Pool(crew, 2)) as engine:
        with pytest.raises(KeyboardInterrupt):
            run_with(engine, said, tmp_path / "out")
        assert run_with(engine, said, tmp_path / "out") == local[0]
    assert asked_twice(counted, local[1]).total() <= 2 * largest_round(counted)
    assert rows_sent(tmp_path / "out") >= rows_seen(counted).total()


def test_a_store_that_fails_ends_the_run_and_not_the_workers(
    said: Any, local: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: StoreWriter, *arguments: object) -> None:
        raise StoreError("the disk is full")

    crew = ThreadCrew()
    with closing(Pool(crew, 2)) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(StoreWriter, "write", full)
            with pytest.raises(StoreError, match="disk is full"):
                run_with(engine, said, tmp_path / "out")
        assert run_with(engine, said, tmp_path / "out") == local[0]
        assert crew.started <= 4


def test_a_claim_that_fails_ends_the_run(said: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim, claims = StoreWriter.claim, iter(range(100))

    def locked(self: StoreWriter, *arguments: Any) -> Any:
        if next(claims) == 4:
            raise StoreError("the store is locked")
        return claim(self, *arguments)

    monkeypatch.setattr(StoreWriter, "claim", locked)
    with closing(Pool(ThreadCrew(), 2)) as engine, pytest.raises(StoreError, match="locked"):
        run_with(engine, said, tmp_path / "out")


def test_a_worker_that_cannot_load_its_target_ends_the_run_as_the_local_engine_does(said: Any, tmp_path: Path) -> None:
    wrong = {**said, "target": "torch:tests.no_such_module:net"}
    messages = []
    for engine in (LocalEngine(), Pool(ThreadCrew(), 3)):
        with closing(engine), pytest.raises(InputError, match=r"cannot import 'tests\.no_such_module'") as raised:
            run_with(engine, wrong, tmp_path / "out")
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_workers_lost_at_their_start_end_the_run_with_the_cause(said: Any, tmp_path: Path) -> None:
    told: list[str] = []
    crew = ThreadCrew(dict.fromkeys(range(100), (0, "before")))
    with closing(Pool(crew, 2, told.append)) as engine:
        with pytest.raises(WorkerFailedError, match=r"before it had an answer, 3 times in a row.*it was told to die"):
            run_with(engine, said, tmp_path / "out")
        assert crew.started <= 2 * pool.ATTEMPTS
    assert "it was told to die" in told[0]


def test_an_image_that_loses_every_worker_ends_the_run_with_the_cause(said: Any, local: Any, tmp_path: Path) -> None:
    poisoned = {**said, "surrogate": "torch:tests.crews:brittle"}
    told: list[str] = []
    with closing(Pool(ThreadCrew(), 2, told.append)) as engine:
        with pytest.raises(WorkerFailedError, match=r"image.* 3 times in a row.*RuntimeError: this image breaks me"):
            run_with(engine, poisoned, tmp_path / "out")
        assert run_with(engine, said, tmp_path / "other") == local[0], "the pool is of use after that"
    assert len(told) >= pool.ATTEMPTS - 1


class Watching(Reporter):
    def __init__(self) -> None:
        self.active: list[int] = []

    def progressed(self, snapshot: Snapshot) -> None:
        self.active.append(snapshot.active)


def test_progress_counts_the_images_of_all_workers(said: Any, tmp_path: Path) -> None:
    watching = Watching()
    with closing(Pool(ThreadCrew(), 3)) as engine:
        run_with(engine, said, tmp_path / "out", report=watching)
    assert 2 < max(watching.active) <= 6


@pytest.mark.parametrize(("images", "workers", "at_once"), [(24, 2, 12), (5, 2, 3), (9, None, 32)])
def test_many_small_images_are_shared_out_evenly(
    images: int, workers: int | None, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()

    def drive(*of: Any, concurrency: int, **more: Any) -> Any:
        seen.add(concurrency)
        return driver.drive(*of, concurrency=concurrency, **more)

    monkeypatch.setattr(prepare, "drive", drive)
    said = tables(image_file(tmp_path, images), method={"name": "simba"}, budget=4, eps=1e-3)
    del said["concurrency"]
    with closing(LocalEngine() if workers is None else Pool(ThreadCrew(), workers)) as engine:
        run_with(engine, said, tmp_path / "out")
    assert seen == {at_once}


def test_workers_that_are_lost_after_an_answer_are_made_up_for_without_end(
    said: Any, local: Any, tmp_path: Path
) -> None:
    lives = (10, "before")  # as many messages as every image needs for an answer, whoever is asked first
    crew = ThreadCrew(dict.fromkeys(range(3 * pool.ATTEMPTS), lives))
    with closing(Pool(crew, 1, silent)) as engine:
        assert run_with(engine, said, tmp_path / "out") == local[0]
    assert crew.started == 3 * pool.ATTEMPTS + 1


TASK = Task(1, "id", torch.zeros(3, 2, 2), None, None, "1.png", Past("id", (b"answer",), 3))


def test_a_message_carries_the_image_and_not_the_whole_set() -> None:
    images = torch.rand(1000, 3, 8, 8)
    packed = pack(NextTask(replace(TASK, x=images[7])))
    assert len(packed) < 2 * images[7].numel() * 4
    task = unpack(packed).task
    assert (task.name, task.past) == (TASK.name, TASK.past)
    x = task.x
    assert torch.equal(x, images[7])
    x += 1  # and belongs to whoever got it


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8, torch.bool])
def test_tensors_of_any_layout_arrive_as_they_are(dtype: torch.dtype) -> None:
    x = (torch.rand(4, 5, 6) * 3).to(dtype).permute(2, 0, 1)
    got = unpack(pack(NextTask(replace(TASK, x=x)))).task.x
    assert got.dtype == dtype
    assert torch.equal(got, x)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"name": "processes", "workers": 0}, "workers counts"),
        ({"name": "local", "workers": 2}, "engine processes"),
        ({"name": "processes", "address": "auto"}, "address='auto' is for the engine ray"),
        ({"name": "local", "gpus_per_worker": 1}, "gpus_per_worker=1 is for the engine ray"),
        ({"name": "ray", "cpus_per_worker": -1}, "cpus_per_worker must be"),
        ({"name": "ray", "gpus_per_worker": -1}, "gpus_per_worker must be"),
        ({"name": "rai"}, "did you mean 'ray'"),
    ],
)
def test_engines_that_cannot_be(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_engine(**keywords)


def test_several_workers_mean_processes() -> None:
    with closing(make_engine()) as one, closing(make_engine(workers=2)) as two:
        assert isinstance(one, LocalEngine)
        assert isinstance(two, ProcessEngine)
