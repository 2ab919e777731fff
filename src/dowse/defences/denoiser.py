"""The guided denoiser of Liao et al. 2018 (CVPR): a small U-Net predicts the noise, and the classifier sees x − dx."""

import copy
import os
from collections.abc import Sequence
from importlib import resources
from itertools import pairwise
from pathlib import Path

import safetensors
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dowse.core.target import TargetLike
from dowse.defences.base import Defence
from dowse.errors import InputError, in_words, positive
from dowse.machine.cpu import channels_last
from dowse.models.cifar import CifarResNet
from dowse.models.mobilenet import MobileNetV2

PREFIX = "denoiser_"  # of a shipped file, before the classifier's name
DETAIL = 10.0  # makes noise of a few levels as large as the contrasts of an image


class Denoiser(Defence):
    """A classifier that sees x̂ = x − dx, where dx is the noise that a U-Net predicts (their Fig. 2).

    Differences to the original: the U-Net is some hundred times smaller, works on 2×2 blocks of pixels at ImageNet
    size (`shuffle`), and was trained on 500 images of ImageNet, or 800 of CIFAR-10.

    Args:
        net: From points to logits.
        unet: From images to the predicted noise, of the same shape.
    """

    prefix = "denoiser"

    def __init__(self, net: TargetLike, unet: "DenoisingUNet") -> None:
        super().__init__(net)
        self.unet = unet

    def transform(self, x: Tensor, seeds: Tensor) -> Tensor:
        """x̂ = x − dx: (n, C, H, W) -> (n, C, H, W)."""
        denoised: Tensor = x - self.unet(x)
        return denoised

    @classmethod
    def for_spec(cls, net: TargetLike, argument: str | None) -> "Denoiser":
        """`denoiser` with the weights that ship for this classifier, `denoiser:NAME` for another one, or of a file."""
        return cls(net, load_denoiser(denoiser_file(argument)) if argument else shipped_denoiser(net))


class DenoisingUNet(nn.Module):
    """Predicts the adversarial noise in an image: (n, 3, H, W) -> (n, 3, H, W), for any H and W.

    Args:
        channels: Channels of each level, each level at half the size of the one before.
        shuffle: Side of the blocks of pixels that become channels of the first level; 1 works on pixels.
        detail: Whether it is shown, beside the image, how each pixel stands out of its neighbours; noise, small
            beside the contrasts of an image, is then learnt in fewer steps.
    """

    def __init__(self, channels: Sequence[int] = (16, 32, 64), shuffle: int = 1, detail: bool = False) -> None:
        super().__init__()
        if shuffle < 1 or not channels or min(channels) < 1:
            raise InputError(f"a U-Net needs channels and shuffle of at least 1, got {tuple(channels)} and {shuffle}")
        self.channels, self.shuffle, self.detail = tuple(channels), shuffle, detail
        pixels, first = 3 * shuffle**2, channels[0]
        steps = list(pairwise(channels))
        self.enter = nn.Sequential(_conv(2 * pixels if detail else pixels, first), _conv(first, first))
        self.down = nn.ModuleList(nn.Sequential(_conv(a, b, stride=2), _conv(b, b)) for a, b in steps)
        self.up = nn.ModuleList(_conv(a + b, a) for a, b in steps)
        self.leave = nn.Conv2d(first, pixels, 3, padding=1)
        nn.init.zeros_(self.leave.weight)  # untrained it predicts no noise and changes nothing
        nn.init.zeros_(self.leave.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """dx: (n, 3, H, W) -> (n, 3, H, W)."""
        height, width = x.shape[-2:]
        block = self.shuffle * 2 ** len(self.down)
        missing = (0, -width % block, 0, -height % block)
        whole = F.pad(x, missing, mode="replicate") if any(missing) else x
        shown = torch.cat([whole, DETAIL * stand_out(whole)], 1) if self.detail else whole
        lateral = [self.enter(F.pixel_unshuffle(shown, self.shuffle))]
        for down in self.down:
            lateral.append(down(lateral[-1]))
        y = lateral.pop()
        for up in reversed(self.up):
            side = lateral.pop()
            y = up(torch.cat([F.interpolate(y, size=side.shape[-2:]), side], 1))
        return F.pixel_shuffle(self.leave(y), self.shuffle)[..., :height, :width]


def stand_out(x: Tensor) -> Tensor:
    """How each pixel of x, (n, C, H, W), differs from the mean of its 3×3 neighbourhood."""
    return x - F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1)


def _conv(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


def strengthened(unet: DenoisingUNet, factor: float) -> DenoisingUNet:
    """A U-Net that predicts `factor` times the noise. One trained on few images predicts less than there is."""
    positive(strength=factor)
    made = copy.deepcopy(unet)
    with torch.no_grad():
        for parameter in made.leave.parameters():
            parameter.mul_(factor)
    return made


def save_denoiser(unet: DenoisingUNet, path: str | os.PathLike[str]) -> None:
    """Write a U-Net's weights, as 16-bit floats, and its shape into one safetensors file."""
    state = {
        name: value.detach().half().contiguous() if value.is_floating_point() else value
        for name, value in unet.state_dict().items()
    }
    shape = {"channels": ",".join(map(str, unet.channels)), "shuffle": str(unet.shuffle)}
    if unet.detail:
        shape["detail"] = "true"
    safetensors.torch.save_file(state, os.fspath(path), metadata=shape)


def load_denoiser(path: str | os.PathLike[str]) -> DenoisingUNet:
    """The U-Net of a file that `save_denoiser` wrote, frozen and in eval mode."""
    if not Path(path).is_file():
        raise InputError(f"no denoiser at {os.fspath(path)!r}: train one with `dowse train-denoiser`")
    try:
        with safetensors.safe_open(os.fspath(path), framework="pt") as file:
            shape = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
        channels = [int(c) for c in shape["channels"].split(",")]
        unet = DenoisingUNet(channels, int(shape["shuffle"]), detail="detail" in shape)
        unet.load_state_dict({n: v.float() if v.is_floating_point() else v for n, v in state.items()})
    except (safetensors.SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{os.fspath(path)!r} is no denoiser that `dowse train-denoiser` wrote: {in_words(error)}"
        ) from error
    unet.eval().requires_grad_(False)
    channels_last(unet)
    return unet


def shipped_files() -> list[Path]:
    """The files of the denoisers that come with Dowse."""
    folder = Path(str(resources.files("dowse.defences") / "weights"))
    return sorted(folder.glob(f"{PREFIX}*.safetensors"))


def denoiser_file(argument: str) -> Path:
    """What `denoiser:NAME` or `denoiser:PATH` stands for: the shipped file of that classifier, or the file itself."""
    shipped = {file.stem.removeprefix(PREFIX): file for file in shipped_files()}
    return shipped.get(argument, Path(argument))


def shipped_denoiser(net: TargetLike) -> DenoisingUNet:
    """The U-Net that comes with Dowse for a built-in classifier, or InputError if there is none for this one."""
    while isinstance(net, Defence):
        net = net.net
    if isinstance(net, MobileNetV2):
        name = "imagenet_mobilenetv2"
    elif isinstance(net, CifarResNet) and len(net.layer1) == 3:
        name = "cifar10_resnet20"
    else:
        raise InputError(
            f"no denoiser comes with Dowse for this {type(net).__name__}, only for imagenet_mobilenetv2 and "
            "cifar10_resnet20: take one of these, denoiser:NAME, or train one with `dowse train-denoiser` and give its "
            "file, denoiser:PATH"
        )
    return load_denoiser(denoiser_file(name))
