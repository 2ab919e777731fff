"""What a figure is about: target, surrogate, images and how much of each, as plain data that its JSON keeps."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from dowse import errors
from dowse.settings import Norm, Setting, settings_of
from dowse.wording import without_password


def _whole(about: str) -> Setting:
    return Setting(about, check=errors.count, many=False)


def _free(about: str) -> Setting:
    return Setting(about, many=False)


@dataclass(frozen=True, kw_only=True)
class FigureSettings:
    """What to compute a figure from; the command line's options and their help derive from it."""

    target: Annotated[str, _free("What is attacked; a torch module, for its true gradient is compared with.")] = (
        "dowse:imagenet_mobilenetv2"
    )
    surrogate: Annotated[str, _free("What gives the transfer gradient.")] = "dowse:imagenet_efficientnet_lite0"
    images: Annotated[
        str | None, _free("An image set; if left out, that of $DOWSE_SHARED or the demo's photographs.")
    ] = None  # fmt: skip
    count: Annotated[int, _whole("How many images, the first classified rightly.")] = 12
    norm: Annotated[Norm, _free("The ball's norm.")] = "l2"
    seed: Annotated[int, _free("Seed of all random streams.")] = 0
    budget: Annotated[int, _whole("The most queries an attack may cost.")] = 10_000
    iterations: Annotated[int, _whole("1c to 1e: the most iterations to follow an attack for.")] = 20
    q: Annotated[int, _whole("Directions of each gradient estimate.")] = 50
    norm_period: Annotated[int, _whole("1c to 1e: iterations between two estimates of the gradient's norm.")] = 10
    past_success: Annotated[bool, _free("1c to 1e: follow images on that fool the target.")] = False
    lambdas: Annotated[int, _whole("1c: how many fixed λ, spaced evenly in log λ from 1/D to 1.")] = 11
    samples: Annotated[int, _whole("1b: the largest S.")] = 50
    slopes: Annotated[int, _whole("1b: slopes measured at each image, from which sets of S are drawn.")] = 400
    image: Annotated[str | None, _free("1a: the image to show, by name; the dearest if left out.")] = None
    store: Annotated[Path | None, _free("figure2: the folder of the store.")] = None
    experiment: Annotated[
        Path | None, _free("figure2: draw the runs of this experiment alone, not the whole store.")
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        for name, setting in settings_of(FigureSettings).items():
            setting.examine(name, getattr(self, name))
        if self.lambdas < 2:
            raise errors.InputError(f"lambdas must be at least 2, the ends 1/D and 1, got {self.lambdas}")
        if self.slopes < 2 * self.samples:
            raise errors.InputError(
                f"slopes={self.slopes} must be at least twice samples={self.samples}, so that two sets of S differ"
            )

    def record(self) -> dict[str, Any]:
        """The settings as JSON keeps them: of places on this machine only the last name, no passwords."""
        kept = {name: Path(value).name if isinstance(value, Path) else value for name, value in asdict(self).items()}
        images = None if self.images is None else Path(self.images).name
        specs = {"target": without_password(self.target), "surrogate": without_password(self.surrogate)}
        return {**kept, **specs, "images": images}
