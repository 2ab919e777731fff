"""A method of the user's own, "package.module:Class": run, killed, resumed and reported like a built-in one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import dowse
from dowse.attacks.registry import find_method
from dowse.cli import app
from dowse.errors import InputError
from dowse.experiment.file import make_experiment
from dowse.experiment.grid import expand
from dowse.images.sources import open_images
from dowse.store import Store
from tests.victims import image_file

MODULE = '''
import os
import signal
from dataclasses import dataclass, field

import torch
from torch import nn

from dowse.attacks import Attack
from dowse.core.flow import ask, check
from dowse.maths.sampling import sphere, unit

CALLS = 0


class Deadly(nn.Module):
    """A target that kills its process at a call, if told so."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(48, 4))

    def forward(self, x):
        global CALLS
        CALLS += bool(len(x))
        if CALLS == int(os.environ.get("DIES_AT_CALL", -1)):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.net(x)


def target():
    return Deadly()


@dataclass(frozen=True)
class Remembering:
    """Antithetic differences, averaged with the estimates before. Cost: 2·pairs + 1.

    Attributes:
        pairs: Pairs of opposite probes.
        memory: The share of the estimates before.
        weights: Not used; a pair.
    """

    cost = "2·pairs + 1"

    pairs: int = 3
    memory: float = 0.5
    weights: tuple[float, float] = (1.0, 2.0)

    def init(self, x):
        return torch.zeros_like(x)

    def estimate(self, state, x, f, rng):
        u = sphere(self.pairs, x, rng)
        answer = yield from ask(torch.cat([x + 0.01 * u, x - 0.01 * u]).clamp(0, 1))
        assert answer.scores.shape == (2 * self.pairs, 4), "scores of a resumed image are there too"
        rise = (answer.loss[: self.pairs] - answer.loss[self.pairs :]).to(u)
        gradient = unit(torch.einsum("n,nchw->chw", rise, u)) + self.memory * state
        return gradient, unit(gradient)


@dataclass(frozen=True, kw_only=True)
class Corners(Attack):
    """Random corners.

    Attributes:
        tries: How many.
        step: How far.
    """

    name = "corners"
    norms = ("linf",)
    uses_scores = False

    tries: int
    step: float = 0.7

    def flow(self, x, f, ball, rng):
        for _ in range(self.tries):
            yield from check(ball.project(x + self.step * torch.randn(x.shape, generator=rng).sign().to(x), x))


@dataclass(frozen=True)
class Odd(Corners):
    unkept: object = field(default_factory=object)
    tries: int = 1
    norms = ("l2", "linf")


@dataclass(frozen=True)
class Answering:
    def flow(self, x, f, ball, rng):
        return 3


class Wordy:
    def __init__(self, words):
        self.words = words

    flow = Corners.flow


NUMBER = 3
'''
BUDGET, EPS = 60, 0.15


@pytest.fixture
def module(write_module: Callable[[str], str]) -> str:
    return write_module(MODULE)


def invoked(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.output


def test_it_is_killed_resumed_and_reported(module: str, tmp_path: Path) -> None:
    image_file(tmp_path, 6)
    file, out = tmp_path / "mine.toml", tmp_path / "out"
    file.write_text(
        f'target = "torch:{module}:target"\nimages = "images.npz"\nbudget = {BUDGET}\neps = {EPS}\nconcurrency = 2\n'
        f'[[method]]\nname = "{module}:Remembering"\npairs = [2, 3]\n[[method]]\nname = "rgf"\nq = 5\n'
    )
    words = [sys.executable, "-m", "dowse", "run", str(file), "--out", str(out), "--quiet"]
    killed = subprocess.run(words, cwd=tmp_path, env={**os.environ, "DIES_AT_CALL": "12"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    with Store(out) as store:
        before = len(list(store.rows()))
    assert before < 6, "the process died in the midst of the first run"
    invoked("run", file, "--out", out, "--quiet")

    source = open_images(tmp_path / "images.npz")
    x = torch.stack([source.read(i, None) for i in range(6)])
    with Store(out) as store:
        runs = {run.content["options"].get("pairs"): run for run in store.runs()}
        assert [runs[pairs].content["method"] for pairs in (2, 3, None)] == 2 * [f"{module}:Remembering"] + ["rgf"]
        assert runs[2].content["options"] == {"pairs": 2, "memory": 0.5, "weights": [1.0, 2.0]}
        assert runs[2].title == "Remembering pairs=2"
        for pairs in (2, 3):
            rows = [row for row in store.rows() if row.run == runs[pairs].id]
            expected = dowse.attack(
                f"torch:{module}:target", x, method=f"{module}:Remembering", pairs=pairs, budget=BUDGET, eps=EPS
            )
            assert [row.queries for row in rows] == expected.queries.tolist()
            assert [row.end for row in rows] == expected.end
            assert sum(row.sent for row in rows) - int(expected.sent.sum()) <= 2 * 7, "at most a round was lost"

    invoked("report", out)
    page = next(path for path in out.rglob("*.html")).read_text()
    assert "Remembering pairs=2" in page
    plan = json.loads(invoked("run", file, "--out", out, "--dry-run", "--json"))
    assert [run["done"] for run in plan["runs"]] == [6, 6, 6]


def test_on_the_command_line(module: str, tmp_path: Path) -> None:
    image_file(tmp_path, 2)
    base = ["--target", f"torch:{module}:target", "--images", tmp_path / "images.npz", "--budget", 30, "--quiet"]
    invoked("attack", *base, "--method", f"{module}:Corners", "--norm", "linf", "--tries", 4, "--out", tmp_path / "o")
    with Store(tmp_path / "o") as store:
        (run,) = store.runs()
        assert (run.content["method"], run.content["options"]) == (f"{module}:Corners", {"tries": 4})
    said = invoked("methods", f"{module}:Remembering")
    assert said.startswith("Remembering\n")  # it names no paper
    assert "queries an iteration: 2·pairs + 1\n" in said
    assert "queries an iteration" not in invoked("methods", f"{module}:Corners")
    assert "Pairs of opposite probes." in said


def test_by_name_and_as_an_object_it_is_the_same(module: str, tmp_path: Path) -> None:
    target, x, kind = f"torch:{module}:target", torch.rand(2, 3, 4, 4), find_method(f"{module}:Corners")
    named = dowse.attack(target, x, method=f"{module}:Corners", norm="linf", eps=0.1, tries=9)
    assert torch.equal(
        named.adversarial, dowse.attack(target, x, method=kind(tries=9), norm="linf", eps=0.1).adversarial
    )
    shorter = dowse.attack(target, x, method=f"{module}:Corners", norm="linf", eps=0.1, tries=9, step=0.01)
    assert not torch.equal(named.adversarial, shorter.adversarial)


@pytest.mark.parametrize(
    ("method", "match"),
    [
        ("no_such_module:Corners", r"cannot import 'no_such_module'.*run from its folder, or put that on PYTHONPATH"),
        ("MODULE:Corner", "has no 'Corner': did you mean 'Corners'"),
        ("MODULE:", "names no class: write package.module:Class"),
        ("MODULE:NUMBER", "is a int, not a class"),
        ("MODULE:Deadly", r"an estimator \(init, estimate\) or an attack \(flow\), got Deadly; see docs/extending.md"),
        ("MODULE:Corners", "option 'tries' of corners has no default: give it a value"),
        ("MODULE:Wordy", "write it as a dataclass, whose fields are its options"),
        ("corners", "is unknown.*package.module:Class"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_remedy(module: str, method: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        dowse.attack(torch.nn.Flatten(), torch.rand(1, 3, 4, 4), method=method.replace("MODULE", module), norm="linf")


def test_a_flow_that_is_no_generator_is_told_in_a_line(module: str, tmp_path: Path) -> None:
    words = ["--target", f"torch:{module}:target", "--images", image_file(tmp_path, 2), "--out", tmp_path / "out"]
    ended = CliRunner().invoke(app, ["attack", "--method", f"{module}:Answering", *map(str, words)])
    assert ended.exit_code == 2, ended.exception
    assert "flow of Answering must be a generator (yield …), it returned 3; see docs/extending.md" in ended.stderr


def test_a_norm_it_is_not_for_is_refused(module: str) -> None:
    with pytest.raises(InputError, match="'corners' is defined for linf, not for l2"):
        dowse.attack(torch.nn.Flatten(), torch.rand(1, 3, 4, 4), method=f"{module}:Corners", tries=3)


def test_an_option_that_no_store_can_keep_is_refused(module: str) -> None:
    said = {"target": "dowse:a", "images": "x.npz", "method": f"{module}:Odd"}
    with pytest.raises(InputError, match=r"option unkept=<object .*cannot be kept in a store"):
        expand(make_experiment(said, source="test"), lambda target: "")
