"""Spec strings: what they mean, what they make, and what is said about those that mean nothing."""

import enum
import sys
import types

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import dowse
from dowse import models
from dowse.models.layers import Normalize
from dowse.targets import (
    declared_shape,
    input_shape,
    open_target,
    parse_shape,
    parse_spec,
    resolve_surrogate,
    resolve_target,
    with_options,
    with_rate,
    without_pace,
)
from dowse.targets.weights_digest import weights_digest
from tests.support import Tanh, labels_of, pictures

FACTORY = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.layer = nn.Linear(48, classes)
    def forward(self, x):  # as sums along a row, which no other row changes
        return (x.flatten(1).unsqueeze(1) * self.layer.weight).sum(2) + self.layer.bias

def make(classes=3, bias=True):
    torch.manual_seed(0)
    return Net(classes)

ready = Net(4)
number = 7

def wrong():
    return 7

def last(x):  # a numpy function of NHWC images
    assert type(x).__name__ == "ndarray" and x.shape[3] == 3
    return x.mean((1, 2)) * 9

class Forest:
    n_features_in_ = 48
    def predict_proba(self, x):
        return x[:, :2] / x[:, :2].sum(1, keepdims=True)

def load():
    return Forest()

forest = Forest()

def anything(**options):
    return Net(options["scale"])
"""


@pytest.fixture
def local(tmp_path, monkeypatch):
    """A module of the user's own in the current folder."""
    (tmp_path / "their_models.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("their_models", None)


@pytest.mark.parametrize(
    ("text", "kind", "name", "defences", "options"),
    [
        ("dowse:cifar10_resnet20", "dowse", "cifar10_resnet20", (), {}),
        ("torch:a.b:make#depth=20&x=y", "torch", "a.b:make", (), {"depth": "20", "x": "y"}),
        ("jpeg:75+dowse:n", "dowse", "n", (("jpeg", "75"),), {}),
        ("randomization+jpeg:50+timm:n", "timm", "n", (("randomization", None), ("jpeg", "50")), {}),
        ("denoiser:/a/b.safetensors+dowse:n", "dowse", "n", (("denoiser", "/a/b.safetensors"),), {}),
        ("onnx:/a+b/c+d.onnx", "onnx", "/a+b/c+d.onnx", (), {}),
        ("jpeg+onnx:a+b.onnx#threads=2", "onnx", "a+b.onnx", (("jpeg", None),), {"threads": "2"}),
        ("http://h:8080/v2/models/n", "http", "http://h:8080/v2/models/n", (), {}),
        ("jpeg:75+https://h/v2/models/n#rate=5", "https", "https://h/v2/models/n", (("jpeg", "75"),), {"rate": "5"}),
        ("  dowse:n  ", "dowse", "n", (), {}),
    ],
)
def test_a_spec_is_taken_apart(text, kind, name, defences, options):
    spec = parse_spec(text)
    assert (spec.kind, spec.name, spec.defences, dict(spec.options)) == (kind, name, defences, options)


@pytest.mark.parametrize(
    "text",
    [
        "dowse:cifar10_resnet20",
        "torch:a.b:make#depth=20&x=y",
        "randomization+jpeg:50+timm:n",
        "denoiser:/a/b.safetensors+dowse:n#weights=/w/x.pt",
        "jpeg:75+https://h:80/v2/models/n#rate=5",
    ],
)
def test_a_spec_put_together_again_is_itself(text):
    assert parse_spec(text).text == text
    assert parse_spec(f"  {text} ").text == text


def test_options_are_added_to_a_spec_and_come_first():
    assert with_options("dowse:n", weights="/a b/w&x.pt") == "dowse:n#weights=/a+b/w%26x.pt"
    assert parse_spec(with_options("dowse:n", weights="/a b/w&x.pt")).options == {"weights": "/a b/w&x.pt"}
    assert with_options("jpeg:75+dowse:n#weights=a", weights="b") == "jpeg:75+dowse:n#weights=b"
    assert with_options("http://h/v2/models/n?rows=3", rate=2) == "http://h/v2/models/n#rows=3&rate=2"
    assert with_options("dowse:n", weights=None) == "dowse:n"


def test_a_rate_goes_to_the_targets_that_are_served():
    limited = with_rate(["dowse:n", "jpeg+http://h/v2/models/n#rate=9"], 2.5)
    assert limited == ("dowse:n", "jpeg+http://h/v2/models/n#rate=2.5")
    with pytest.raises(dowse.InputError, match="a rate is a limit of http targets, dowse:n is none"):
        with_rate(["dowse:n"], 2)
    with pytest.raises(dowse.InputError, match="rate must be a finite number above 0"):
        with_rate(["http://h/v2/models/n"], 0)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("dowse:n#weights=a", "dowse:n#weights=a"),
        ("http://h/v2/models/n?rows=3", "http://h/v2/models/n?rows=3"),
        ("http://h/v2/models/n#rate=3", "http://h/v2/models/n"),
        ("jpeg+http://h/v2/models/n?retries=1&layout=NHWC#rate=3", "jpeg+http://h/v2/models/n#layout=NHWC"),
        ("http://***@h/v2/models/n#rate=3", "http://***@h/v2/models/n"),
        ("http://h/v2/models/n#rate=fast", "http://h/v2/models/n#rate=fast"),
    ],
)
def test_the_pace_is_no_part_of_what_a_target_is(text, left):
    assert without_pace(text) == left


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cifar10_resnet20", "did you mean 'dowse:cifar10_resnet20'"),
        ("dows:cifar10_resnet20", "did you mean 'dowse'"),
        ("resnet50", "did you mean 'dowse:imagenet_resnet50'"),
        ("their_models:make", "did you mean 'torch:their_models:make'"),
        ("nets/small.onnx", "did you mean 'onnx:nets/small.onnx'"),
        ("weights.pt", "http:// or https://$"),
        ("ftp://host/net", "http:// or https://"),
        ("dowse:", "names nothing"),
        ("http://", "names nothing"),
        ("", "is not a target"),
        ("dowse:n#depth", "OPTION=VALUE"),
        ("jpg:75+dowse:cifar10_resnet20", "no defence is named 'jpg': did you mean 'jpeg'"),
        ("dowse:cifar10_resnet21", "did you mean 'cifar10_resnet"),
        ("dowse:cifar10_resnet20#depth=3", "takes the option weights"),
        ("torch:their_models", "names no factory"),
        ("torch:no_such_module:make", "cannot import 'no_such_module'"),
        ("torch:their_models:mak", "did you mean 'make'"),
        ("torch:their_models:number", "got int"),
        ("torch:their_models:wrong", "got int"),
        ("python:their_models", "names no function"),
        ("python:their_models:lost", "has no 'lost'"),
        ("python:their_models:number", "got int"),
        ("python:their_models:last#layout=HWC", "layout='HWC' is unknown"),
        ("python:their_models:last#lay=NHWC", "did you mean 'layout'"),
        ("torch:their_models:ready#depth=3", "is a module already"),
        ("torch:their_models:load#weights=w.pt", "takes no weights"),
        ("onnx:missing.onnx", "there is no file 'missing.onnx'"),
        ("onnx:missing.onnx#thread=2", "did you mean 'threads'"),
        ("onnx:missing.onnx#threads=two", "threads must be int"),
        ("onnx:missing.onnx#mean=a,b", "mean must be numbers separated by commas"),
        ("onnx:missing.onnx#layout=HWC", "layout='HWC' is unknown"),
    ],
)
def test_a_spec_that_means_nothing_is_explained(local, text, said):
    with pytest.raises(dowse.InputError, match=said.replace("(", r"\(")):
        resolve_target(text)


def test_a_password_in_a_url_is_not_repeated():
    with pytest.raises(dowse.InputError) as error:
        resolve_target("htp://user:hunter2@host/net")
    assert "hunter2" not in str(error.value)


def test_a_factory_of_the_users_own(local):
    net = resolve_target("torch:their_models:make#classes=5")
    assert isinstance(net, nn.Module)
    assert not net.training
    assert not any(p.requires_grad for p in net.parameters())
    assert net(torch.rand(2, 3, 4, 4)).shape == (2, 5)
    assert resolve_target("torch:their_models:ready")(torch.rand(1, 3, 4, 4)).shape == (1, 4)
    assert str(local) not in sys.path


@pytest.mark.parametrize("name", ["python:their_models:load", "python:their_models:forest", "torch:their_models:load"])
def test_a_model_of_the_users_own_that_is_no_network(local, name):
    target = open_target(name)
    assert torch.allclose(target(torch.full((2, 3, 4, 4), 0.5)).exp(), torch.full((2, 2), 0.5, dtype=torch.float64))
    assert target.form == "numpy float NHWC flattened in, probabilities out"


def test_options_say_what_a_model_takes(local):
    x = pictures(2, dtype=torch.float32)
    found, said = open_target("python:their_models:last"), open_target("python:their_models:last#layout=nhwc&scale=2")
    assert torch.allclose(2 * found(x), said(x))
    assert said.form == "numpy float NHWC 0 … 2 in, logits out"
    assert open_target("torch:their_models:make#classes=5&scale=2&shape=3x4x4").input_shape == (3, 4, 4)
    assert input_shape("torch:their_models:make#shape=1x28x20") == (1, 28, 20)
    net = resolve_target("torch:their_models:make")
    assert torch.equal(
        open_target("torch:their_models:ready#scale=1")(x), resolve_target("torch:their_models:ready")(x)
    )
    assert torch.allclose(open_target("torch:their_models:make#scale=2")(x), net(2 * x))
    assert resolve_target("torch:their_models:anything#scale=3")(x).shape == (2, 3), "the factory takes any word itself"


def test_a_model_that_is_no_network_stands_behind_a_defence(local):
    target = open_target("jpeg:75+python:their_models:last")
    assert target(torch.full((2, 3, 8, 8), 0.5)).shape == (2, 3)
    assert target.form == "numpy float NHWC in, logits out"
    with pytest.raises(dowse.InputError, match=r"a surrogate must give gradients.* without options that say how"):
        resolve_surrogate("python:their_models:last")


def test_weights_come_from_a_file(local):
    state = {"layer.weight": torch.ones(3, 48), "layer.bias": torch.tensor([1.0, 2.0, 3.0])}
    save_file(state, local / "w.safetensors")
    torch.save(state, local / "w.pt")
    for file in ("w.safetensors", "w.pt"):
        by_keyword = resolve_target("torch:their_models:make", weights=local / file)
        by_option = resolve_target(f"torch:their_models:make#weights={local / file}")
        for net in (by_keyword, by_option):
            assert net(torch.zeros(1, 3, 4, 4)).tolist() == [[1.0, 2.0, 3.0]]
    save_file({"layer.weight": torch.ones(2, 48), "layer.bias": torch.zeros(2)}, local / "other.safetensors")
    with pytest.raises(dowse.InputError, match="does not fit"):
        resolve_target("torch:their_models:make", weights=local / "other.safetensors")


def test_a_file_of_weights_cannot_run_code(local):
    class Evil:
        def __reduce__(self):
            return (open, (str(local / "owned"), "w"))

    torch.save({"layer.weight": Evil()}, local / "evil.pt")
    with pytest.raises(dowse.InputError, match="cannot read weights"):
        resolve_target("torch:their_models:make", weights=local / "evil.pt")
    assert not (local / "owned").exists()


def test_keywords_come_before_the_options_of_a_spec(local):
    assert resolve_target("torch:their_models:make#classes=5", classes=6)(torch.rand(1, 3, 4, 4)).shape == (1, 6)
    assert resolve_target("torch:their_models:make#classes=5", classes=None)(torch.rand(1, 3, 4, 4)).shape == (1, 5)


def test_specs_stand_wherever_targets_and_surrogates_do(local):
    x = pictures(2, dtype=torch.float32)
    net = resolve_target("torch:their_models:make")
    y = labels_of(net, x)
    given = {"method": "prgf", "budget": 40, "q": 5, "eps": 0.3}
    spec = "torch:their_models:make"
    by_spec = dowse.attack(spec, x, y, surrogate=spec, **given)
    by_object = dowse.attack(net, x, y, surrogate=net, **given)
    assert torch.equal(by_spec.adversarial, by_object.adversarial)
    outcomes = list(dowse.stream(spec, list(x), surrogate=spec, **given))
    assert len(outcomes) == 2
    assert dowse.estimate(spec, x, y, surrogate=spec, q=5).gradient.shape == x.shape


def test_a_surrogate_must_give_gradients(local, monkeypatch):
    monkeypatch.setattr("dowse.targets.onnx.OnnxTarget", lambda *_: lambda x: x)
    with pytest.raises(dowse.InputError, match=r"a surrogate must give gradients.* without options that say how"):
        resolve_surrogate("onnx:file.onnx")


def test_built_in_models_by_their_names(shared, monkeypatch):
    monkeypatch.setenv("DOWSE_SHARED", str(shared))
    net = resolve_target("dowse:cifar10_resnet20")
    loaded = models.load("cifar10_resnet20").state_dict()
    assert net.state_dict().keys() == loaded.keys()
    assert all(torch.equal(value, loaded[name]) for name, value in net.state_dict().items())
    assert declared_shape("dowse:cifar10_resnet20", net) == (3, 32, 32)
    defended = resolve_target("jpeg:75+dowse:cifar10_resnet20")
    assert declared_shape("jpeg:75+dowse:cifar10_resnet20", defended) == (3, 32, 32)


def fake_torchvision(monkeypatch):
    """A stand-in with the few functions of torchvision.models that are used."""
    made = {}

    def get_model(name, weights=None, **options):
        made.update(weights=weights, options=options)
        return nn.Sequential(nn.Flatten(), nn.Linear(48, 5))

    class Weights(enum.Enum):
        IMAGENET1K_V1 = 1
        IMAGENET1K_V2 = 2
        DEFAULT = 3

        def transforms(self):
            return types.SimpleNamespace(mean=[0.5, 0.5, 0.5], std=[0.25, 0.25, 0.25])

    zoo = types.ModuleType("torchvision.models")
    zoo.list_models = lambda: ["resnet18", "vgg16", "inception_v3"]
    zoo.get_model = get_model
    zoo.get_model_weights = lambda name: Weights
    package = types.ModuleType("torchvision")
    package.models = zoo
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", zoo)
    return made


def test_torchvision_models_get_their_normalisation(monkeypatch, tmp_path):
    made = fake_torchvision(monkeypatch)
    net = resolve_target("torchvision:resnet18")
    assert made["weights"] == "DEFAULT"
    assert isinstance(net[0], Normalize)
    x = torch.rand(2, 3, 4, 4)
    assert torch.allclose(net(x), net[1]((x - 0.5) / 0.25))
    save_file({"1.weight": torch.ones(5, 48), "1.bias": torch.zeros(5)}, tmp_path / "w.safetensors")
    resolve_target("torchvision:resnet18", weights=tmp_path / "w.safetensors")
    assert made == {"weights": None, "options": {}}
    resolve_target("torchvision:inception_v3", weights=tmp_path / "w.safetensors")
    assert made == {"weights": None, "options": {"transform_input": True}}  # or its input is not rescaled
    resolve_target("torchvision:resnet18#weights=IMAGENET1K_V1")
    assert made == {"weights": "IMAGENET1K_V1", "options": {}}
    assert weights_digest("torchvision:resnet18#weights=IMAGENET1K_V1") is None
    with pytest.raises(dowse.InputError, match=r"no weights 'IMAGENET1K_V3'.* did you mean 'IMAGENET1K_V"):
        resolve_target("torchvision:resnet18#weights=IMAGENET1K_V3")
    with pytest.raises(dowse.InputError, match="torchvision has no model 'resnet81': did you mean 'resnet18'"):
        resolve_target("torchvision:resnet81")


def test_timm_models_get_their_normalisation(monkeypatch):
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, 5))
    net.pretrained_cfg = {"mean": (0.1, 0.2, 0.3), "std": (1.0, 1.0, 1.0)}
    timm = types.ModuleType("timm")
    timm.list_models = lambda: ["resnet18"]
    timm.create_model = lambda name, pretrained: net
    monkeypatch.setitem(sys.modules, "timm", timm)
    x = torch.rand(2, 3, 4, 4)
    shifted = x - torch.tensor([0.1, 0.2, 0.3]).view(1, 3, 1, 1)
    assert torch.allclose(resolve_target("timm:resnet18.a1_in1k")(x), net(shifted))


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_a_package_that_does_not_import_is_named_with_another_way(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"{package}.models", raising=False)
    with pytest.raises(dowse.InputError, match=rf"{package} cannot be imported here.*dowse:NAME"):
        resolve_target(f"{package}:resnet18")


@pytest.mark.parametrize(
    ("text", "shape"), [("3x224x224", (3, 224, 224)), ("1×28×28", (1, 28, 28)), ("3,8,9", (3, 8, 9))]
)
def test_a_shape_is_read(text, shape):
    assert parse_shape(text) == shape


@pytest.mark.parametrize("text", ["224", "3x224", "3x224x0", "axbxc", "3x2x2x2", ""])
def test_a_shape_that_is_none_is_explained(text):
    with pytest.raises(dowse.InputError, match="CxHxW"):
        parse_shape(text)


def test_a_target_without_a_shape_says_so():
    assert declared_shape("torch:a:b", Tanh(0)) is None
