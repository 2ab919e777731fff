"""On the command line a broken target, or an input nobody can use, is an error with its cause, never a row of zeros."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture
from typer.testing import CliRunner

from dowse.cli import app
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
        Picture.fromarray(np.full((4, 4, 3), 9 * i, np.uint8)).save(tmp_path / "images" / f"{i}.png")
    (tmp_path / "labels.csv").write_text("file,label\n0.png,3\n1.png,3\n2.png,3\n")
    status, said = command(tmp_path, nets, "--labels", tmp_path / "labels.csv", "--quiet", images=tmp_path / "images")
    assert (status, "misclassifies all 3 unchanged. Check their labels" in said) == (1, True)


def test_images_that_cannot_be_read(nets: str, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for name in ("a.png", "b.png"):
        (tmp_path / "images" / name).write_bytes(b"no picture")
    status, said = command(tmp_path, nets, "--quiet", images=tmp_path / "images")
    assert (status, "no image of rgf q=4 could be read, the first, a.png" in said) == (1, True)
