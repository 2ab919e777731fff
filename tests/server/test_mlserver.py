"""A real mlserver that serves a torch network: scores, counts, and what becomes of a run whose server is killed."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from torch import Tensor

import dowse
from dowse.core.outcome import End
from dowse.core.result import Result
from dowse.targets import resolve_target
from tests.server.net import CLASSES, SHAPE, make_net
from tests.support import Gap, attack_anyway

pytestmark = pytest.mark.server

HERE = Path(__file__).resolve().parent
COMMAND = HERE.parent.parent / ".venv-server" / "bin" / "mlserver"
SECONDS_TO_START = 180
PATIENCE = f"longest_wait=5&retries={SECONDS_TO_START // 2}"  # waits of 2.5 s at least: longer than any start
SEED = 3


class Server:
    """An mlserver of its own process and port, with the log that the served network keeps."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "rows.log"
        self.port, grpc = free_ports(2)
        tensor: dict[str, Any] = {"datatype": "FP64"}
        self._write(
            "model-settings.json",
            name="net",
            implementation="runtime.Runtime",
            inputs=[{**tensor, "name": "image", "shape": [-1, *SHAPE]}],
            outputs=[{**tensor, "name": "scores", "shape": [-1, CLASSES]}],
            parameters={"extra": {"seed": SEED, "log": str(self.log)}},
        )
        self._write(
            "settings.json", host="127.0.0.1", http_port=self.port, grpc_port=grpc, metrics_endpoint=None,
            parallel_workers=0,
        )  # fmt: skip
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v2/models/net"

    @property
    def rows(self) -> int:
        return sum(map(int, self.log.read_text().split())) if self.log.exists() else 0

    def start(self) -> None:
        """Start it and wait until the model is loaded."""
        with (self.folder / "output.txt").open("a") as output:
            self.process = subprocess.Popen(
                [COMMAND, "start", self.folder],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + SECONDS_TO_START
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                pytest.fail(f"mlserver did not start:\n{(self.folder / 'output.txt').read_text()[-3000:]}")
            time.sleep(0.2)

    def kill(self) -> None:
        """End its process at once."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready", timeout=5).is_success
        except httpx.HTTPError:
            return False

    def _write(self, file: str, **settings: Any) -> None:
        (self.folder / file).write_text(json.dumps(settings))


def free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    if not COMMAND.exists():
        pytest.skip(f"no mlserver at {COMMAND}: `make test-extra` installs it")
    server = Server(folder)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests that leave it alive."""
    with running(tmp_path_factory.mktemp("mlserver")) as server:
        yield server


@pytest.fixture(scope="module")
def net() -> torch.nn.Module:
    return make_net(SEED)


def pictures(n: int) -> Tensor:
    return 0.2 + 0.6 * torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def attack(target: Any, net: torch.nn.Module, **more: Any) -> Result:
    x = pictures(6)
    return attack_anyway(target, x, net(x).argmax(1), method="rgf", q=10, budget=300, eps=0.9, concurrency=3, **more)


def in_process(net: torch.nn.Module) -> Result:
    """The attack without a server, whose rows come in other batches: scores differ by rounding, decisions do not."""
    target = Gap(net)
    result = attack(target, net)
    assert target.least > 1e-9
    return result


def test_scores_are_those_of_the_network(server: Server, net: torch.nn.Module) -> None:
    target = resolve_target(server.url, rows=5, connections=3)
    x = pictures(40)
    torch.testing.assert_close(target(x), net(x), rtol=0, atol=1e-12)
    assert target(x[:0]).shape == (0, CLASSES)
    target.close()


def test_an_attack_is_the_attack_in_process_and_counts_what_the_server_saw(
    server: Server, net: torch.nn.Module
) -> None:
    before, expected = server.rows, in_process(net)
    result = attack(f"{server.url}?rows=8&connections=3", net)
    assert result.end == expected.end
    assert End.ADVERSARIAL in result.end
    assert torch.equal(result.queries, expected.queries)
    torch.testing.assert_close(result.adversarial, expected.adversarial, rtol=0, atol=1e-6)
    assert server.rows - before == int(result.queries.sum())
    refused = int((result.sent - result.queries).sum())
    assert refused == 3 + 8, "mlserver refuses bytes with 500: one row for each image, then a full request, to be sure"


def test_an_encoding_that_is_told_is_not_tried_out(server: Server, net: torch.nn.Module) -> None:
    before = server.rows
    result = attack(f"{server.url}?rows=8&connections=3&binary=false", net)
    assert torch.equal(result.sent, result.queries)
    assert server.rows - before == int(result.queries.sum())


class AfterQueries(dowse.Observer):
    """Does something once, between two rounds, when so many queries were answered."""

    def __init__(self, queries: int, action: Any) -> None:
        self.queries, self.action, self.done = queries, action, False

    def progressed(self, progress: Any) -> None:
        if not self.done and progress.queries >= self.queries:
            self.done = True
            self.action()


def test_a_server_killed_in_the_middle_leaves_all_it_answered(tmp_path: Path, net: torch.nn.Module) -> None:
    with running(tmp_path) as server:
        killer = AfterQueries(100, server.kill)
        result = attack(f"{server.url}?retries=2&rows=8&connections=1", net, observers=[killer])
        assert killer.done
        assert End.TARGET_FAILED in result.end
        assert int(result.queries.sum()) == server.rows
        assert (result.sent >= result.queries).all()
        causes = [outcome.cause for outcome in result.outcomes if outcome.end is End.TARGET_FAILED]
        assert all(server.url in str(cause) and "did not answer" in str(cause) for cause in causes)


@pytest.mark.parametrize("connections", [1, 3])
def test_a_server_that_is_killed_and_comes_back_costs_no_query(
    tmp_path: Path, net: torch.nn.Module, connections: int
) -> None:
    with running(tmp_path) as server:

        def restart() -> None:
            server.kill()
            server.start()

        expected, target = in_process(net), f"{server.url}?rows=8&connections={connections}&{PATIENCE}"
        result = attack(target, net, observers=[AfterQueries(100, restart)])
        assert result.end == expected.end
        assert torch.equal(result.queries, expected.queries)
        if connections == 1:
            assert int(result.queries.sum()) == server.rows
        else:  # some rows are always under way: it may have seen them and died before it answered
            assert int(result.queries.sum()) <= server.rows <= int(result.sent.sum())
