"""Bad input, a line each: what is wrong is said with a remedy before any query, and never with a traceback."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dowse.cli import app

NETS = """
import pathlib, torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=4, channels=3):
        super().__init__()
        self.classes, self.channels = classes, channels

    def forward(self, x):
        with pathlib.Path("asked").open("a") as file:
            file.write(f"{len(x)}\\n")
        if x.shape[1] != self.channels:
            raise RuntimeError(f"expected {self.channels} channels")
        means = x.mean((2, 3)).repeat(1, 4)[:, : self.classes]
        return means * torch.arange(1, self.classes + 1)

class Free(Net):
    def forward(self, x):
        return (x.mean((2, 3)).repeat(1, 4)[:, : self.classes] if x.shape[1] == self.channels else 1 / 0)

def plain():
    return Net().eval()

def needs(argument):
    return Net().eval()

def fails():
    raise KeyError("weights")

def two():
    return Free(classes=2).eval()

def grey():
    return Free(channels=1).eval()

def free():
    return Free().eval()

number = 5
"""
WORDS = {"--target": "torch:{nets}:plain", "--images": "good.npz", "--method": "rgf", "--budget": "20", "--q": "3"}
PRGF = {"--method": "prgf", "--surrogate": "torch:{nets}:free"}


def said(**changed: str) -> dict[str, str]:
    return {f"--{name.replace('_', '-')}": value for name, value in changed.items()}


BAD = [
    # targets
    (said(target="torch:{nets}:plain#depth=3"), r"takes \(\), got depth=3"),
    (said(target="torch:{nets}:needs"), "takes .argument., got no option"),
    (said(target="torch:{nets}:fails"), "failed to make a network: KeyError"),
    (said(target="torch:{nets}:number"), "must be a module or a function"),
    (said(target="torch:os:system"), "--trust os"),
    (said(target="torch:subprocess:check_output#args=ls"), "--trust subprocess"),
    (said(target="torch:..:net"), "--trust|fails as it is imported"),
    (said(target="torch:broken:net"), "broken fails as it is imported: SyntaxError"),
    (said(target="torch:leaving:net"), "leaving fails as it is imported: SystemExit"),
    (said(target="http://[::1/v2/models/x"), "is not a URL"),
    (said(target="dowse:nope"), "nope"),
    (said(target=""), "is not a target"),
    (said(target="onnx:nope.onnx"), "nope.onnx"),
    (said(defence="jpeg:x"), "jpeg"),
    (said(name=""), "--name takes 1 to 100 letters, got 0"),
    (said(name="x" * 101), "got 101"),
    # devices
    (said(device="cuda"), "--device cuda cannot be used"),
    (said(device="tpu9"), "--device tpu9 cannot be used"),
    # images and labels
    (said(images=""), "an empty path"),
    (said(images="nowhere"), "there are no images"),
    (said(images="nchw.npz"), r"\(n, H, W, C\)"),
    (said(images="bright.npz"), r"\[0, 1\]"),
    (said(images="folder", labels="twice.csv"), "twice|two labels"),
    (said(images="folder", labels="outside.csv"), r"\.\."),
    (said(images="far.npz"), "label 9 is out of range: the target has 4 classes"),
    (said(size="100000"), "4096"),
    # numbers
    (said(budget="1e30"), "64 bits"),
    (said(budget="0"), "budget"),
    (said(q="1000000000000"), "GiB"),
    (said(seed="1180591620717411303424"), "64 bits"),
    (said(norm="linf", eps="8"), "write 8/255"),
    (said(eps="1000"), "diameter"),
    (said(eps="8/0"), "eps"),
    (said(decimals="400"), "from 1 to 15"),
    (said(repeats="21"), "more than budget=20"),
    (said(step="nan"), "step"),
    # surrogates
    ({**PRGF, **said(surrogate="torch:{nets}:two")}, r"label 3 is none of the surrogate's 2 classes"),
    ({**PRGF, **said(surrogate="torch:{nets}:grey")}, r"the surrogate Free fails on images like these, \(3, 4, 4\)"),
    ({**PRGF, **said(class_offset="9")}, "none of the surrogate's 4 classes with class_offset=9"),
    ({**PRGF, **said(surrogate_size="100000")}, "4096"),
    ({**PRGF, **said(smooth="2")}, "must be odd"),
    ({**PRGF, **said(smooth="1000001")}, "4096 at most"),
    # what contradicts itself
    (said(rate="3"), "a limit of http targets"),
    (said(engine="local", workers="2"), "say engine processes"),
    (said(workers="0"), "'0' is neither auto nor a whole number"),
    (said(workers="all"), "'all' is neither auto nor a whole number"),
    (said(address="127.0.0.1:1"), "for the engine ray"),
    (said(lam="0.5"), "rgf has no option 'lam': known are"),
    (said(bugdet="30"), "rgf has no option 'bugdet': did you mean 'budget'"),
    (said(tread="1"), "rgf has no option 'tread': did you mean 'threads'"),
    (said(method="prgf"), "needs a surrogate: .*--surrogate SPEC"),
    (said(method="os:system"), "--trust os"),
    (said(trust="nope.net"), "no module 'nope.net' is here"),
    (said(trust=""), "no module '' is here"),
    (said(out=""), "a folder needs a name"),
    (said(quantize="--norm"), "it needs a value, <true|false>, and --norm is the next option"),
    (said(method="{nets}:number"), "not a class"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with images and modules to be wrong about."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    name = "bad_" + re.sub(r"\W", "_", tmp_path.name)
    (tmp_path / f"{name}.py").write_text(NETS)
    (tmp_path / "broken.py").write_text("def x(:\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    pixels = np.full((2, 4, 4, 3), 100, np.uint8)
    np.savez("good.npz", images=pixels, labels=np.array([3, 3]))
    np.savez("far.npz", images=pixels, labels=np.array([3, 9]))
    np.savez("nchw.npz", images=pixels.transpose(0, 3, 1, 2), labels=np.array([3, 3]))
    np.savez("bright.npz", images=pixels.astype(np.float32).transpose(0, 3, 1, 2), labels=np.array([3, 3]))
    (tmp_path / "folder").mkdir()
    (tmp_path / "twice.csv").write_text("file,label\na.png,1\na.png,2\n")
    (tmp_path / "outside.csv").write_text("file,label\n../a.png,1\n")
    return tmp_path


def invoked(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def spelt(folder: Path, changed: dict[str, str]) -> list[str]:
    (module,) = folder.glob("bad_*.py")
    return [word.replace("{nets}", module.stem) for pair in ({**WORDS, **changed}).items() for word in pair]


@pytest.mark.filterwarnings("ignore:the surrogate has")
@pytest.mark.parametrize(("changed", "message"), BAD, ids=[" ".join(one.values())[:40] for one, _ in BAD])
def test_bad_input_is_refused_with_its_cause_before_any_query(
    folder: Path, changed: dict[str, str], message: str
) -> None:
    status, output = invoked("attack", "--out", "out", *spelt(folder, changed), "--quiet")
    assert status == 2, output
    assert re.search(message, output), output
    asked = folder / "asked"
    assert not asked.is_file() or {*asked.read_text().split()} <= {"0"}, "a pass of no rows is no query"


@pytest.mark.parametrize(
    ("changed", "radius", "budget"),
    [
        (said(eps="8/255", norm="linf"), 8 / 255, 20),
        (said(eps="0.5", budget="1e2"), 0.5, 100),
        (said(eps=" 1 / 4 ", budget="1_0"), 0.25, 10),
    ],
)
def test_numbers_as_people_write_them(folder: Path, changed: dict[str, str], radius: float, budget: int) -> None:
    from dowse.store import Store

    assert invoked("attack", *spelt(folder, changed), "--out", "out", "--quiet")[0] == 0
    with Store("out") as store:
        (run,) = store.runs()
    assert (run.content["eps"], run.budget) == (pytest.approx(radius), budget)


@pytest.mark.parametrize(
    ("text", "words", "wanted"),
    [
        ('eps = "8/255"\nnorm = "linf"\nbudget = 20', (), (8 / 255, 20)),
        ('eps = {l2 = "1/4"}\nbudget = 1e2', (), (0.25, 100)),
        ("eps = 0.5\nbudget = 20", ("--budget", "1e1"), (0.5, 10)),
    ],
)
def test_numbers_as_people_write_them_in_a_file(
    folder: Path, text: str, words: tuple[str, ...], wanted: tuple[float, int]
) -> None:
    from dowse.store import Store

    target = spelt(folder, {})[1]
    Path("e.toml").write_text(f'target = "{target}"\nimages = "good.npz"\n{text}\n[method]\nname = "rgf"\nq = 3\n')
    status, output = invoked("run", "e.toml", "--out", "out", "--quiet", *words)
    assert status == 0, output
    with Store("out") as store:
        (run,) = store.runs()
    assert (run.content["eps"], run.budget) == (pytest.approx(wanted[0]), wanted[1])


@pytest.mark.parametrize("budget", ["inf", "nan", "1e400", "0", "-1", "x", "1.5", "true"])
def test_a_budget_that_is_no_number_is_refused(folder: Path, budget: str) -> None:
    Path("e.toml").write_text('target = "dowse:a"\nimages = "good.npz"\nmethod = "rgf"\n')
    status, output = invoked("run", "e.toml", "--budget", budget)
    assert status == 2
    assert "no whole number of at least 1" in output


def test_more_probes_than_the_budget_are_told_of(folder: Path) -> None:
    _, output = invoked("attack", *spelt(folder, said(q="30")), "--out", "out")
    assert "cannot succeed with budget=" in output


def test_a_targeted_run_without_classes_to_reach_is_refused(folder: Path) -> None:
    status, output = invoked("attack", *spelt(folder, {}), "--targeted", "--out", "out")
    assert status == 2
    assert "target_label" in output
    assert not (folder / "asked").is_file() or {*(folder / "asked").read_text().split()} <= {"0"}
    assert not (folder / "out").exists(), "no run is entered that cannot be run"


@pytest.mark.parametrize(
    "changed",
    [
        said(defence="jpg:75"),
        said(target="jpeg:175+torch:{nets}:plain"),
        said(reveals="top5"),
        said(decimals="-1"),
        {**PRGF, **said(smooth="4")},
    ],
    ids=str,
)
def test_words_are_refused_before_a_run_is_entered(folder: Path, changed: dict[str, str]) -> None:
    status, _ = invoked("attack", "--out", "out", *spelt(folder, changed), "--quiet")
    assert status == 2
    assert not (folder / "out").exists()


def test_logging_nothing_and_keeping_it_is_refused(folder: Path) -> None:
    status, output = invoked("attack", *spelt(folder, {}), "--no-answers", "--keep-answers")
    assert status == 2
    assert "leave one of them out" in output


def test_a_shape_beyond_any_image_is_refused(folder: Path) -> None:
    status, output = invoked("check", "--target", spelt(folder, {})[1], "--shape", "3x100000x100000")
    assert status == 2
    assert "no side of an image may be larger than 4096" in output
