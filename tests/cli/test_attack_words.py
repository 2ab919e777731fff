"""What `dowse attack` says about surrogates and weights means what the same words mean in Python."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import dowse
from dowse.cli import app
from dowse.images.sources import open_images
from dowse.settings import ExperimentSettings, settings_of
from dowse.store import Store
from dowse.targets import resolve_target
from tests.victims import image_file

NETS = """
import torch
from tests.nets import Waves

def net(seed, classes=4):
    return Waves(seed, classes, torch.float32)
"""
BUDGET, EPS = 40, 0.02


@pytest.fixture
def nets(write_module: Callable[[str], str]) -> str:
    return f"torch:{write_module(NETS)}:net"


def attack(folder: Path, *words: object) -> Store:
    """The store that a run leaves."""
    base = ["--images", image_file(folder, 3), "--budget", BUDGET, "--eps", EPS, "--q", 5, "--out", folder / "out"]
    result = CliRunner().invoke(app, ["attack", "--quiet", *map(str, [*base, *words])])
    assert result.exit_code == 0, result.output + str(result.exception)
    return Store(folder / "out")


def test_words_about_surrogates(nets: str, tmp_path: Path) -> None:
    target, surrogates = f"{nets}#seed=0", [f"{nets}#seed=1&classes=5", f"{nets}#seed=2&classes=5"]
    words = ["--smooth", 3, "--class-offset", 1, "--surrogate-size", 7, "--combine", "cycle"]
    words += [word for spec in surrogates for word in ("--surrogate", spec)]
    with attack(tmp_path, "--method", "prgf", "--target", target, *words) as store:
        content = store.runs()[0].content
        said = {word: content[word] for word in ("smooth", "class_offset", "surrogate_size", "combine", "surrogate")}
        assert said == {
            "smooth": 3, "class_offset": 1, "surrogate_size": 7, "combine": "cycle", "surrogate": surrogates,
        }  # fmt: skip
        queries, ends = [row.queries for row in store.rows()], [row.end for row in store.rows()]
    source = open_images(tmp_path / "images.npz")
    x = torch.stack([source.read(i, None) for i in range(3)])
    made = [dowse.Surrogate(spec, size=7, class_offset=1, smooth=3) for spec in surrogates]
    expected = dowse.attack(target, x, surrogate=made, combine="cycle", budget=BUDGET, eps=EPS, method="prgf", q=5)
    assert queries == expected.queries.tolist()
    assert ends == expected.end
    plain = dowse.attack(
        target, x, surrogate=[f"{nets}#seed=1", f"{nets}#seed=2"], budget=BUDGET, eps=EPS, method="prgf", q=5
    )
    assert not torch.equal(plain.adversarial, expected.adversarial)


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [
        ("--smooth", "4", "must be odd, got 4"),
        ("--smooth", "none", "smooth"),
        ("--combine", "best", "combine"),
        ("--class-offset", "x", "class_offset"),
        ("--surrogate-size", "0", "surrogate_size"),
    ],
)
def test_words_about_surrogates_that_mean_nothing(nets: str, tmp_path: Path, word: str, value: str, said: str) -> None:
    base = ["--target", f"{nets}#seed=0", "--surrogate", f"{nets}#seed=1", "--images", str(image_file(tmp_path, 3))]
    result = CliRunner().invoke(app, ["attack", "--quiet", *base, "--out", str(tmp_path / "out"), word, value])
    assert result.exit_code == 2, result.output
    assert said in result.stderr


def test_every_setting_is_an_option_and_a_list_is_a_grid(nets: str, tmp_path: Path) -> None:
    shown = (
        CliRunner().invoke(app, ["attack", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).output
    )
    for name, setting in settings_of(ExperimentSettings).items():
        (line,) = (line for line in shown.splitlines() if f" --{name.replace('_', '-')} " in line)
        assert setting.help in line
        assert setting.default in (None, (), False) or f"[default: {setting.default}]" in line
    words = ["--norm", '["l2", "linf"]', "--seed", "[1, 2]", "--quantize", "true", "--method", "rgf", "--targeted"]
    words += ["--loss", "margin", "--dtype", "float64", "--batch-size", 3, "--reveals", "topk:2", "--accept", "any"]
    result = CliRunner().invoke(
        app, ["attack", "--quiet", "--target", f"{nets}#seed=0", "--out", str(tmp_path / "out"),
              "--images", str(image_file(tmp_path, 1)), "--budget", "9", *map(str, words[:-1]), "never"],
    )  # fmt: skip
    assert (result.exit_code, "accept" in result.stderr) == (2, True)
    with attack(tmp_path, "--target", f"{nets}#seed=0", *(word for word in words if word != "--targeted")) as store:
        runs = [run.content for run in store.runs()]
    assert [(run["norm"], run["seed"]) for run in runs] == [("l2", 1), ("l2", 2), ("linf", 1), ("linf", 2)]
    said = {name: runs[0][name] for name in ("quantize", "loss", "dtype", "reveals", "accept", "targeted")}
    assert said == {"quantize": True, "loss": "margin", "dtype": "float64", "reveals": "topk:2", "accept": "any",
                    "targeted": False}  # fmt: skip


def test_weights_of_a_target(nets: str, tmp_path: Path) -> None:
    file = tmp_path / "other weights.safetensors"
    state = resolve_target(f"{nets}#seed=7").state_dict()
    save_file({name: value.contiguous() for name, value in state.items()}, file)
    with attack(tmp_path, "--target", f"{nets}#seed=0", "--method", "rgf", "--weights", file) as store:
        (run,) = store.runs()
        assert len(run.content["weights"]) == 1, "the file's content is part of what the run is"
        queries = [row.queries for row in store.rows()]
    source = open_images(tmp_path / "images.npz")
    x = torch.stack([source.read(i, None) for i in range(3)])
    expected = dowse.attack(f"{nets}#seed=7", x, method="rgf", budget=BUDGET, eps=EPS, q=5)
    assert queries == expected.queries.tolist()
