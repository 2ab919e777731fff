"""Models that are no networks, grey and oblong images: from the command line and from a file."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from dowse.cli import app
from dowse.store import Store

MODELS = """
import numpy as np

class Trees:
    n_features_in_ = 30
    def predict_proba(self, x):
        assert x.ndim == 2 and len(x), "rows of pixels"
        left = 1 / (1 + np.exp(-3 * (x[:, :15].sum(1) - x[:, 15:].sum(1))))
        return np.stack([1 - left, left], 1)

trees = Trees()

def colours(x):
    assert isinstance(x, np.ndarray) and x.dtype == np.uint8 and x.shape[1:] == (6, 5, 3)
    return x.mean((1, 2))
"""


@pytest.fixture
def models(write_module, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    for i in range(3):
        Image.fromarray(rng.integers(40, 200, (12, 10, 3), dtype=np.uint8)).save(tmp_path / f"pictures/{i}.png")
    return f"python:{write_module(MODELS)}"


def dowse(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def attack(models, name, folder, *words):
    base = ["--images", folder / "pictures", "--method", "rgf", "--q", 4, "--budget", 30, "--out", folder / "out"]
    return dowse("attack", "--target", f"{models}:{name}", *base, *words)


def test_a_model_of_flattened_grey_pixels(models, tmp_path: Path):
    result = attack(models, "trees", tmp_path, "--size", "6x5", "--channels", 1, "--eps", 0.5)
    assert result.exit_code == 0, result.output
    assert "Trees: numpy float NHWC flattened in, probabilities out" in result.output
    assert "#layout=… behind a spec" in " ".join(result.output.split())
    assert "warning" not in result.output
    with Store(tmp_path / "out") as store:
        (run,) = store.runs()
        assert run.content["image_set"].endswith("@6x5@1 channels")
        assert len(list(store.rows(run.id))) == 3


def test_a_model_of_8_bit_colour(models, tmp_path: Path):
    result = attack(models, "colours", tmp_path, "--size", "6x5", "--quiet")
    assert result.exit_code == 0, result.output
    assert "NHWC" not in result.output


def test_an_experiment_says_the_same(models, tmp_path: Path):
    text = f'target = "{models}:trees"\nimages = {{path = "pictures", size = "6x5", channels = 1}}\nmethod = "rgf"\n'
    (tmp_path / "e.toml").write_text(text + "budget = 10\n")
    assert dowse("run", tmp_path / "e.toml", "--out", tmp_path / "out").exit_code == 0
    plain = text.replace(', size = "6x5", channels = 1', "")
    (tmp_path / "f.toml").write_text(plain + "budget = 10\n")
    words = ["--size", "6x5", "--channels", "1", "--out", tmp_path / "out"]
    assert dowse("run", tmp_path / "f.toml", *words).exit_code == 0
    with Store(tmp_path / "out") as store:
        assert len(store.runs()) == 1, "the same images, the same run"
    result = dowse("run", tmp_path / "f.toml", *words, "--dry-run")
    assert "rows a second" in result.output, result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--size", "6by5"], "a size is a side such as 224, or HEIGHTxWIDTH such as 28x20"),
        (["--size", "6x5", "--channels", 2], "1 or 3"),
        (["--size", "6x5"], "Trees takes 30 numbers an image, these are 3×6×5 = 90"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(models, tmp_path: Path, words, said):
    result = attack(models, "trees", tmp_path, *words)
    assert result.exit_code == 2
    assert said in result.output.replace("\n", " ") + result.stderr
    assert "Traceback" not in result.output
