"""Each kind of model that people have goes through `dowse audit` as it is, from its file or its function."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from dowse.cli import app

pytestmark = pytest.mark.install

OWN = """
import numpy as np

def forest():
    from sklearn.ensemble import RandomForestClassifier
    rng = np.random.default_rng(0)
    rows = rng.random((60, 192))
    return RandomForestClassifier(5, random_state=0).fit(rows, rows[:, :96].sum(1) > rows[:, 96:].sum(1))

def nhwc(x):
    assert isinstance(x, np.ndarray) and x.shape[1:] == (8, 8, 3), "NHWC"
    return 9 * np.stack([x[:, :4].mean((1, 2, 3)), x[:, 4:].mean((1, 2, 3)), x[..., 0].mean((1, 2))], 1)

def sigmoid(x):
    assert isinstance(x, np.ndarray), "numpy"
    return 1 / (1 + np.exp(-9 * (x[:, :, :4].mean((1, 2, 3)) - x[:, :, 4:].mean((1, 2, 3)))))
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Models in the working folder's module, and four pictures without labels."""
    rng = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    for i in range(4):
        Image.fromarray(rng.integers(40, 200, (8, 8, 3), dtype=np.uint8)).save(tmp_path / f"pictures/{i}.png")
    name = f"kinds_{tmp_path.name.replace('-', '_')}"  # no other test's module is called so
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return name


def transformer(folder: Path) -> str:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4,
        id2label={0: "cat", 1: "dog", 2: "cow"}, label2id={"cat": 0, "dog": 1, "cow": 2},
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = transformers.ViTForImageClassification(config).eval()
    with torch.no_grad():
        net.classifier.weight *= 100
    net.save_pretrained(folder / "vit")
    size = {"height": 8, "width": 8}
    said = {"image_processor_type": "ViTImageProcessor", "do_normalize": False, "do_rescale": True, "size": size}
    (folder / "vit" / "preprocessor_config.json").write_text(json.dumps(said))
    return f"hf:{folder / 'vit'}"


def lite(folder: Path) -> str:
    pytest.importorskip("ai_edge_litert.interpreter")
    from tests.tflite_files import write_tflite

    weights = np.random.default_rng(0).normal(size=(4, 192)) * 0.4
    return f"tflite:{write_tflite(folder / 'net.tflite', weights, (8, 8, 3), dtype='int8')}"


@pytest.mark.parametrize("kind", ["sklearn", "transformers", "numpy NHWC", "sigmoid", "tflite"])
def test_it_goes_through_an_audit(kind: str, own: str, tmp_path: Path) -> None:
    if kind == "sklearn":
        pytest.importorskip("sklearn")
    specs = {
        "sklearn": lambda: f"python:{own}:forest", "transformers": lambda: transformer(tmp_path),
        "numpy NHWC": lambda: f"python:{own}:nhwc", "sigmoid": lambda: f"python:{own}:sigmoid",
        "tflite": lambda: lite(tmp_path),
    }  # fmt: skip
    files = ["--json", "audit.json", "--html", "audit.html", "--junit", "audit.xml"]
    words = ["--target", specs[kind](), "--images", "pictures", "--budget", "30", "--require", "half >= 1", *files]
    ended = CliRunner().invoke(app, ["audit", *words])
    assert ended.exit_code == 0, ended.output + str(ended.exception)
    said = json.loads((tmp_path / "audit.json").read_text())
    assert said["gate"]["met"]
    assert {(norm["pictures"], norm["right"]) for norm in said["norms"].values()} == {(4, 4)}
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert all(norm["sentence"] in page for norm in said["norms"].values())
    assert "Surrogate: none" in said["surrogates_said"]
