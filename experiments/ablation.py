"""What each part of the attack `dowse` is worth: the attack without it, on tuning images, beside the whole.

    python experiments/ablation.py --out out/ablation.json [--only VARIANT] [--setting SETTING]

Queries of every image are kept in the file, so a run goes on where it was stopped; the table of docs/method.md is
printed. The images are those that the attack may be tuned on, never those of the results.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

import dowse
from dowse.attacks import arms
from dowse.core.flow import pull
from dowse.images.sources import open_images
from dowse.machine.packages import shared_folder
from dowse.models import load
from dowse.report.text.markdown import table_lines
from dowse.settings import Norm
from dowse.surrogates.faster import faster

BUDGET = 150
RESAMPLES = 2_000

Found = dict[str, dict[str, list[int]]]  # queries of each image, by setting and variant


@dataclass(frozen=True)
class Setting:
    """Which model is attacked, within what, on which images, at which side."""

    target: str
    surrogate: str | None
    norm: Norm
    eps: float
    images: str
    first: int
    count: int
    side: int

    def rightly_seen(self, net: torch.nn.Module) -> tuple[Tensor, Tensor]:
        """The images, (n, C, H, W), that the target knows, and their labels, (n,)."""
        loaded = open_images(shared_folder() / "data" / self.images).load(self.first + self.count, self.side)
        x, y = loaded.images[self.first :], loaded.labels[self.first :]
        with torch.no_grad():
            known = torch.cat([net(part).argmax(1) for part in torch.split(x, 8)]) == y
        return x[known].contiguous(), y[known]

    def queries(self, options: dict[str, Any]) -> list[int]:
        """Queries of each image, a failure at the budget."""
        net, helper = self.opened(self.target), self.opened(self.surrogate) if self.surrogate else None
        x, y = self.rightly_seen(net)
        within: dict[str, Any] = {"norm": self.norm, "eps": self.eps, "budget": BUDGET}
        result = dowse.attack(net, x, y, method="dowse", surrogate=helper, seed=0, **within, **options)
        return torch.where(result.success, result.queries, BUDGET).tolist()

    def opened(self, name: str) -> torch.nn.Module:
        """A classifier of the registry, as fast as it goes."""
        return faster(load(name).requires_grad_(False), (3, self.side, self.side))


def photographs(target: str, norm: Norm, eps: float, surrogate: str | None = "imagenet_efficientnet_lite0") -> Setting:
    """Photographs at half their side."""
    return Setting(target, surrogate, norm, eps, "imagenet_sample500", 100, 60, 112)


def cifar(target: str, surrogate: str | None, norm: Norm, eps: float, first: int = 600, count: int = 80) -> Setting:
    """Images of CIFAR-10."""
    return Setting(target, surrogate, norm, eps, "cifar10_test1000.npz", first, count, 32)


SETTINGS = {
    "MobileNetV2, l2 1.2": photographs("imagenet_mobilenetv2", "l2", 1.2),
    "SqueezeNet, l∞ 0.016": photographs("imagenet_squeezenet10", "linf", 0.016),
    "ResNet-20 by ResNet-56, l2 0.5": cifar("cifar10_resnet20", "cifar10_resnet56", "l2", 0.5),
    "MobileNetV2 alone, l2 3": photographs("imagenet_mobilenetv2", "l2", 3.0, None),
    "ResNet-20 alone, l2 1.2": cifar("cifar10_resnet20", None, "l2", 1.2),
    "ResNet-20 alone, l∞ 8/255": cifar("cifar10_resnet20", None, "linf", 8 / 255),
    "robust `adv_resnet2b` alone, l∞ 8/255": cifar("cifar10_adv_resnet2b", None, "linf", 8 / 255, 400, 60),
}


@dataclass(frozen=True)
class Variant:
    """The attack with something else in place of one of its parts.

    Attributes:
        options: Options of the attack.
        instead: What stands where, by the name that the attack looks it up by.
    """

    options: dict[str, Any] = field(default_factory=dict)
    instead: dict[str, Any] = field(default_factory=dict)


def without(arm: str, more: dict[str, Any] | None = None) -> Variant:
    """The attack without one of its arms, and with something else in place of more of its names."""

    def usable(name: str, surrogates: bool, norm: str, others: Callable[..., bool] = arms._usable) -> bool:
        return name != arm and others(name, surrogates, norm)

    return Variant(instead={"dowse.attacks.arms._usable": usable, **(more or {})})


def unchanged(x: Tensor, rng: torch.Generator) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The image itself as its only view."""
    return x, lambda gradient: gradient


VARIANTS = {
    "all of it": Variant(),
    "no views": Variant(instead={"dowse.attacks.dowse.random_view": unchanged}),
    "climbs' gradients not soft": Variant(
        instead={"dowse.attacks.dowse.pull": lambda x, weights, soft: pull(x, weights)}
    ),
    "nothing learnt": Variant({"ridge": 1e9}),
    "no pixels beside the features": Variant({"pixels": 0.0}),
    "one transfer example": Variant(instead={"dowse.attacks.arms.TRANSFERS": 1, "dowse.attacks.dowse.TRANSFERS": 1}),
    "no ods": without("ods"),
    "no windows, no patterns": without("bump", {"dowse.attacks.sight.RECOGNISED": 1.0}),  # which come first alone
    "no patterns but stripes": Variant(instead={"dowse.attacks.dowse.PATTERNS": 1, "dowse.attacks.dowse.ALONE": 1}),
    "no slope": without("slope"),
    "no ripples": without("ripple"),
    "compute 5": Variant({"compute": 5}),
    "compute 20": Variant({"compute": 20}),
}
ALONE = {
    "l2": {"all of it", "nothing learnt", "no patterns but stripes", "no ripples"},
    "linf": {"all of it", "no slope", "no patterns but stripes"},
}  # the parts that are there without a surrogate


def applies(variant: str, setting: Setting) -> bool:
    """Whether a part takes part in a setting at all."""
    if setting.surrogate is None:
        return variant in ALONE[setting.norm]
    return variant != "no ripples" and (setting.norm == "linf" or variant != "no slope")


def run(out: Path, only: str, place: str) -> Found:
    """Every variant in every setting that the file lacks; what it holds then."""
    found: Found = json.loads(out.read_text()) if out.exists() else {}
    for name, setting in SETTINGS.items():
        for title, variant in VARIANTS.items():
            if not applies(title, setting) or title in found.get(name, {}) or only not in title or place not in name:
                continue
            with ExitStack() as patches:
                for where, what in variant.instead.items():
                    patches.enter_context(patch(where, what))
                found.setdefault(name, {})[title] = setting.queries(variant.options)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(found, ensure_ascii=False))
            say(f"{name}: {title}: {torch.tensor(found[name][title]).float().mean():.1f}")
    return found


def cell(whole: list[int], other: list[int]) -> str:
    """The other's mean over the whole's, ± the standard error of a bootstrap over images; of the whole its mean."""
    pairs = torch.tensor([whole, other], dtype=torch.float64)
    mean, share = pairs.mean(1), (pairs[1] < BUDGET).double().mean()
    if other is whole:
        return f"{mean[0]:.1f}, {share:.0%} ({len(whole)} images)"
    draws = torch.randint(len(whole), (RESAMPLES, len(whole)), generator=torch.Generator().manual_seed(0))
    means = pairs[:, draws].mean(2)
    return f"{mean[1] / mean[0]:.2f} ± {float((means[1] / means[0]).std()):.2f}, {share:.0%}"


def lines(found: Found) -> Iterator[str]:
    """A row for each variant, a column for each setting, with the share of images fooled; the first has means."""
    names = [name for name in SETTINGS if "all of it" in found.get(name, {})]
    rows = [
        (
            title,
            *(
                cell(found[name]["all of it"], found[name][title])
                if title in found[name] and applies(title, SETTINGS[name])
                else "–"
                for name in names
            ),
        )
        for title in VARIANTS
    ]
    yield from table_lines(("", *names), rows)


def say(*lines: str) -> None:
    """Print lines at once."""
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description="What each part of the attack dowse is worth.")
    parser.add_argument("--out", type=Path, default=Path("out/ablation.json"))
    parser.add_argument("--only", default="", help="variants whose name holds this")
    parser.add_argument("--setting", default="", help="settings whose name holds this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    say(*lines(run(options.out, options.only, options.setting)))


if __name__ == "__main__":
    main()
