"""ONNX files as targets: free and fixed batch sizes, element types, layouts, and files that cannot be used."""

from contextlib import closing

import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import dowse
from dowse.core.oracle import Oracle
from dowse.core.reply import Request
from dowse.experiment.file import make_experiment
from dowse.maths.losses import Objective
from dowse.running.engines import LocalEngine
from dowse.running.run_experiment import run_experiment
from dowse.targets import declared_shape, resolve_target
from dowse.targets.declared_form import form_of
from dowse.targets.export import export_onnx
from dowse.targets.onnx import OnnxTarget
from dowse.targets.options import InputOptions, OnnxOptions
from tests.support import generator, pictures
from tests.victims import image_file, tables

SHAPE = (3, 4, 4)
W = torch.randn(5, 48, generator=generator(0))
ELEMENTS = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    "half": TensorProto.FLOAT16,
    "byte": TensorProto.UINT8,
}


def write(path, *, batch="n", element="float", image=SHAPE, output="scores", two_inputs=False):
    """A linear classifier as an ONNX file: cast to float, flatten, multiply by W."""
    nodes = [
        helper.make_node("Cast", ["pixels"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["cast"], ["flat"]),
        helper.make_node("MatMul", ["flat", "W"], [output]),
    ]
    inputs = [helper.make_tensor_value_info("pixels", ELEMENTS[element], [batch, *image])]
    if two_inputs:
        inputs.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1]))
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, [batch, 5])]
    weights = [numpy_helper.from_array(W.T.contiguous().numpy(), "W")]
    graph = helper.make_graph(nodes, "linear", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def test_a_run_opens_its_target_once(file, tmp_path, monkeypatch):
    opened, session = [], onnxruntime.InferenceSession
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *a, **k: opened.append(1) or session(*a, **k))
    said = tables(image_file(tmp_path, 3), target=f"onnx:{write(file)}", dtype="float32", budget=20)
    experiment = make_experiment(said | {"method": ["rgf", "nes"]}, source="test")
    with closing(LocalEngine()) as engine:
        finished = run_experiment(experiment, tmp_path / "out", engine)
    assert [len(run.rows) for run in finished] == [3, 3]
    assert len(opened) == 1, "once for its size and its answers, in both runs"


def expected(x):
    return x.float().flatten(1) @ W.T


@pytest.fixture
def file(tmp_path):
    return tmp_path / "net.onnx"


@pytest.mark.parametrize("batch", ["n", 1, 4])
@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_any_number_of_rows_whatever_the_files_batch_size(file, batch, rows):
    target = resolve_target(f"onnx:{write(file, batch=batch)}")
    x = pictures(rows, dtype=torch.float32)
    assert torch.allclose(target(x), expected(x), atol=1e-5)
    assert target.rows_per_call == (None if batch == "n" else batch)
    assert target(x[:0]).shape == (0, 5)


def test_the_rows_that_fill_a_fixed_batch_are_not_queries(file):
    target = OnnxTarget(write(file, batch=4))
    oracle = Oracle(target, Objective())
    (reply,) = oracle.ask([Request(pictures(6, dtype=torch.float32), 0)])
    assert (reply.sent, reply.answered) == (6, 6)
    assert oracle.batch_size == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("element", ["float", "double", "half"])
def test_element_types(file, element, dtype):
    target = OnnxTarget(write(file, element=element))
    x = pictures(3, dtype=dtype)
    assert torch.allclose(target(x), expected(x), atol=2e-2 if element == "half" else 1e-5)


def test_bytes_are_rounded_levels(file):
    target = OnnxTarget(write(file, element="byte"))
    x = pictures(3, dtype=torch.float32)
    assert torch.allclose(target(x), expected((x * 255).round()), atol=1e-2)


def test_channels_can_come_last(file):
    x = pictures(2, dtype=torch.float32, shape=(3, 4, 5))
    global W
    kept, W = W, torch.randn(5, 60, generator=generator(1))
    try:
        target = OnnxTarget(write(file, image=(4, 5, 3)))
        assert target.input_shape == (3, 4, 5)
        assert torch.allclose(target(x), expected(x.permute(0, 2, 3, 1)), atol=1e-5)
    finally:
        W = kept


def test_scale_mean_and_std(file):
    spec = f"onnx:{write(file)}#scale=255&mean=127&std=128,64,32"
    x = pictures(2, dtype=torch.float32)
    std = torch.tensor([128.0, 64.0, 32.0]).view(1, 3, 1, 1)
    assert torch.allclose(resolve_target(spec)(x), expected((255 * x - 127) / std), atol=1e-4)


def test_threads_follow_torch_unless_told(file):
    settings = OnnxTarget(write(file))._session.get_session_options()
    assert settings.intra_op_num_threads == torch.get_num_threads()
    settings = OnnxTarget(file, OnnxOptions(threads=2))._session.get_session_options()
    assert settings.intra_op_num_threads == 2


def test_a_file_says_which_images_it_takes(file):
    spec = f"onnx:{write(file)}"
    assert declared_shape(spec, resolve_target(spec)) == SHAPE
    write(file, image=("c", "h", "w"))
    assert declared_shape(spec, resolve_target(spec)) is None


def test_images_of_another_size_are_refused_before_any_query(file):
    target = OnnxTarget(write(file))
    with pytest.raises(dowse.InputError, match=r"the images are 3×5×5.*the model takes \(None, 3, 4, 4\)"):
        dowse.attack(target, torch.rand(1, 3, 5, 5), method="rgf", budget=3)


def test_names_of_inputs_and_outputs(file):
    write(file, output="logits", two_inputs=True)
    with pytest.raises(dowse.InputError, match="the inputs pixels, more: say which one with input="):
        OnnxTarget(file)
    write(file, output="logits")
    with pytest.raises(dowse.InputError, match="no output 'scores': known are logits"):
        OnnxTarget(file, OnnxOptions(output="scores"))
    assert OnnxTarget(file, OnnxOptions(input="pixels", output="logits"))(torch.rand(1, *SHAPE)).shape == (1, 5)


def test_a_broken_file_is_named(file):
    file.write_bytes(b"not a network")
    with pytest.raises(dowse.InputError, match=r"onnxruntime cannot read '.*net\.onnx'"):
        OnnxTarget(file)


def test_without_onnxruntime_the_extra_is_named(file, monkeypatch):
    write(file)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(dowse.InputError, match=r"pip install 'dowse\[onnx\]'"):
        OnnxTarget(file)


def test_a_whole_attack_on_a_file(file):
    target = OnnxTarget(write(file))
    x = pictures(3, dtype=torch.float32)
    result = dowse.attack(target, x, expected(x).argmax(1), method="rgf", q=10, eps=1.0, budget=500)
    assert result.success.all()
    label, scores = expected(x).argmax(1, keepdim=True), expected(result.adversarial)
    lead = scores.scatter(1, label, -torch.inf).amax(1) - scores.gather(1, label)[:, 0]
    assert (lead > -1e-4).all()  # in torch, up to rounding, as in the file


@pytest.mark.parametrize("options", [{"mean": (1.0, 2.0)}, {"std": (1.0, 2.0)}])
def test_mean_and_std_fit_the_channels(options):
    with pytest.raises(dowse.InputError, match="one for each channel, got 2"):
        form_of(None, "FP32", (3, 4, 4), InputOptions(**options))


def test_a_form_leaves_the_points_alone():
    points = torch.rand(2, 3, 4, 4)
    before = points.clone()
    form_of(None, "UINT8", (3, 4, 4), InputOptions(scale=255.0, mean=(1.0,), std=(2.0,))).encode(points)
    assert torch.equal(points, before)


class Chancy(nn.Module):
    """Answers otherwise every time it is called, so that no file can equal it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(48, 3)

    def forward(self, x):
        scores = self.layer(x.flatten(1))
        return scores + torch.rand_like(scores)


@pytest.mark.slow
def test_an_export_equals_its_module_and_one_that_does_not_leaves_nothing(tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5)).eval()
    made = export_onnx(net, tmp_path / "net.onnx", SHAPE, batch_size=4)
    assert (made.classes, made.input_shape, made.batch_size) == (5, SHAPE, 4)
    assert made.difference < 1e-5
    target = OnnxTarget(made.path)
    x = torch.rand(6, *SHAPE)
    assert target.rows_per_call == 4
    assert torch.allclose(target(x), net(x), atol=1e-5)
    before = made.path.read_bytes()
    with pytest.raises(dowse.InputError, match="would answer differently from the module"):
        export_onnx(Chancy().eval(), tmp_path / "net.onnx", SHAPE)
    assert made.path.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx"]


@pytest.mark.parametrize("shape", [(3, 4), (3, 0, 4), ()])
def test_an_export_needs_a_shape(tmp_path, shape):
    with pytest.raises(dowse.InputError, match=r"shape must be \(C, H, W\)"):
        export_onnx(nn.Flatten(), tmp_path / "net.onnx", shape)


def test_a_shape_that_the_module_does_not_take_is_said_in_a_line(tmp_path, capfd):
    with pytest.raises(dowse.InputError, match=r"fails on images 3×9×9.*\(2x243 and 48x5\). Give the shape"):
        export_onnx(nn.Sequential(nn.Flatten(), nn.Linear(48, 5)).eval(), tmp_path / "net.onnx", (3, 9, 9))
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_an_export_of_noise_or_to_nowhere_is_refused(tmp_path):
    noisy = nn.Flatten()
    noisy.takes_row_seeds = True
    with pytest.raises(dowse.InputError, match="draws noise"):
        export_onnx(noisy, tmp_path / "net.onnx", SHAPE)
    with pytest.raises(dowse.InputError, match="there is no folder"):
        export_onnx(nn.Flatten(), tmp_path / "nowhere" / "net.onnx", SHAPE)
