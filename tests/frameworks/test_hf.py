"""A real classifier of transformers, saved by transformers: its processor's normalisation, its names, one attack."""

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import dowse
from dowse.cli import app
from dowse.errors import TargetNote
from dowse.images.class_names import class_names
from dowse.store import Store
from dowse.targets import input_shape, open_target, resolve_surrogate, resolve_target
from dowse.targets.weights_digest import weights_digest
from tests.support import generator

pytestmark = pytest.mark.install
transformers = pytest.importorskip("transformers")

X = torch.rand(3, 3, 8, 8, generator=generator(0))
PROCESSOR = {
    "image_processor_type": "ViTImageProcessor", "do_normalize": True, "do_rescale": True, "do_resize": True,
    "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.25, 0.2], "rescale_factor": 1 / 255,
    "size": {"height": 8, "width": 8},
}  # fmt: skip

CROPPED = {"size": {"shortest_edge": 10}, "do_center_crop": True, "crop_size": {"height": 8, "width": 6}}


def tiny(**more):
    names = {0: "cat", 1: "dog", 2: "cow"}
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4,
        **{"id2label": names, "label2id": {name: i for i, name in names.items()}} | more,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.ViTForImageClassification(config).eval()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a small vision transformer."""
    folder = tmp_path_factory.mktemp("vit")
    net = tiny()
    with torch.no_grad():
        net.classifier.weight *= 100  # so that its classes differ
    net.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return folder, net


def test_its_processor_is_in_front_of_it(saved):
    folder, net = saved
    mean, std = (torch.tensor(PROCESSOR[word]).view(3, 1, 1) for word in ("image_mean", "image_std"))
    expected = net(pixel_values=(X - mean) / std).logits
    target = resolve_target(f"hf:{folder}")
    assert torch.allclose(target(X), expected, atol=1e-5)
    assert not any(p.requires_grad for p in target.parameters())
    assert not target.training
    assert target.class_names == ("cat", "dog", "cow")
    assert open_target(f"hf:{folder}").input_shape == input_shape(f"hf:{folder}") == (3, 8, 8)


def test_the_processor_itself_agrees(saved):
    """The same pixels through transformers' own processor."""
    folder, net = saved
    processor = transformers.ViTImageProcessorPil(**{k: v for k, v in PROCESSOR.items() if k != "image_processor_type"})
    levels = (X * 255).round()
    theirs = processor([x.permute(1, 2, 0).byte().numpy() for x in levels], return_tensors="pt")
    assert torch.allclose(resolve_target(f"hf:{folder}")(levels / 255), net(**theirs).logits, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "factor", "offset", "shape"),
    [
        ({"do_normalize": False}, 1.0, 0.0, (3, 8, 8)),
        ({"do_normalize": False, "do_rescale": False}, 255.0, 0.0, (3, 8, 8)),
        ({"do_normalize": False, "rescale_factor": 1 / 127.5, "rescale_offset": True}, 2.0, -1.0, (3, 8, 8)),
        (CROPPED, None, None, (3, 8, 6)),
        ({"size": {"shortest_edge": 8}}, None, None, (3, 8, 8)),
        ({"size": 8}, None, None, (3, 8, 8)),
        ({"size": None}, None, None, (3, 8, 8)),
    ],
)  # fmt: skip
def test_other_processors(change, factor, offset, shape):
    from dowse.targets.hf import HuggingFace

    net = tiny()
    made = HuggingFace(net, PROCESSOR | change)
    assert made.input_shape == shape
    if factor is not None:
        assert torch.allclose(made(X), net(pixel_values=X * factor + offset).logits, atol=1e-4)


def test_an_attack_with_itself_as_surrogate(saved):
    folder, _ = saved
    spec = f"hf:{folder}"
    net = resolve_target(spec)
    y = net(X).argmax(1)
    result = dowse.attack(spec, X, y, method="prgf", surrogate=spec, q=5, eps=3.0, budget=30)
    assert (result.queries <= 30).all()
    before, after = (net(x).log_softmax(1).gather(1, y.unsqueeze(1)) for x in (X, result.adversarial))
    assert (after < before).all(), "its own gradient leads away from the label"
    assert resolve_surrogate(spec)(X).shape == (3, 3)


def test_a_model_of_transformers_without_a_wrapper(saved):
    _, net = saved
    y = net(X).logits.argmax(1)
    with pytest.warns(TargetNote, match="ViTForImageClassification: float NCHW in, logits out"):
        result = dowse.attack(net, X, y, method="rgf", q=5, eps=1.0, budget=20)
    assert result.queries.shape == (3,)


def test_folders_named_as_its_classes(saved, tmp_path):
    folder, _ = saved
    for name in ("Dog", "cat"):
        (tmp_path / "set" / name).mkdir(parents=True)
        Image.new("RGB", (9, 12), (200, 30, 99)).save(tmp_path / "set" / name / "a.png")
    words = ["attack", "--target", f"hf:{folder}", "--images", tmp_path / "set", "--budget", 4, "--method", "square"]
    result = CliRunner().invoke(app, [*map(str, [*words, "--out", tmp_path / "out"])])
    assert "labels: the subfolders' names, which are the target's classes" in result.output
    with Store(tmp_path / "out") as store:
        assert {row.name: row.label for row in store.rows()} == {"Dog/a.png": 1, "cat/a.png": 0}
        (run,) = store.runs()
        assert class_names(run.content, run.source) == ("cat", "dog", "cow")


def test_its_files_are_part_of_a_runs_id(saved, tmp_path):
    folder, _ = saved
    assert weights_digest(f"hf:{folder}").count("+") == 2, "weights, configuration, processor"


def test_what_cannot_be_used_is_said_in_a_sentence(saved, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder, net = saved
    bare = tmp_path / "bare"
    net.save_pretrained(bare)
    untrained = tmp_path / "untrained"
    net.vit.save_pretrained(untrained)
    (untrained / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    for given, said in (
        (f"hf:{tmp_path}", "cannot be loaded.*the folder must be one that save_pretrained wrote"),
        (f"hf:{bare}", "preprocessor_config.json"),
        (f"hf:{untrained}", "holds no weights of classifier.bias.*fine-tuned"),
        (f"hf:{folder}#depth=3", "hf: takes no options, got depth"),
        (f"hf:{folder}#weights=w.pt", "hf: takes no options, got weights"),
    ):
        with pytest.raises(dowse.InputError, match=said) as caught:
            resolve_target(given)
        assert "\n" not in str(caught.value)


def test_a_name_that_is_no_folder_is_the_hubs(monkeypatch):
    """Offline it is said so, in a sentence."""

    def gone(*_, **__):
        raise OSError("We couldn't connect to the hub\nto load the files")

    monkeypatch.setattr("huggingface_hub.file_exists", lambda *_: True)
    monkeypatch.setattr(transformers.AutoModelForImageClassification, "from_pretrained", gone)
    with pytest.raises(dowse.InputError, match=r"couldn't connect to the hub to load.*there is no such folder here"):
        resolve_target("hf:somebody/some-model")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hfne", "there is no such folder here; did you mean 'hf:hfnet'\\?"),
        ("./hfne", "did you mean 'hf:hfnet'\\?"),
        ("hfne/", "did you mean 'hf:hfnet'\\?"),
        ("../nothing/like/it", "no such folder here: give one that save_pretrained wrote"),
        ("/nowhere/net", "no such folder here: give one that save_pretrained wrote"),
    ],
)
def test_a_mistyped_folder_is_told_without_the_hub(tmp_path, monkeypatch, name, said):
    (tmp_path / "hfnet").mkdir()
    (tmp_path / "hfnet" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.file_exists", lambda *_: pytest.fail("the hub was asked"))
    with pytest.raises(dowse.InputError, match=said) as caught:
        resolve_target(f"hf:{name}")
    assert "Repo id" not in str(caught.value)


def test_the_hub_is_asked_once(tmp_path, monkeypatch, capfd):
    asked = []

    def answer(name, file):
        asked.append(name)
        if "away" in name:
            raise ConnectionError("Name or service not known")
        return False

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.file_exists", answer)
    with pytest.raises(
        dowse.InputError, match=r"no such folder here, and asking the hub failed \(ConnectionError: Name"
    ):
        resolve_target("hf:far/away")
    with pytest.raises(dowse.InputError, match="nor has the hub a model of that name"):
        resolve_target("hf:mistyped")
    assert asked == ["far/away", "mistyped"]
    assert capfd.readouterr() == ("", "")
