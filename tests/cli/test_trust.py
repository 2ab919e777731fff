"""On the command line a broken target, or an input nobody can use, is an error with its cause, never a row of zeros."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture
from typer.testing import CliRunner

from dowse.cli import app
from dowse.cli.rows import collect
from tests.victims import image_file

NETS = """
import torch
from torch import nn

class Broken(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how
    def forward(self, x):
        if self.how == "grey":
            return nn.functional.conv2d(x, torch.zeros(1, 1, 1, 1)).flatten(1)[:, :4]
        scores = x.flatten(1)[:, :4]
        return scores * float("nan") if self.how == "nan" else scores

def net(how="well"):
    return Broken(how)
"""


@pytest.fixture
def nets(write_module: Callable[[str], str]) -> str:
    return f"torch:{write_module(NETS)}:net"


def command(folder: Path, target: str, *words: object, images: object = None) -> tuple[int, str]:
    """Exit status and standard error of `dowse attack`, which never ends with a traceback."""
    base = ["--target", target, "--images", images or image_file(folder, 3), "--method", "rgf", "--out", folder / "out"]
    result = CliRunner().invoke(app, ["attack", *map(str, [*base, "--budget", 20, "--q", 4, *words])])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result.exit_code, result.stderr


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
@pytest.mark.parametrize(
    ("how", "cause"), [("grey", "RuntimeError: Given groups=1"), ("nan", "answered with NaN or infinite scores")]
)
def test_a_target_that_fails_on_every_image(nets: str, tmp_path: Path, how: str, cause: str, quiet: tuple[str]) -> None:
    status, said = command(tmp_path, f"{nets}#how={how}", *quiet)
    assert status == 1
    assert "error: the target failed on 3 of 3 images of rgf" in said
    assert cause in said


def test_images_that_are_all_misclassified(nets: str, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for i in range(3):
        Picture.fromarray(np.full((4, 4, 3), 90 + 9 * i, np.uint8)).save(tmp_path / "images" / f"{i}.png")
    (tmp_path / "labels.csv").write_text("file,label\n0.png,3\n1.png,3\n2.png,3\n")
    status, said = command(tmp_path, nets, "--labels", tmp_path / "labels.csv", "--quiet", images=tmp_path / "images")
    assert (status, "misclassifies all 3 unchanged. Check their labels" in said) == (1, True)


def test_images_that_cannot_be_read(nets: str, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("a.png", "b.png"):
        (tmp_path / "images" / name).write_bytes(b"no picture")
    status, said = command(tmp_path, nets, "--quiet", images=tmp_path / "images")
    assert (status, "no image of rgf q=4 could be read, the first, a.png" in said) == (1, True)


FACTORIES = """
import subprocess
from subprocess import check_output
from functools import partial
from torch import nn

def plain():
    return nn.Flatten()

def needy(depth):
    return nn.Flatten()

def failing():
    raise KeyError("weights")

ready = nn.Flatten()
hidden = partial(subprocess.check_output, ["true"])
"""
REFUSED = "must come from a module that you name with --trust"
BAD_TARGETS = [
    ("torch:{m}:plain#depth=3", r"takes (), got depth=3: got an unexpected keyword argument 'depth'"),
    ("torch:{m}:needy", "got no option: missing a required argument: 'depth'"),
    ("torch:{m}:failing", "failed to make a network: KeyError: 'weights'"),
    ("torch:{m}:ready#depth=3", "takes no options, got depth"),
    ("torch:{m}:check_output#args=true", REFUSED),
    ("torch:{m}:hidden", REFUSED),
    ("torch:os:system", REFUSED),
    ("torch:os.path:join", REFUSED),
    ("torch:subprocess:check_output#args=ls", REFUSED),
    ("jpeg:75+torch:builtins:eval", REFUSED),
    ("onnx:torch:runpy:run_path", REFUSED),
]


@pytest.mark.parametrize(("target", "said"), BAD_TARGETS)
def test_factories_that_cannot_be_used(
    write_module: Callable[[str], str], tmp_path: Path, target: str, said: str
) -> None:
    status, heard = command(tmp_path, target.format(m=write_module(FACTORIES)))
    assert (status, said in heard) == (2, True), heard


def test_a_module_elsewhere_must_be_trusted(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOWSE_TRUST", "")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "far_away_nets.py").write_text(NETS)
    monkeypatch.syspath_prepend(str(elsewhere))
    monkeypatch.chdir(tmp_path)
    status, said = command(tmp_path, "torch:far_away_nets:net")
    assert (status, f"{REFUSED}" in said, "say --trust far_away_nets" in said) == (2, True, True)
    assert command(tmp_path, "torch:far_away_nets:net", "--trust", "far_away_nets")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--device", "cuda"), "--device cuda cannot be used on this machine"),
        (("--device", "tpu9"), "--device tpu9 cannot be used on this machine"),
        (("--seed", 2**70), "seed must be a whole number that fits 64 bits"),
        (("--budget", 10**30), "budget must be a whole number that fits 64 bits"),
        (("--q", 10**9, "--budget", 10**10), "this machine has"),
        (("--norm", "linf", "--eps", 8), "write 8/255 if that is meant"),
        (("--eps", 7), "any would do"),
        (("--eps", "8/0"), "eps"),
        (("--no-answers", "--keep-answers"), "leave one of them out"),
        (("--size", 100_000), "1 to 4096 pixels"),
    ],
)
def test_settings_that_cannot_be_meant(nets: str, tmp_path: Path, words: tuple[object], said: str) -> None:
    status, heard = command(tmp_path, nets, *words)
    assert (status, said in heard) == (2, True), heard


def test_a_budget_that_is_too_small_for_one_step_is_said(nets: str, tmp_path: Path) -> None:
    words = ["--target", nets, "--images", image_file(tmp_path, 1), "--method", "rgf", "--q", 50, "--budget", 50]
    said = CliRunner().invoke(app, ["attack", *map(str, [*words, "--out", tmp_path / "out"])]).output
    assert "rgf q=50 cannot succeed with budget=50" in said
    assert "give a budget of 52 at least, or a smaller q" in said


def test_numbers_as_people_write_them(nets: str, tmp_path: Path) -> None:
    from dowse.store import Store

    for eps in ("8/255", 8 / 255, "{linf = '8/255'}"):
        assert command(tmp_path, nets, "--norm", "linf", "--eps", eps, "--budget", "2e1")[0] == 0
    with Store(tmp_path / "out") as store:
        (run,) = store.runs()
        assert (run.content["eps"], run.budget) == (8 / 255, 20)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("0.png,1\n0.png,2\n", "labels 0.png as 2, a line before as 1: keep one"),
        ("../0.png,1\n", "leaves the folder of the images with '../0.png'"),
    ],
)
def test_tables_of_labels_that_cannot_be_meant(nets: str, tmp_path: Path, table: str, said: str) -> None:
    (tmp_path / "images").mkdir()
    Picture.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "images" / "0.png")
    (tmp_path / "images" / "labels.csv").write_text(f"file,label\n{table}")
    status, heard = command(tmp_path, nets, images=tmp_path / "images")
    assert (status, said in heard) == (2, True), heard


@pytest.mark.parametrize(
    ("images", "said"),
    [
        (np.full((2, 3, 4, 4), 200.0), "must lie in [0, 1], got [200, 200]: divide them by 255"),
        (np.full((2, 3, 4, 4), np.nan), "must lie in [0, 1], got [nan, nan]"),
        (np.zeros((2, 3, 4, 4), np.uint8), "images.transpose(0, 2, 3, 1) makes NHWC of NCHW"),
    ],
)
def test_arrays_that_are_no_images(nets: str, tmp_path: Path, images: np.ndarray, said: str) -> None:
    np.savez(tmp_path / "some.npz", images=images)
    status, heard = command(tmp_path, nets, images=tmp_path / "some.npz")
    assert (status, said in heard) == (2, True), heard


def test_rows_say_the_radius_that_is_the_default(nets: str, tmp_path: Path) -> None:
    assert command(tmp_path, nets)[0] == 0
    (rows,) = {row["eps"] for row in collect(tmp_path / "out", None)}
    assert rows == pytest.approx((0.001 * 48) ** 0.5)


def test_labels_that_are_the_targets_own_are_said(nets: str, tmp_path: Path) -> None:
    words = ["--target", nets, "--images", image_file(tmp_path, 1), "--method", "rgf", "--q", 4, "--budget", 20]
    said = CliRunner().invoke(app, ["attack", *map(str, [*words, "--out", tmp_path / "out"])]).output
    assert "each is attacked as what the target itself takes it for" in said


@pytest.mark.parametrize("command", ["run", "attack"])
def test_help_says_that_code_is_run(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert "can run code" in result.output
    assert "--trust" in result.output
