"""Which images a command is about, and the weights of what looks at them: the same words in every command."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from dowse.cli.options import Labels


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Images for a target; each field is an option of `dowse attack` and of `dowse audit`."""

    images: Annotated[str, typer.Option(help="A folder, an .npz, a .safetensors or an image file.")]
    count: Annotated[int | None, typer.Option(min=1, help="How many images, from the first.")] = None
    labels: Labels = "auto"
    size: Annotated[str | None, typer.Option(help="Side of the images, or HEIGHTxWIDTH; the target's if left out.")] = (
        None
    )
    channels: Annotated[
        int | None, typer.Option(min=1, max=3, help="1 for grey images, 3 for RGB; the target's if left out.")
    ] = None
    weights: Annotated[Path | None, typer.Option(help="The target's weights: .safetensors, or a torch file.")] = None

    @property
    def table(self) -> dict[str, Any]:
        """The table [images] of an experiment that says the same."""
        said = {"labels": self.labels, "count": self.count, "size": self.size, "channels": self.channels}
        return {"path": self.images, **said}

    def target(self, spec: str) -> dict[str, str]:
        """The table [[target]] of a spec, with the weights that were named."""
        from dowse.targets import with_options

        return {"spec": with_options(spec, weights=self.weights)}
