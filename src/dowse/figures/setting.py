"""What a figure is about: target, surrogate, images and how much of each, as plain data that its JSON keeps."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from dowse.errors import InputError, choose, count
from dowse.settings import Norm
from dowse.wording import without_password


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What to compute a figure from.

    Attributes:
        target: Spec of what is attacked; a torch module, since the true gradient is compared with.
        surrogate: Spec of what gives the transfer gradient.
        images: A folder, an .npz, a .safetensors or an image file; None is the default set of `dowse.figures.scene`.
        count: How many images, the first ones that the target classifies rightly.
        norm: The ball's norm.
        seed: Seed of all random streams.
        budget: The most queries an attack may cost.
        iterations: The most iterations that figures 1c to 1e follow an attack for.
        q: Directions of each gradient estimate.
        norm_period: Figures 1c to 1e: iterations between two estimates of ‖∇f‖, the paper's 10.
        past_success: Whether figures 1c to 1e follow an image beyond the iterate that fools the target.
        lambdas: Figure 1c: how many fixed λ, spaced evenly in log λ from 1/D to 1.
        samples: Figure 1b: the largest S.
        slopes: Figure 1b: how many slopes are measured at each image, from which sets of S are drawn.
        image: Figure 1a: the image to show, by name; None chooses one.
        store: Figure 2: the folder of the store.
        experiment: Figure 2: the file of an experiment whose runs alone are drawn; None draws the whole store.
    """

    target: str = "dowse:imagenet_mobilenetv2"
    surrogate: str = "dowse:imagenet_efficientnet_lite0"
    images: str | None = None
    count: int = 12
    norm: Norm = "l2"
    seed: int = 0
    budget: int = 10_000
    iterations: int = 20
    q: int = 50
    norm_period: int = 10
    past_success: bool = False
    lambdas: int = 11
    samples: int = 50
    slopes: int = 400
    image: str | None = None
    store: Path | None = None
    experiment: Path | None = None

    def __post_init__(self) -> None:
        choose("norm", self.norm, get_args(Norm))
        count(
            count=self.count, budget=self.budget, iterations=self.iterations, q=self.q, samples=self.samples,
            slopes=self.slopes, norm_period=self.norm_period,
        )  # fmt: skip
        if self.lambdas < 2:
            raise InputError(f"lambdas must be at least 2, the ends 1/D and 1, got {self.lambdas}")
        if self.slopes < 2 * self.samples:
            raise InputError(
                f"slopes={self.slopes} must be at least twice samples={self.samples}, so that two sets of S differ"
            )

    def record(self) -> dict[str, Any]:
        """The setting as JSON keeps it: of places on this machine only the last name, no passwords."""
        kept = asdict(self) | {"target": without_password(self.target), "surrogate": without_password(self.surrogate)}
        return kept | {
            "images": None if self.images is None else Path(self.images).name,
            "store": None if self.store is None else self.store.name,
            "experiment": None if self.experiment is None else self.experiment.name,
        }
