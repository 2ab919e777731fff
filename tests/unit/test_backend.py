"""The fast path: onnxruntime runs a torch network where it answers the same and sooner, and a store remembers that."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dowse
from dowse.core.target import Target
from dowse.errors import InputError
from dowse.experiment.file import make_experiment
from dowse.experiment.spec import RunSpec
from dowse.running.engines import LocalEngine
from dowse.running.progress import Reporter
from dowse.running.run_experiment import run_experiment
from dowse.store import Store
from dowse.targets import export_cache, fast, onnx, resolve_target
from dowse.targets.onnx import OnnxTarget
from dowse.targets.rows_per_pass import Tuned

pytest.importorskip("onnxruntime")
Choose = Callable[[str, Tensor, int, Target | None], fast.Choice]
HERE = "torch:tests.unit.test_backend"
SPEC = f"{HERE}:tiny"
X = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.body(x)
        return scores


class ByValue(Tiny):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if x.mean() > 0.4 else -x)


class Noisy(Tiny):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.rand(())


class Counting(Tiny):
    """Answers otherwise once it was asked for the fourth time: a state that no trace holds."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(x) + self.calls // 4


class Named(Tiny):
    """Answers with a dictionary."""

    def forward(self, x: Tensor) -> Any:
        return {"logits": super().forward(x)}


class Steady(nn.Module):
    """Takes large images, and says that its rows do not mind each other."""

    steady = True

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.body = nn.Sequential(nn.Conv2d(3, 4, 9, stride=9), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 5))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.body(x)
        return scores


class Unsteady(Steady):
    steady = False


class Apart(Tiny):
    """Small images, whose rows mind nothing beside them."""

    steady = True


class Crowded(Apart):
    """Small images, whose rows say how many share their pass."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1 + 1e-6 * torch.ones_like(x[:, :1, 0, 0]).sum())


class Pooled(Tiny):
    """Holds a step that the exporter by tracing cannot write, for pools of 4 do not divide 5; onnxruntime has it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + nn.functional.adaptive_avg_pool2d(x[..., :5, :5], 4).sum()


tiny, by_value, noisy, counting, named, pooled = Tiny, ByValue, Noisy, Counting, Named, Pooled
large, unsteady, small, crowded = Steady, Unsteady, Apart, Crowded
LARGE = torch.rand(3, 3, 72, 72, generator=torch.Generator().manual_seed(1))
SMALL = torch.rand(11, 3, 8, 8, generator=torch.Generator().manual_seed(2))


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def eager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every run is worth it and any speed is welcome: no test is to depend on a clock."""
    monkeypatch.setenv("DOWSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DOWSE_BACKEND")
    monkeypatch.setattr(fast, "WORTH", 0.0)
    monkeypatch.setattr(fast, "FASTER", 0.0)
    monkeypatch.setattr(fast, "tune_rows", lambda target, images: Tuned(4, 1.5))
    return tmp_path


def test_a_network_that_answers_the_same_is_run_by_onnxruntime() -> None:
    choice = fast.choose_backend(SPEC, X, 1000)
    assert choice.backend == fast.ONNXRUNTIME
    assert choice.words is not None
    assert choice.words.startswith(f"onnxruntime runs {SPEC}, ")
    assert "#backend=torch refuses" in choice.words
    target, net = fast.open_fast(SPEC, X[0]), resolve_target(SPEC)
    assert isinstance(target, OnnxTarget)
    for n in (1, 2, 5):
        points = torch.rand(n, 3, 8, 8)
        torch.testing.assert_close(target(points), net(points), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("name", "images", "calls", "exact"),
    [
        ("large", LARGE, 2, False),
        ("unsteady", LARGE, 1, False),
        ("tiny", X, 1, False),
        ("small", X, 2, True),
        ("crowded", X, 1, False),
    ],
)
def test_a_thread_a_call_where_no_row_minds_its_pass(name: str, images: Tensor, calls: int, exact: bool) -> None:
    target = fast.open_fast(f"{HERE}:{name}", images[0])
    assert isinstance(target, OnnxTarget)
    assert (target.calls_at_once, target.exact) == (calls, exact)
    assert target._session.get_session_options().intra_op_num_threads == 2 // calls


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("name", "images", "method", "eps"),
    [("large", LARGE, {"name": "rgf", "q": 9}, 0.4), ("small", SMALL, {"name": "square"}, 0.15)],
)
def test_images_that_do_not_wait_for_each_other_end_as_they_do_in_turns(
    eager: Path, name: str, images: Tensor, method: dict[str, Any], eps: float
) -> None:
    """Which of two calls ends first is luck; what becomes of an image is not."""
    ends = []
    for threads in (2, 1):
        torch.set_num_threads(threads)
        folder = eager / str(threads)
        folder.mkdir()
        run(folder, f"{HERE}:{name}", images=images, method=method, eps=eps, budget=300)
        with Store(folder / "out") as store:
            (only,) = store.runs()
            ends.append([(row.name, row.end, row.queries, round(row.loss, 5)) for row in store.rows(only.id)])
            assert any(row.success for row in store.rows(only.id))
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("by_value", "looks at values"),
        ("noisy", "otherwise the second time"),
        ("named", None),
        ("counting", "otherwise"),
    ],
)
def test_what_is_not_sure_to_be_the_same_stays_with_torch(name: str, words: str | None) -> None:
    choice = fast.choose_backend(f"{HERE}:{name}", X, 1000)
    assert choice.backend == fast.TORCH
    assert (choice.words is None) == (words is None)
    assert words is None or words in str(choice.words)


def test_a_module_is_handed_to_onnxruntime_by_name_of_a_function() -> None:
    net = Tiny().eval()
    target = dowse.through_onnxruntime(net, X)
    assert isinstance(target, OnnxTarget)
    torch.testing.assert_close(target(X), net(X), rtol=1e-4, atol=1e-5)
    both = [dowse.attack(asked, X, method="square", norm="linf", eps=0.3, budget=60) for asked in (target, net)]
    assert both[0].queries.tolist() == both[1].queries.tolist()
    with torch.no_grad():
        next(net.parameters()).mul_(-1)  # other weights are another file
    torch.testing.assert_close(dowse.through_onnxruntime(net, X)(X), net(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("net", "images", "words"),
    [
        (ByValue().eval(), X, "looks at values.* Hand the network itself"),
        (Noisy().eval(), X, "answers otherwise than torch.* Hand the network itself"),
        (Tiny(), X, r"call net.eval\(\)"),
        (len, X, "an nn.Module, got builtin_function_or_method"),
        (Tiny().eval(), X[0], r"x\[None\]"),
        (Tiny().eval(), X * 255, "divide by 255"),
        (Tiny().eval(), torch.rand(1, 3, 9, 9), "the network fails on images 3×9×9.* shape that it was made for"),
    ],
)
def test_what_onnxruntime_cannot_be_handed_is_said(net: Any, images: Tensor, words: str) -> None:
    with pytest.raises(InputError, match=words):
        dowse.through_onnxruntime(net, images)


def test_what_the_exporter_cannot_write_is_its_fault_and_prints_no_graph(capfd: pytest.CaptureFixture[str]) -> None:
    cause = r"torch's exporter by tracing could not write it.*adaptive_avg_pool2d.*`dowse export` uses another"
    choice = fast.choose_backend(f"{HERE}:pooled", X, 1000)
    assert re.search(rf"^torch runs {HERE}:pooled: {cause}", str(choice.words))
    with pytest.raises(InputError, match=rf"was given no file of this network: {cause}.* Hand the network itself"):
        dowse.through_onnxruntime(Pooled().eval(), X)
    assert capfd.readouterr() == ("", "")


def test_a_file_of_other_weights_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(net: nn.Module, path: Path, shape: Any, *, known: bool) -> None:
        with torch.no_grad():
            next(net.parameters()).mul_(1.01)
            trace(net, path, shape, known=known)
            next(net.parameters()).div_(1.01)

    trace = export_cache._trace
    monkeypatch.setattr(export_cache, "_trace", other)
    choice = fast.choose_backend(SPEC, X, 1000)
    assert choice.backend == fast.TORCH
    assert "would answer otherwise" in str(choice.words)
    with pytest.raises(InputError, match="answers otherwise than torch"):
        fast.open_fast(SPEC, X[0])


def test_small_runs_slow_files_and_missing_packages_stay_with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "FASTER", float("inf"))
    assert "times as fast" in str(fast.choose_backend(SPEC, X, 1000).words)
    monkeypatch.setattr(fast.importlib.util, "find_spec", lambda name: None)
    choice = fast.choose_backend(SPEC, X, 1000)
    assert choice.backend == fast.TORCH
    assert str(choice.words).startswith(f"torch runs {SPEC}: {fast.GAIN}. Passes of 4 rows")
    monkeypatch.setattr(fast, "WORTH", float("inf"))
    assert fast.choose_backend(SPEC, X, 1000) == fast.Choice()


def test_who_may_be_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for spec, may in {
        SPEC: True, "dowse:cifar10_resnet20": True, f"{SPEC}#backend=torch": False, f"{SPEC}#backend=auto": True,
        f"jpeg:75+{SPEC}": False, "onnx:net.onnx": False, "python:a.b:c": False, "http://127.0.0.1/v2/models/m": False,
    }.items():  # fmt: skip
        assert fast.may_be_fast(spec) == may
    with pytest.raises(InputError, match="backend='tensorrt' is unknown"):
        fast.may_be_fast(f"{SPEC}#backend=tensorrt")
    monkeypatch.setenv("DOWSE_BACKEND", "torch")
    assert not fast.may_be_fast(SPEC)


def test_the_backend_is_no_part_of_a_runs_id() -> None:
    plain, refused = (
        RunSpec(target=target, image_set="i", weights={target: "w"}) for target in (SPEC, f"{SPEC}#backend=torch")
    )
    assert plain.id == refused.id


class Told(Reporter):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def run(
    folder: Path, target: str = SPEC, budget: int = 20, all_messages: bool = False, images: Tensor = X, **more: Any
) -> list[str]:
    np.savez(folder / "images.npz", images=(255 * images.permute(0, 2, 3, 1)).byte().numpy())
    said = {
        "name": "t", "target": target, "method": {"name": "square"}, "eps": 0.05, "budget": budget,
        "images": {"path": str(folder / "images.npz"), "labels": "target"}, **more,
    }  # fmt: skip
    told = Told()
    run_experiment(make_experiment(said, source="test"), folder / "out", LocalEngine(), report=told)
    return [message for message in told.messages if all_messages or "onnxruntime" in message]


def recorded(folder: Path) -> list[str | None]:
    with Store(folder / "out") as store:
        return [run.backend for run in store.runs()]


def test_a_run_says_once_what_runs_it_and_goes_on_so(eager: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = run(eager)
    assert line.startswith("onnxruntime runs")
    assert recorded(eager) == [fast.ONNXRUNTIME]
    with pytest.raises(InputError, match=r"refuses onnxruntime\. A run that was begun through onnxruntime goes on so"):
        run(eager, f"{SPEC}#backend=torch", budget=40)
    monkeypatch.setattr(fast, "WORTH", float("inf"))
    assert run(eager, budget=40) == []
    assert recorded(eager) == [fast.ONNXRUNTIME]


@pytest.mark.parametrize("faster", [0.0, float("inf")])
def test_a_run_loads_its_network_and_its_file_once(eager: Path, monkeypatch: pytest.MonkeyPatch, faster: float) -> None:
    loaded, opened = [], []

    class Loaded(Tiny):
        def __init__(self) -> None:
            super().__init__()
            loaded.append(self)

    def watched(path: Path, threads: int) -> Any:
        opened.append(path)
        return session(path, threads)

    session = onnx._open
    monkeypatch.setattr(onnx, "_open", watched)
    monkeypatch.setattr(fast, "FASTER", faster)
    monkeypatch.setattr(sys.modules[__name__], "tiny", Loaded)
    run(eager, method=[{"name": "square"}, {"name": "rgf", "q": 9}])
    assert recorded(eager) == [fast.TORCH if faster else fast.ONNXRUNTIME] * 2
    assert (len(loaded), len(opened)) == (1, 1)


def test_a_run_that_was_begun_with_torch_goes_on_with_torch(eager: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(eager, f"{SPEC}#backend=torch") == []
    assert recorded(eager) == [None]
    opened: list[str] = []
    monkeypatch.setattr("dowse.running.networks.open_fast", lambda spec, like: opened.append(spec))
    assert run(eager, budget=40) == []
    assert recorded(eager) == [None]
    assert opened == []


def test_the_rows_of_a_pass_are_said_recorded_and_kept(eager: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[set[int]] = []

    def watched(target: OnnxTarget, points: Tensor, seeds: Tensor | None = None) -> Tensor:
        sizes[-1].add(len(points))
        return asked(target, points, seeds)

    asked = OnnxTarget.__call__
    monkeypatch.setattr(OnnxTarget, "__call__", watched)
    sizes.append(set())
    (line,) = run(eager, method={"name": "rgf", "q": 9})
    assert "Passes of 4 rows are 1.5 times as fast as the usual ones; --batch-size says otherwise" in line
    with Store(eager / "out") as store:
        assert [one.rows_per_pass for one in store.runs()] == [4]
    monkeypatch.setattr(fast, "tune_rows", lambda target, images: Tuned(7, 1.5))
    sizes.append(set())
    assert run(eager, method={"name": "rgf", "q": 9}, budget=40) == []
    by_hand = eager / "by hand"
    by_hand.mkdir()
    sizes.append(set())
    run(by_hand, method={"name": "rgf", "q": 9}, batch_size=3)
    assert [max(n for n in seen if n < 5) for seen in sizes] == [4, 4, 3], "comparisons have 5 or 6, timings 256"
    with Store(by_hand / "out") as store:
        assert [one.rows_per_pass for one in store.runs()] == [None]


def test_of_two_processes_that_begin_a_run_the_first_to_enter_it_decides(
    eager: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one makes up its mind, the other enters the run: with torch, or through onnxruntime."""
    chosen: list[str] = []

    def choose(first: Choose, then: Choose) -> Choose:
        def choosing(spec: str, images: Tensor, rows: int, opened: Target | None) -> fast.Choice:
            if not chosen:
                chosen.append("the other's")
                monkeypatch.setattr("dowse.running.networks.choose_backend", first)
                run(eager)
                monkeypatch.setattr("dowse.running.networks.choose_backend", choosing)
            return then(spec, images, rows, opened)

        return choosing

    def with_torch(spec: str, images: Tensor, rows: int, opened: Target | None) -> fast.Choice:
        return fast.Choice(fast.TORCH, "torch, not onnxruntime")

    monkeypatch.setattr("dowse.running.networks.choose_backend", choose(with_torch, fast.choose_backend))
    opened: list[str] = []
    monkeypatch.setattr("dowse.running.networks.open_fast", lambda spec, like: opened.append(spec))
    told = run(eager, budget=40, all_messages=True)
    assert any(line.startswith("another process has begun") and "with torch: so it goes on" in line for line in told)
    assert recorded(eager) == [fast.TORCH]
    assert opened == [], "it follows"


def test_double_precision_and_the_targets_own_gradient_stay_with_torch(eager: Path) -> None:
    assert run(eager, dtype="float64") == run(eager, method={"name": "whitebox"}) == []
    assert recorded(eager) == [None, None]
