"""A node of Ray that is lost, played: all workers are lost with it, and the next one starts in a new session."""

from types import SimpleNamespace
from typing import Any

import pytest

from dowse.errors import WorkerFailedError
from dowse.running.engines import ray as engine
from dowse.running.engines.crew import Lost
from dowse.running.engines.ray import NODE_LOST, RayCrew


class PlayedRay:
    """As much of Ray as a crew needs: one node a session, actors that say nothing."""

    exceptions = SimpleNamespace(RayError=RuntimeError)

    def __init__(self, *, running: bool = False) -> None:
        self.sessions, self.alive, self.running, self.killed = int(running), True, running, 0

    def is_initialized(self) -> bool:
        return self.running

    def init(self, **options: Any) -> None:
        self.sessions, self.alive, self.running = self.sessions + 1, True, True

    def shutdown(self) -> None:
        self.running = False

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: f"node {self.sessions}")

    def nodes(self) -> list[dict[str, Any]]:
        assert self.running
        return [{"NodeID": f"node {self.sessions}", "Alive": self.alive, "Resources": {"CPU": 2.0}}]

    def remote(self, **options: Any) -> Any:
        actor = SimpleNamespace(step=SimpleNamespace(remote=lambda message: object()))
        return lambda kind: SimpleNamespace(remote=lambda *arguments: actor)

    def wait(self, calls: list[Any], **options: Any) -> tuple[list[Any], list[Any]]:
        return [], calls

    def kill(self, actor: Any) -> None:
        self.killed += 1


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedRay:
    ray = PlayedRay()
    monkeypatch.setattr(engine, "_import_ray", lambda: ray)
    monkeypatch.setattr(engine, "NODE_CHECK", 0.0)
    return ray


def crew() -> RayCrew:
    return RayCrew(None, {"CPU": 1.0}, 1, 2)


def test_a_silent_node_that_is_gone_takes_its_workers_along(played: PlayedRay) -> None:
    workers = [(made := crew()).start(), made.start()]
    assert made.receive(workers, 0.0) == [], "silence alone is no loss"
    played.alive = False
    assert made.receive(workers, 0.0) == [(worker, Lost(NODE_LOST)) for worker in workers]
    made.end(workers, at_once=True)
    assert played.killed == 0, "who lived in a session that has ended cannot be asked to end"
    fresh = made.start()
    assert played.sessions == 2
    assert made.receive([*workers, fresh], 0.0) == [(worker, Lost(NODE_LOST)) for worker in workers]
    assert made.receive([fresh], 0.0) == []
    made.end([fresh], at_once=True)
    assert played.killed == 1


def test_a_worker_is_not_started_where_no_node_is(played: PlayedRay) -> None:
    (made := crew()).start()
    played.alive = False
    assert made.start().session == 1
    assert played.sessions == 2


def test_a_session_of_the_caller_s_own_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = PlayedRay(running=True)
    monkeypatch.setattr(engine, "_import_ray", lambda: ray)
    monkeypatch.setattr(engine, "NODE_CHECK", 0.0)
    worker = (made := crew()).start()
    ray.alive = False
    with pytest.raises(WorkerFailedError, match="start Ray again in this program"):
        made.receive([worker], 0.0)
    assert ray.running
