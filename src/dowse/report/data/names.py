"""Names for readers: of targets, norms and methods."""

import re

MODELS = {
    "mobilenetv2": "MobileNetV2", "mobilenet_v2": "MobileNetV2", "resnet18": "ResNet-18", "resnet34": "ResNet-34",
    "resnet50": "ResNet-50", "resnet101": "ResNet-101", "resnet152": "ResNet-152", "resnet20": "ResNet-20",
    "resnet56": "ResNet-56", "squeezenet10": "SqueezeNet", "squeezenet1_0": "SqueezeNet", "squeezenet": "SqueezeNet",
    "vgg16": "VGG-16", "vgg16_bn": "VGG-16-BN", "inception_v3": "Inception-v3",
    **{f"efficientnet_lite{i}": f"EfficientNet-Lite{i}" for i in range(5)},
}  # fmt: skip
DEFENCES = {"jpeg": "JPEG", "randomization": "Randomization", "denoiser": "Denoiser"}
EXPORTED = re.compile(rf"\bonnx:(?=(?:{'|'.join(DEFENCES)})[:+])")  # of a defended model that was exported whole
NORMS = {"l2": "ℓ₂", "linf": "ℓ∞"}


def short_target(spec: str) -> str:
    """A spec as a table's heading says it: the model's name, its defences in front."""
    rest, defences = EXPORTED.sub("", spec.partition("#")[0]), []
    while match := re.match(r"(\w+)(?::([^+:]*))?\+", rest):
        word = DEFENCES.get(match[1], match[1])
        defences.append(f"{word} {match[2]}" if match[2] and match[2].isdecimal() else word)
        rest = rest[match.end() :]
    kind, _, name = rest.partition(":")
    name = name.rstrip("/") or kind
    stem = re.sub(r"\.(onnx|safetensors|pth|pt)$", "", re.split(r"[/:\\]", name)[-1])
    plain = re.sub(r"^(imagenet|cifar10|cifar)_", "", stem)
    return " + ".join([*defences, MODELS.get(plain.lower(), plain)])


def norm_sign(norm: str) -> str:
    """A norm as mathematics writes it."""
    return NORMS.get(norm, norm)


def subscripts(title: str) -> list[tuple[str, bool]]:
    """A title in pieces, each with whether it stands below the line: RGF_D has a D that does, as in the paper."""
    pieces = re.split(r"_([A-Z]{1,3})(?![A-Za-z0-9_])", title)
    return [(piece, i % 2 == 1) for i, piece in enumerate(pieces) if piece]
