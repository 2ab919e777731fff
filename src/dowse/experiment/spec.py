"""One run of an experiment: one target, one image set, one method with all its options; its hash names a run."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from dowse.maths.geometry import Norm
from dowse.maths.losses import LossName, Outputs
from dowse.targets import without_pace

Dtype = Literal["float32", "float64"]


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What a run is about, as plain data. Two experiments that share a run share its rows.

    The budget and the number of images are no part of it: more of either goes on from where the run stopped. Nor is the
    pace at which a server is asked, such as its rate.

    Attributes:
        target: The target's spec, its defences in front.
        surrogate: The surrogates' specs; none where the method needs none.
        smooth: Side of the Gaussian kernel that the transfer gradient is smoothed with; None is no smoothing.
        class_offset: Added to the target's labels to make the surrogates'.
        surrogate_size: The side the surrogates work at; None is their own where it is known, else the images'.
        combine: What several surrogates make together.
        image_set: The image set's fingerprint.
        weights: Fingerprints of the files that target and surrogates are read from, by spec, where there are such.
        method: The method's name.
        options: All options of the method, defaults included.
        norm: The ball's norm.
        eps: Its radius; None is the paper's.
        step: PGD's step; None is the paper's.
        seed: The run's seed.
        loss: The objective's loss; None is the method's own.
        outputs: What the target answers with.
        reveals: What of it the attack sees; None is all.
        decimals: To how many decimals; None is all.
        targeted: Whether each image has a class to be reached.
        accept: Where success is looked for.
        quantize: Whether the attack stays on the 8-bit grid.
        repeats: How often each row is asked.
        verify: How often a success is asked about again.
        dtype: The precision of the images.
    """

    target: str
    surrogate: tuple[str, ...]
    image_set: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, str] = field(default_factory=dict)
    norm: Norm = "l2"
    eps: float | None = None
    step: float | None = None
    seed: int = 0
    loss: LossName | None = None
    outputs: Outputs = "logits"
    reveals: str | None = None
    decimals: int | None = None
    targeted: bool = False
    accept: str = "iterate"
    quantize: bool = False
    repeats: int = 1
    verify: int = 0
    smooth: int | None = None
    class_offset: int = 0
    surrogate_size: int | None = None
    combine: str = "mean"
    dtype: Dtype = "float32"

    @property
    def id(self) -> str:
        """The run's name: a hash of the content."""
        text = json.dumps(self.content(), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    def content(self) -> dict[str, Any]:
        """All fields as JSON can say them, passwords in URLs left out, and the pace of a server."""
        content = asdict(replace(self, target=without_pace(without_password(self.target))))
        content["options"] = {name: _plain(value) for name, value in self.options.items()}
        content["surrogate"] = [without_password(spec) for spec in self.surrogate]
        content["weights"] = {without_password(spec): digest for spec, digest in self.weights.items()}
        return content


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run so far: for how many images and with which budget.

    Attributes:
        spec: What is run.
        title: What the method is called in tables; unlike the spec's method it says the options that were given.
        budget: The most queries an image may cost.
        count: How many images, from the first; None is all.
    """

    spec: RunSpec
    title: str
    budget: int
    count: int | None


def without_password(spec: str) -> str:
    """A spec as it may be kept and shown."""
    return re.sub(r"//[^/@]*@", "//***@", spec)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
