"""The engine `ray` on a cluster of two nodes, one of which dies."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dowse.errors import InputError
from dowse.running.engines import LocalEngine
from dowse.running.engines.ray import RayEngine
from dowse.running.progress import Reporter, Snapshot
from tests.crews import asked_twice, largest_round, rows_sent, rows_written_to, run_with
from tests.victims import calls_seen, image_file, rows_seen, tables

pytestmark = [
    pytest.mark.cluster,
    # Ray does not wait for the processes of a node that it kills.
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*Popen.__del__:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def cluster(counted: Path) -> Iterator[Any]:
    """A head with one CPU; nodes can be added. What targets see is counted from its start on."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        yield made
    finally:
        made.shutdown()


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Path]:
    with rows_written_to(tmp_path / "seen") as seen:
        yield seen


class Disaster(Reporter):
    """Ends a node once two workers are at work."""

    def __init__(self, cluster: Any, node: Any, seen: Path) -> None:
        self.cluster, self.node, self.seen = cluster, node, seen

    def progressed(self, snapshot: Snapshot) -> None:
        if self.node is not None and len({pid for pid, _ in calls_seen(self.seen)}) == 2:
            self.cluster.remove_node(self.node, allow_graceful=False)
            self.node = None


def test_a_node_that_dies_loses_nothing(cluster: Any, counted: Path, tmp_path: Path) -> None:
    said = tables(image_file(tmp_path, 24), budget=200, eps=0.05)
    with rows_written_to(tmp_path / "once") as once:
        local = run_with(LocalEngine(), said, tmp_path / "local")
    told: list[str] = []
    disaster = Disaster(cluster, cluster.add_node(num_cpus=1), counted)
    with closing(RayEngine(address=cluster.address, tell=told.append)) as engine:
        assert run_with(engine, said, tmp_path / "out", report=disaster) == local
    assert disaster.node is None, "the node outlived the run"
    assert asked_twice(counted, once).total() <= largest_round(counted)
    assert 0 <= rows_sent(tmp_path / "out") - rows_seen(counted).total() <= largest_round(counted)
    assert any(text.startswith("lost a worker because ") for text in told)
    assert len({pid for pid, _ in calls_seen(counted)}) == 2, "there was no room for a third worker"


def test_more_workers_than_room_are_no_harm(cluster: Any, counted: Path, tmp_path: Path) -> None:
    said = tables(image_file(tmp_path, 4), budget=40)
    with rows_written_to(tmp_path / "once"):
        local = run_with(LocalEngine(), said, tmp_path / "local")
    with closing(RayEngine(3, address=cluster.address, tell=lambda text: None)) as engine:
        assert run_with(engine, said, tmp_path / "out") == local
    assert len({pid for pid, _ in calls_seen(counted)}) == 1


def test_an_address_where_nobody_is_is_an_error(tmp_path: Path) -> None:
    said = tables(image_file(tmp_path, 1), budget=10)
    with (
        closing(RayEngine(1, address="127.0.0.1:1")) as engine,
        pytest.raises(InputError, match="no Ray cluster answers"),
    ):
        run_with(engine, said, tmp_path / "out")
