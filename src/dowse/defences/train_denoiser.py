"""Training of the guided denoiser: logits of the denoised image shall be the clean one's; and its loss curve."""

import csv
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from dowse.defences.denoiser import DenoisingUNet
from dowse.defences.measure import craft
from dowse.errors import InputError, count, fraction, positive
from dowse.machine.cpu import channels_last
from dowse.machine.files import replacing

LEVELS = 127  # noise is kept as 8-bit integers, in units of eps / LEVELS


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a denoiser is trained.

    Attributes:
        steps: Steps of the optimiser: Adam, its rate falling along half a cosine.
        warm_up: How many of the first steps are pixel-guided, which costs no pass through the classifier. The
            optimiser starts anew after them, and its rate falls once more.
        batch: Images a step.
        crop: Side of the random squares that are cut out of the images; None takes whole images.
        eps: The largest noise, per pixel; every image gets noise of a random size below it.
        clean: The share of images that get no noise at all.
        attack_steps: Steps of the iterative attack that makes half of the noise; the other half is FGSM.
        rate: The optimiser's first rate.
        channels: Of the U-Net.
        shuffle: Of the U-Net.
        detail: Of the U-Net.
        seed: Of everything random.
    """

    steps: int = 1000
    warm_up: int = 0
    batch: int = 16
    crop: int | None = None
    eps: float = 12 / 255
    clean: float = 0.3
    attack_steps: int = 3
    rate: float = 3e-3
    channels: tuple[int, ...] = (16, 32, 64)
    shuffle: int = 1
    detail: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        count(steps=self.steps, batch=self.batch, attack_steps=self.attack_steps)
        positive(rate=self.rate, eps=self.eps)
        if not 0 <= self.warm_up <= self.steps:
            raise InputError(f"warm_up must be between 0 and steps, got {self.warm_up} of {self.steps}")
        fraction(clean=self.clean, eps=self.eps)
        if self.crop is not None:
            count(crop=self.crop)


class TrainingStep(NamedTuple):
    """A step of the training: its number, from 1, and the loss before it; that of step 1 is the loss undefended."""

    number: int
    loss: float


class Learner:
    """A U-Net in training: its weights, optimiser, random stream and losses, all of which a checkpoint restores.

    The loss is the logits-guided one of Liao et al. 2018, Sec. 3.3: the mean of |net(x̂) − net(x)| over classes, where
    x̂ is the denoised noisy image and x the clean one; while warming up it is their pixel-guided one, the mean of
    |x̂ − x| (Sec. 3.2). No labels are needed.

    Args:
        net: The classifier, pixels (n, 3, H, W) in [0, 1] to logits; it stays as it is.
        training: How to train.
    """

    def __init__(self, net: nn.Module, training: Training) -> None:
        self.net, self.training = net, training
        with torch.random.fork_rng():
            torch.manual_seed(training.seed)
            self.unet = DenoisingUNet(training.channels, training.shuffle, training.detail)
        channels_last(self.unet)
        self.optimizer = self._new_optimizer()
        self.rng = torch.Generator().manual_seed(training.seed)
        self.losses: list[float] = []

    def run(self, images: Tensor, noise: Tensor) -> Iterator[TrainingStep]:
        """Train to the end on clean images, (n, 3, H, W), and their noise, (kinds, n, 3, H, W); yields each step."""
        self.unet.train()
        steps, warm_up = self.training.steps, self.training.warm_up
        while (number := len(self.losses)) < steps:
            warming = number < warm_up
            if number == warm_up:
                self.optimizer = self._new_optimizer()
            done = number / warm_up if warming else (number - warm_up) / (steps - warm_up)
            for group in self.optimizer.param_groups:
                group["lr"] = self.training.rate * (1 + math.cos(math.pi * done)) / 2
            clean, noisy = draw(images, noise, self.training, self.rng)
            denoised = noisy - self.unet(noisy)
            if warming:
                loss = (denoised - clean).abs().mean()
            else:
                with torch.no_grad():
                    wanted = self.net(clean)
                loss = (self.net(denoised) - wanted).abs().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(float(loss.detach()))
            yield TrainingStep(len(self.losses), self.losses[-1])

    def begin_with(self, unet: DenoisingUNet) -> None:
        """Take over the weights of another U-Net of the same shape before the first step."""
        theirs, ours = ((u.channels, u.shuffle, u.detail) for u in (unet, self.unet))
        if theirs != ours:
            raise InputError(
                f"the denoiser to begin with has channels, shuffle, detail = {theirs}, this training {ours}: "
                "train with the same shape"
            )
        self.unet.load_state_dict(unet.state_dict())

    def _new_optimizer(self) -> torch.optim.Adam:
        return torch.optim.Adam(self.unet.parameters(), lr=self.training.rate)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint; the old one is replaced at once or not at all."""
        state = {
            "training": asdict(self.training),
            "unet": self.unet.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": self.rng.get_state(),
            "losses": self.losses,
        }
        with replacing(path) as partial:
            torch.save(state, partial)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go on from a checkpoint of the same training, to the same end as if it had never stopped."""
        state = torch.load(path, weights_only=True)
        if state["training"] != asdict(self.training):
            ours = asdict(self.training)
            other = {name: value for name, value in state["training"].items() if ours.get(name) != value}
            raise InputError(
                f"the checkpoint {os.fspath(path)!r} is of another training ({other} there): "
                "train with the same settings or into another folder"
            )
        self.unet.load_state_dict(state["unet"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.rng.set_state(state["rng"])
        self.losses = list(state["losses"])


def craft_noise(
    images: Tensor,
    sources: Sequence[nn.Module],
    training: Training,
    on_progress: Callable[[int, int], None] | None = None,
) -> Tensor:
    """The noise to learn from: FGSM and the iterative attack on each source, (kinds, n, 3, H, W) int8 in eps/127.

    Args:
        images: Clean images, (n, 3, H, W).
        sources: Nets from pixels to logits, the defended one among them or not.
        training: How to train.
        on_progress: Called with (images done, all of them).
    """
    if not sources:
        raise InputError("a denoiser learns from the noise of at least one net, got none")
    if images.ndim != 4 or images.shape[1] != 3:
        raise InputError(f"a denoiser is trained on images (n, 3, H, W), got {tuple(images.shape)}")
    if training.crop is not None and training.crop > min(images.shape[-2:]):
        raise InputError(f"crop={training.crop} is larger than the images, {tuple(images.shape[-2:])}")
    noise = torch.empty((2 * len(sources), *images.shape), dtype=torch.int8)
    for kind, net in enumerate(sources):
        for start in range(0, len(images), training.batch):
            rows = slice(start, start + training.batch)
            crafted = craft(net, images[rows], training.eps, steps=training.attack_steps)
            for which, δ in enumerate(crafted):
                noise[2 * kind + which, rows] = (δ * (LEVELS / training.eps)).round()
            if on_progress is not None:
                on_progress(kind * len(images) + min(rows.stop, len(images)), len(sources) * len(images))
    return noise


def draw(images: Tensor, noise: Tensor, training: Training, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """A batch of clean and noisy images, (batch, 3, h, w) each: random crops, flips, kinds and sizes of noise."""
    n, (height, width) = training.batch, images.shape[-2:]
    h, w = (height, width) if training.crop is None else (training.crop, training.crop)
    which = torch.randint(len(images), (n,), generator=rng).tolist()
    kind = torch.randint(len(noise), (n,), generator=rng).tolist()
    top = torch.randint(height - h + 1, (n,), generator=rng).tolist()
    left = torch.randint(width - w + 1, (n,), generator=rng).tolist()
    flip, size, noisy = torch.rand((3, n), generator=rng)
    size = torch.where(noisy < training.clean, 0.0, size) * (training.eps / LEVELS)
    windows = [(..., slice(t, t + h), slice(s, s + w)) for t, s in zip(top, left, strict=True)]
    clean = torch.stack([images[i][window] for i, window in zip(which, windows, strict=True)])
    δ = torch.stack([noise[k, i][window] for k, i, window in zip(kind, which, windows, strict=True)])
    flipped = (flip < 0.5).view(-1, 1, 1, 1)
    clean, δ = (torch.where(flipped, rows.flip(-1), rows) for rows in (clean, δ))
    return clean, (clean + size.view(-1, 1, 1, 1) * δ).clamp(0, 1)


SMOOTHING = 20  # steps that the drawn line averages over


def write_curve(losses: Sequence[float], folder: Path, warm_up: int = 0) -> tuple[Path, Path]:
    """Write `loss.csv`, one line a step, and `loss.png` into a folder; returns both paths.

    The first `warm_up` losses are differences of pixels, those after them of logits: each kind has its own axes.
    """
    table, picture = folder / "loss.csv", folder / "loss.png"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("step", "loss"))
        writer.writerows((step, f"{loss:.6g}") for step, loss in enumerate(losses, 1))
    _draw(np.asarray(losses), picture, warm_up)
    return table, picture


def _draw(losses: np.ndarray, path: Path, warm_up: int) -> None:
    from matplotlib.figure import Figure

    parts = [("mean difference of pixels", 0, losses[:warm_up])] if warm_up else []
    if not warm_up or len(losses) > warm_up:
        parts.append(("mean difference of logits", warm_up, losses[warm_up:]))
    figure = Figure(figsize=(7 * len(parts), 4), layout="constrained")
    for axes, (name, before, part) in zip(np.atleast_1d(figure.subplots(1, len(parts))), parts, strict=True):
        steps = np.arange(before + 1, before + len(part) + 1)
        axes.plot(steps, part, color="0.8", linewidth=0.8, label="each step")
        if len(part) >= SMOOTHING:
            mean = np.convolve(part, np.full(SMOOTHING, 1 / SMOOTHING), "valid")
            axes.plot(steps[SMOOTHING - 1 :], mean, color="C0", label=f"mean of {SMOOTHING} steps")
        if len(part):
            axes.axhline(part[0], color="C3", linestyle="--", linewidth=0.8, label=f"step {before + 1}")
            axes.legend(frameon=False)
        axes.set(xlabel="step", ylabel=name, ylim=(0, None))
    figure.savefig(path, dpi=150)
