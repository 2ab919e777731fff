"""`dowse export`: a file that answers like its module, and `dowse check` on it."""

import pytest
import torch
from typer.testing import CliRunner

from dowse.cli import app
from dowse.targets import resolve_target

NETS = """
import torch
from torch import nn

def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))

class Undecided(nn.Module):
    def forward(self, x):
        return torch.zeros(len(x), 3) if x.sum() > 0 else torch.ones(len(x), 2)
"""


@pytest.fixture
def nets(write_module):
    return f"torch:{write_module(NETS)}"


def run(*words):
    return CliRunner().invoke(app, [*words], env={"COLUMNS": "240", "NO_COLOR": "1"})


@pytest.mark.slow
def test_the_file_answers_like_the_module(nets, tmp_path):
    file = tmp_path / "small.onnx"
    result = run("export", f"{nets}:small", "--out", str(file), "--shape", "3x4x4")
    assert result.exit_code == 0, result.output
    assert "3×4×4 images, 5 classes, any number of rows" in result.output
    assert f"use it as --target onnx:{file}" in result.output
    x = torch.rand(7, 3, 4, 4)
    module, exported = resolve_target(f"{nets}:small"), resolve_target(f"onnx:{file}")
    for rows in (1, 2, 7):
        assert torch.allclose(exported(x[:rows]), module(x[:rows]), atol=1e-5)
    assert run("check", "--target", f"onnx:{file}", "--seconds", "0").exit_code == 0
    again = run("export", f"onnx:{file}", "--out", str(tmp_path / "again.onnx"))
    assert "only a torch network can be exported (an ONNX file is one already), and 'onnx:" in again.stderr
    assert "surrogate" not in again.stderr


@pytest.mark.slow
def test_a_fixed_batch_size_and_a_file_that_is_replaced_or_left_alone(nets, tmp_path):
    file = tmp_path / "net.onnx"
    file.write_bytes(b"something older")
    refused = run("export", f"{nets}:small", "--out", str(file), "--shape", "3x4x4", "--tolerance", "1e-30")
    assert refused.exit_code == 2
    assert "would answer differently" in refused.stderr
    assert file.read_bytes() == b"something older", "a file that does not pass replaces nothing"
    result = run("export", f"{nets}:small", "--out", str(file), "--shape", "3x4x4", "--batch-size", "4")
    assert result.exit_code == 0, result.output
    assert "4 rows at a time" in result.output
    module, exported = resolve_target(f"{nets}:small"), resolve_target(f"onnx:{file}")
    x = torch.rand(9, 3, 4, 4)
    assert exported.rows_per_call == 4
    for rows in (1, 4, 9):
        assert torch.allclose(exported(x[:rows]), module(x[:rows]), atol=1e-4)
    assert sorted(path.name for path in tmp_path.glob("*.onnx*")) == ["net.onnx"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["NETS:small", "--out", "x.onnx"], "does not say which images it takes: give --shape"),
        (["NETS:small", "--out", "nowhere/x.onnx", "--shape", "3x4x4"], "there is no folder nowhere"),
        (["NETS:none", "--out", "x.onnx", "--shape", "3x4x4"], "has no 'none'"),
        (["onnx:x.onnx", "--out", "y.onnx", "--shape", "3x4x4"], "there is no file"),
        (["NETS:small", "--out", "x.onnx", "--shape", "3x9x9"], "Give the shape that it was made for"),
        (["NETS:small#layout=NHWC", "--out", "x.onnx", "--shape", "3x4x4"], "only a torch network can be exported"),
        (["small", "--out", "x.onnx", "--shape", "3x4x4"], "is not a target"),
        (["NETS:small", "--out", "x.onnx", "--shape", "3x4"], "CxHxW"),
        (["NETS:small", "--out", "x.onnx", "--shape", "3x4x4", "--weights", "none.pt"], "none.pt"),
        (["randomization+NETS:small", "--out", "x.onnx", "--shape", "3x4x4"], "draws noise"),
        (["jpeg:75+NETS:small", "--out", "x.onnx", "--shape", "3x4x4"], "Jpeg is no network"),
    ],
)
def test_bad_input_ends_with_2_and_leaves_no_file(nets, tmp_path, words, said):
    result = run("export", *(word.replace("NETS", nets) for word in words))
    assert result.exit_code == 2
    assert said in result.stderr
    assert not list(tmp_path.glob("**/*.onnx*"))


@pytest.mark.slow
def test_a_module_that_cannot_be_exported_says_why(nets, tmp_path):
    result = run("export", f"{nets}:Undecided", "--out", "x.onnx", "--shape", "3x4x4")
    assert result.exit_code == 2
    assert "torch cannot export this module: GuardOnDataDependent" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("*.onnx*"))
