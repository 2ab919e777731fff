"""`dowse check`: the preflight on the command line, its table, its JSON and its exit status."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from dowse.cli import app
from tests.support import Tanh
from tests.v2server import Clock, serving

WIDE = {"COLUMNS": "240", "TERM": "dumb", "NO_COLOR": "1"}
NETS = """
import torch
from torch import nn

def good():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 4))

def sure():
    return nn.Sequential(good(), nn.Softmax(1))

class Closed(nn.Module):
    def forward(self, x):
        raise RuntimeError("[red]closed[/red] on Sundays")

class Changed(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.net, self.how, self.rng = good(), how, torch.Generator().manual_seed(0)
    def forward(self, x):
        scores = self.net(x)
        return {
            "nan": scores * float("nan"),
            "chance": torch.randn(scores.shape, generator=self.rng),
            "noise": scores + 1e-3 * torch.randn(scores.shape, generator=self.rng),
            "rounded": scores.softmax(1).round(decimals=2),
            "flat": scores * 0,
            "company": scores - scores.mean(0),
            "one": scores[:, :1],
            "array": scores.softmax(1).numpy(),
            "bare": scores[0],
        }[self.how]
"""


@pytest.fixture
def nets(write_module):
    return f"torch:{write_module(NETS)}"


def check(*words):
    return CliRunner().invoke(app, ["check", "--seconds", "0", *words], env=WIDE)


def test_a_sound_target_ends_with_0(nets):
    result = check("--target", f"{nets}:good", "--shape", "3x4x4")
    assert result.exit_code == 0, result.output
    for word in ("pixels", "outputs", "rounding", "determinism", "batch", "sensitivity", "labels", "speed"):
        assert word in result.output
    assert "nothing is wrong; it cost" in result.output


def test_what_is_wrong_ends_with_1_and_says_what_to_do(nets):
    result = check("--target", f"{nets}:sure", "--shape", "3x4x4")
    assert result.exit_code == 1
    assert "say outputs='probs'" in result.output
    assert "something is wrong" in result.output
    assert check("--target", f"{nets}:sure", "--shape", "3x4x4", "--outputs", "probs").exit_code == 0


def test_json_is_one_object_and_nothing_else(nets):
    result = check("--target", f"{nets}:sure", "--shape", "3x4x4", "--json")
    assert result.exit_code == 1
    record = json.loads(result.output)
    assert record["ok"] is False
    assert {"check": "outputs", "verdict": "wrong"}.items() <= record["findings"][2].items()


def test_a_target_that_fails_is_shown_as_it_speaks(nets):
    result = check("--target", f"{nets}:Closed", "--shape", "3x4x4")
    assert result.exit_code == 1
    assert "RuntimeError: [red]closed[/red] on Sundays" in result.output


@pytest.mark.parametrize(
    ("how", "check_name", "verdict", "remedy"),
    [
        ("nan", "answer", "wrong", "mend the target"),
        ("chance", "determinism", "wrong", "succeeds by chance"),
        ("noise", "determinism", "note", "repeats=4"),
        ("rounded", "rounding", "note", "starts as long as a step"),
        ("flat", "answer", "wrong", "scale of its input"),
        ("company", "batch", "wrong", "Call eval()"),
        ("bare", "answer", "wrong", "scores (n, K)"),
    ],
)
def test_each_defect_is_found_and_has_its_remedy(nets, how, check_name, verdict, remedy):
    result = check("--target", f"{nets}:Changed#how={how}", "--shape", "3x4x4", "--json")
    (found,) = [one for one in json.loads(result.output)["findings"] if one["check"] == check_name]
    assert found["verdict"] == verdict
    assert remedy in found["remedy"]
    if verdict == "wrong":
        assert result.exit_code == 1


@pytest.mark.parametrize(
    ("how", "form"), [("one", "one logit for two classes"), ("array", "float NCHW in, probabilities out")]
)
def test_the_form_of_a_model_is_said(nets, how, form):
    result = check("--target", f"{nets}:Changed#how={how}", "--shape", "3x4x4", "--json")
    assert result.exit_code == 0, result.output
    (found,) = [one for one in json.loads(result.output)["findings"] if one["check"] == "form"]
    assert form in found["found"]


def test_a_server_that_is_not_there_and_one_that_dies(monkeypatch):
    clock = Clock().install(monkeypatch)
    with serving(Tanh(1), ["ok", "die"]) as server:
        dies = check("--target", f"{server.url}#timeout=600&connections=1", "--json")
        gone = check("--target", server.url)
    assert dies.exit_code == 1
    wrong = [one["found"] for one in json.loads(dies.output)["findings"] if one["verdict"] == "wrong"]
    assert wrong
    assert all(f"{server.url} did not answer" in found for found in wrong)
    assert json.loads(dies.output)["queries"] == server.rows_answered == 16
    assert gone.exit_code == 2
    assert "is the server up?" in gone.stderr
    assert 0 < clock.now < 60, "who is not there is not waited for long"


def test_a_shape_that_is_not_square(write_module, tmp_path):
    name = write_module(NETS.replace("48", "60"))
    np.savez(tmp_path / "set.npz", images=np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8))
    for words in ([], ["--images", "set.npz"]):
        result = check("--target", f"torch:{name}:good", "--shape", "3x4x5", *words, "--json")
        assert result.exit_code == 0, result.output
        assert "images 3×4×5" in json.loads(result.output)["findings"][0]["found"]


def test_images_and_labels_of_ones_own(nets, tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6, 4, 4, 3), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", images=images, labels=np.full(6, 9))
    result = check("--target", f"{nets}:good", "--images", str(tmp_path / "set.npz"), "--count", "5", "--json")
    assert result.exit_code == 1
    record = json.loads(result.output)
    assert len(record["labels"]) == 5
    assert any("0 of 5 images" in finding["found"] for finding in record["findings"])
    np.savez(tmp_path / "right.npz", images=images, labels=np.array(record["labels"] + [0]))
    assert check("--target", f"{nets}:good", "--images", str(tmp_path / "right.npz"), "--count", "5").exit_code == 0


@pytest.mark.filterwarnings("default:left out")
def test_an_image_that_cannot_be_read_is_named_in_a_line(nets, tmp_path):
    Image.new("RGB", (4, 4), (9, 99, 199)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_text("none")
    result = check("--target", f"{nets}:good", "--images", str(tmp_path))
    assert result.stderr.startswith("warning: left out b.png: cannot identify")
    assert ".py:" not in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "dowse:cifar10_resnet21"], "no classifier is named"),
        (["--target", "NETS:good"], "does not say which images it takes"),
        (["--target", "NETS:good", "--shape", "4x4"], "CxHxW"),
        (["--target", "NETS:good", "--shape", "3x4x4", "--outputs", "prob"], "did you mean 'probs'"),
        (["--target", "NETS:good", "--images", "nowhere"], "no images at nowhere"),
        (["--target", "onnx:nowhere.onnx"], "there is no file"),
    ],
)
def test_bad_input_ends_with_2(nets, words, said):
    result = check(*(word.replace("NETS", nets) for word in words))
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_built_in_model_on_real_images(shared, monkeypatch):
    monkeypatch.setenv("DOWSE_SHARED", str(shared))
    images = str(shared / "data" / "cifar10_test1000.npz")
    result = check("--target", "dowse:cifar10_resnet20", "--images", images, "--json", "--threads", "1")
    assert result.exit_code == 0, result.output
    record = json.loads(result.output)
    assert any("8 of 8 images are classified as labelled" in finding["found"] for finding in record["findings"])
    assert torch.get_num_threads() == 1
