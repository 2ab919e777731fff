"""What is said to workers about a run."""

from dataclasses import dataclass

import torch

from dowse.experiment.spec import RunSpec
from dowse.experiment.tables import Save


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """What a worker is told about a run, the same for all its tasks; plain data that can cross processes.

    Attributes:
        spec: What is run.
        log_answers: Whether answers are logged.
        save: What becomes of adversarial images; "png" has each rounded and asked about again.
        device: Where torch networks live.
        backend: "onnxruntime" if that runs the target, a torch network; None has its spec opened as it is.
        share: How many images there are for each worker; it attacks no more than that at once unless told to, or others
            would have none. None is no limit.
        rows_per_pass: The most rows of a pass of the target; None leaves it to the spec and the image's size.
    """

    spec: RunSpec
    log_answers: bool = True
    save: Save = "safetensors"
    device: str = "cpu"
    backend: str | None = None
    rows_per_pass: int | None = None
    share: int | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The precision of images and networks."""
        return torch.float64 if self.spec.dtype == "float64" else torch.float32
