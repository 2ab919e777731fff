"""Real .tflite files, quantised and not, run by LiteRT: pixels in, scores out, one attack."""

from pathlib import Path

import numpy as np
import pytest
import torch

import dowse
from dowse.errors import TargetNote
from dowse.preflight import Verdict, preflight
from dowse.targets import input_shape, open_target
from dowse.targets.weights_digest import weights_digest
from tests.support import generator, pictures
from tests.tflite_files import write_tflite

pytestmark = pytest.mark.install
pytest.importorskip("ai_edge_litert.interpreter")

SHAPE = (3, 4, 5)
X = (pictures(6, shape=SHAPE) * 255).round().float() / 255
W = torch.randn(4, 60, generator=generator(0), dtype=torch.float64) * 0.5


def logits(x, weights=W):
    return x.double().permute(0, 2, 3, 1).flatten(1) @ weights.T


def file(folder: Path, dtype: str = "int8", head: str = "softmax", weights=W) -> str:
    return (
        f"tflite:{write_tflite(folder / f'{dtype}-{head}.tflite', weights.numpy(), (4, 5, 3), dtype=dtype, head=head)}"
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_quantised_classifier(tmp_path, dtype):
    target = open_target(file(tmp_path, dtype))
    target.expect("probs")
    scores, real = target(X), logits(X).softmax(1)
    assert (scores - real).abs().max() < 0.1, "8 bits of weights and of logits"
    assert torch.equal((scores * 256).round() / 256, scores)
    assert target.form == f"{dtype} NHWC in, probabilities in steps of 1/256 out"
    assert target.input_shape == input_shape(file(tmp_path, dtype)) == SHAPE
    assert (target.rows_per_call, target(X[:0]).shape) == (1, (0, 4))
    target.expect("logits")
    assert torch.equal(target(X).argmax(1), scores.argmax(1))
    assert float(target(X).min()) >= np.log(1 / 512) - 1e-9, "what is shown as zero is half a step"


def test_levels_by_hand_are_those_of_the_file(tmp_path):
    """scale=1 goes by the input's scale and zero point, which are those of pixels in [0, 1] here."""
    spec = file(tmp_path)
    assert torch.equal(open_target(spec)(X), open_target(f"{spec}#scale=1")(X))
    assert not torch.equal(open_target(spec)(X), open_target(f"{spec}#mean=0.5")(X))


def test_quantised_logits_and_floats(tmp_path):
    quantised, real = open_target(file(tmp_path, head="none")), open_target(file(tmp_path, "float32", "none"))
    assert (real(X) - logits(X)).abs().max() < 1e-4
    assert real.form == "float32 NHWC in, logits out"
    assert (quantised(X) - logits(X)).abs().max() < 0.5
    assert quantised.step == pytest.approx(32 / 255)
    assert quantised.form == "int8 NHWC in, logits in steps of 0.1255 out"
    probs = open_target(file(tmp_path, "float32"))
    assert torch.allclose(probs(X).softmax(1), logits(X).softmax(1), atol=1e-5)


def test_one_output_is_two_classes(tmp_path):
    target = open_target(file(tmp_path, head="sigmoid", weights=W[:1]))
    assert target(X[:0]).shape == (0, 2)
    target.expect("probs")
    assert (target(X)[:, 1:] - logits(X, W[:1]).sigmoid()).abs().max() < 0.1
    assert "one probability for two classes in steps of 1/256 out" in target.form


def test_an_attack(tmp_path):
    spec = file(tmp_path)
    y = open_target(spec)(X).argmax(1)
    with pytest.warns(TargetNote, match="TfliteTarget: int8 NHWC in, probabilities in steps of 1/256 out"):
        result = dowse.attack(spec, X, y, method="square", eps=2.0, budget=80, quantize=True)
    assert result.success.any()
    labels = open_target(spec)(result.adversarial).argmax(1)
    assert ((labels != y) == result.success).all()


def test_preflight_names_the_step(tmp_path):
    found = {one.check: one for one in preflight(open_target(file(tmp_path)), X, seconds=0).findings}
    assert found["rounding"].verdict is Verdict.NOTE
    assert "steps of 1/256" in found["rounding"].found
    assert found["outputs"].verdict is Verdict.GOOD


def test_its_file_is_part_of_a_runs_id(tmp_path):
    one = weights_digest(file(tmp_path))
    assert one
    assert one != weights_digest(file(tmp_path, "uint8"))


def test_what_cannot_be_used_is_said_in_a_sentence(tmp_path):
    (tmp_path / "broken.tflite").write_bytes(b"no model")
    spec = file(tmp_path)
    for given, said in (
        (f"tflite:{tmp_path}/none.tflite", "there is no file"),
        (f"tflite:{tmp_path}/broken.tflite", "LiteRT cannot read"),
        (f"{spec}#output=probs", "no output 'probs': known are scores"),
        (f"{spec}#outputs=odds", "outputs='odds' is unknown"),
        (f"{spec}#treads=2", "did you mean 'threads'"),
    ):
        with pytest.raises(dowse.InputError, match=said) as caught:
            open_target(given)
        assert "\n" not in str(caught.value)
    with pytest.raises(dowse.InputError, match="the images are 3×8×8"):
        dowse.attack(spec, torch.rand(1, 3, 8, 8))
