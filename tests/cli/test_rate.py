"""`--rate` on the command line: rows go out no faster, by a clock that only sleeping moves; the run stays the same."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dowse.cli import app
from dowse.cli.execute import share_of_rate
from dowse.cli.manner import worker_count
from dowse.errors import InputError
from dowse.machine.cpu import usable_cores
from dowse.store import Store
from tests.support import Tanh
from tests.v2server import Clock, V2Server, serving
from tests.victims import image_file

WORDS = ["--method", "rgf", "--q", "5", "--budget", "20", "--eps", "0.01", "--quiet"]


class Paced:
    """A server that notes when each request came, by the clock of those who ask."""

    def __init__(self, server: V2Server, clock: Clock, starts: list[float]) -> None:
        self.server, self.clock, self.starts = server, clock, starts

    @property
    def spec(self) -> str:
        return f"{self.server.url}#connections=1&timeout=600"

    def assert_no_faster_than(self, rate: float) -> None:
        """In no stretch of time came more rows than the rate allows; the last request of it is not over yet."""
        rows = [request.rows for request in self.server.seen]
        assert len(rows) == len(self.starts) > 5
        for i, j in itertools.combinations(range(len(rows)), 2):
            assert self.starts[j] - self.starts[i] >= sum(rows[i:j]) / rate * (1 - 1e-9)


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Paced]:
    clock, starts = Clock().install(monkeypatch), []
    with serving(Tanh(1), before_answer=lambda: starts.append(clock.now)) as server:
        yield Paced(server, clock, starts)


def dowse(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def passed(*words: object) -> str:
    result = dowse(*words)
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.output


def test_attack_keeps_to_the_rate_and_is_the_same_run(paced: Paced, tmp_path: Path) -> None:
    said = ["attack", "--target", paced.spec, "--images", image_file(tmp_path, 3), *WORDS]
    passed(*said, "--rate", 0.5, "--out", tmp_path / "slow")
    paced.assert_no_faster_than(0.5)
    assert {request.rows for request in paced.server.seen} == {1}, "no more at once than a second's rows, or one"
    seen, slept = paced.server.rows_seen, paced.clock.now
    assert slept == pytest.approx((seen - 1) / 0.5)
    passed(*said, "--out", tmp_path / "fast")
    assert paced.clock.now == slept, "without a rate nobody waits"
    with Store(tmp_path / "slow") as slow, Store(tmp_path / "fast") as fast:
        assert [run.id for run in slow.runs()] == [run.id for run in fast.runs()]
        assert slow.runs()[0].content == fast.runs()[0].content
        assert slow.runs()[0].content["target"] == paced.server.url
        assert [row.queries for row in slow.rows()] == [row.queries for row in fast.rows()]
        assert sum(row.queries for row in slow.rows()) == sum(row.sent for row in slow.rows()) == seen


def test_a_run_goes_on_at_another_rate(paced: Paced, tmp_path: Path) -> None:
    file = tmp_path / "test.toml"
    file.write_text(
        f'target = "{paced.spec}"\nimages = "{image_file(tmp_path, 3)}"\nbudget = 20\neps = 0.01\n'
        '[method]\nname = "rgf"\nq = 5\n'
    )
    plan = json.loads(passed("run", file, "--out", tmp_path / "out", "--dry-run", "--json", "--rate", 4))
    assert list(plan["rows_per_second"].values()) == [4.0]
    assert plan["seconds"] == pytest.approx(3 * 20 / 4)
    assert paced.server.seen == [], "a dry run at a rate asks for nothing"
    passed("run", file, "--out", tmp_path / "out", "--quiet", "--images", 2, "--rate", 4)
    paced.assert_no_faster_than(4)
    assert max(request.rows for request in paced.server.seen) == 4
    before = paced.server.rows_seen
    passed("run", file, "--out", tmp_path / "out", "--quiet", "--rate", 9)
    with Store(tmp_path / "out") as store:
        assert len(store.runs()) == 1
        assert sum(row.queries for row in store.rows()) == paced.server.rows_seen > before


def test_a_dry_run_sends_nothing_to_a_server_unless_told_to(
    paced: Paced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dowse.cli.dryrun.SECONDS", 0.01)
    file = tmp_path / "test.toml"
    file.write_text(f'target = "{paced.spec}"\nimages = "{image_file(tmp_path, 3)}"\nbudget = 20\nmethod = "rgf"\n')
    said = ("run", file, "--out", tmp_path / "out", "--dry-run")
    plan = json.loads(passed(*said, "--json"))
    assert (plan["sent"], plan["seconds"], plan["rows_per_second"]) == (0, None, {})
    assert "--probe" in plan["notes"][0]
    assert "sent 0 rows" in passed(*said)
    assert paced.server.seen == []
    probed = json.loads(passed(*said, "--json", "--probe"))
    assert probed["sent"] == paced.server.rows_seen > 0
    assert "leave it out" in dowse("run", file, "--probe").output


def test_check_keeps_to_the_rate(paced: Paced) -> None:
    result = dowse("check", "--target", paced.spec, "--rate", 2, "--seconds", 0, "--json")
    record = json.loads(result.output)
    paced.assert_no_faster_than(2)
    assert record["sent"] == paced.server.rows_seen


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["attack", "--target", "dowse:n", "--images", "x", "--method", "rgf"], "limit of http targets"),
        (["check", "--target", "dowse:cifar10_resnet20"], "limit of http targets"),
        (["check", "--target", "http://127.0.0.1:9/v2/models/n", "--rate", "0"], "rate must be a finite number above"),
        (
            ["attack", "--target", "http://h/v2/models/n", "--images", "x", "--method", "rgf", "--engine", "ray"],
            "say with --workers how many",
        ),
    ],
)
def test_a_rate_that_cannot_be_kept_is_an_error(words: list[str], said: str) -> None:
    result = dowse(*words, *([] if "--rate" in words else ["--rate", "3"]))
    assert result.exit_code == 2
    assert said in result.stderr


def test_auto_is_a_worker_for_each_core() -> None:
    assert worker_count("auto") == usable_cores()
    assert worker_count("3") == worker_count(3) == 3


def test_workers_share_the_rate() -> None:
    assert share_of_rate(None, "processes", 4) is None
    assert share_of_rate(8, None, None) == share_of_rate(8, "local", 1) == 8
    assert share_of_rate(8, "processes", 4) == share_of_rate(8, "ray", 4) == share_of_rate(8, None, 4) == 2
    assert share_of_rate(8, "processes", None) == 8 / usable_cores()
    with pytest.raises(InputError, match="--workers"):
        share_of_rate(8, "ray", None)
