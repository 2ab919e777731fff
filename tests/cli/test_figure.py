"""`dowse figure`: from specs and files to pictures, and what it says when something is missing."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from dowse.cli import app
from dowse.targets import resolve_target
from tests.support import labels_of

WIDE = {"COLUMNS": "240", "TERM": "dumb", "NO_COLOR": "1"}
NETS = """
import torch
from torch import nn

def net(seed=0):
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(72, 5)
    net = nn.Sequential(*layers)
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(4).add_(0.2 * torch.randn_like(p))
    return net
"""
LITTLE = ["--count", "3", "--q", "5", "--iterations", "3", "--lambdas", "3", "--samples", "4", "--slopes", "16"]


@pytest.fixture
def place(write_module, tmp_path):
    """Words for a small target, its surrogate, and images."""
    name = write_module(NETS)
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", images=images)
    return ["--target", f"torch:{name}:net", "--surrogate", f"torch:{name}:net#seed=1", "--images", "set.npz"]


def dowse(*words):
    return CliRunner().invoke(app, list(words), env=WIDE)


def test_a_figure_from_specs_and_again_from_json(place, tmp_path):
    result = dowse("figure", "figure1c", *place, *LITTLE, "--budget", "60", "--out", "figures")
    assert result.exit_code == 0, result.output
    assert "λ* reaches cosine" in result.output
    assert "figure1c.svg" in result.output
    record = json.loads((tmp_path / "figures" / "figure1c.json").read_text(encoding="utf-8"))
    assert record["about"]["image_set"] == "set.npz"
    assert len(record["numbers"]["transfer"]) == 3
    again = dowse("figure", "figure1c", "--redraw", "--out", "figures")
    assert again.exit_code == 0, again.output
    assert "λ* reaches cosine" in again.output


def test_figure2_from_a_store(place, tmp_path):
    for method in ("rgf", "prgf"):
        words = ["--method", method, "--q", "5", "--budget", "60", "--quiet", "--out", "store"]
        assert dowse("attack", *place, *words).exit_code == 0
    result = dowse("figure", "figure2", "--store", "store", "--out", "figures")
    assert result.exit_code == 0, result.output
    (panel,) = json.loads((tmp_path / "figures" / "figure2.json").read_text(encoding="utf-8"))["numbers"]["panels"]
    assert [curve["method"] for curve in panel["curves"]] == ["rgf", "prgf"]
    assert all(curve["attacked"] == 5 for curve in panel["curves"])
    assert (tmp_path / "figures" / "figure2.svg").is_file()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["figure3"], 2, "no figure is named 'figure3'"),
        (["figure2"], 2, "give --store DIR"),
        (["figure2", "--store", "nowhere"], 1, "nowhere"),
        (["figure1b", "--redraw"], 2, "no numbers to draw again"),
        (["figure1b", "--target", "onnx:nowhere.onnx"], 2, "there is no file"),
        (["figure1b", "--norm", "l1"], 2, "norm='l1' is unknown"),
        (["figure1b", "--images", "nowhere"], 2, "no images at nowhere"),
    ],
)
def test_bad_input(place, words, status, said):
    name, *others = words
    given = dict(zip(place[::2], place[1::2], strict=True))
    rest = [word for key, value in given.items() if key not in others for word in (key, value)]
    result = dowse("figure", name, *others, *rest, "--out", "figures")
    assert result.exit_code == status, result.output
    assert said in result.stderr


def test_wrongly_labelled_images_are_left_out(place, tmp_path):
    with np.load(tmp_path / "set.npz") as held:
        images = held["images"]
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    labels = labels_of(resolve_target(place[1]), pixels).numpy()
    labels[[0, 2]] = (labels[[0, 2]] + 1) % 5
    np.savez(tmp_path / "set.npz", images=images, labels=labels)
    result = dowse("figure", "figure1b", *place, *LITTLE, "--out", "figures")
    assert result.exit_code == 0, result.output
    about = json.loads((tmp_path / "figures" / "figure1b.json").read_text(encoding="utf-8"))["about"]
    assert about["images"] == ["1", "3", "4"]
    assert about["left_out"] == 2
    np.savez(tmp_path / "set.npz", images=images[[0, 2]], labels=labels[[0, 2]])
    result = dowse("figure", "figure1b", *place, *LITTLE, "--out", "figures")
    assert result.exit_code == 2
    assert "classifies none of the images as labelled" in result.stderr
