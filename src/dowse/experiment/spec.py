"""One run of an experiment: one target, one image set, one method with all its options; its hash names a run."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dowse.errors import InputError
from dowse.settings import ExperimentSettings, settings_of
from dowse.wording import without_password

if TYPE_CHECKING:
    from dowse.attacks.base import Attack

NO_PART_OF_THE_ID = {name for name, setting in settings_of(ExperimentSettings).items() if not setting.identity}
CAME_LATER = {
    "streams": "image"
}  # settings that older runs lack, and what was done then: an id leaves them out at that
PLAIN = (str, int, float, bool, list, tuple, dict)  # what an option may be, to be kept in a store


@dataclass(frozen=True, kw_only=True)
class RunSpec(ExperimentSettings):
    """What a run is about, as plain data: the settings of its attack, on what, with whose help.

    Two experiments that share a run share its rows. The budget and the number of images are no part of the id: more of
    either goes on from where the run stopped. Nor is the pace: images at once, rows of a pass, a server's rate.

    Attributes:
        target: The target's spec, its defences in front.
        image_set: The image set's fingerprint.
        weights: Fingerprints of the files that target and surrogates are read from, by spec, where there are such.
        method: The method's name, or "package.module:Class".
        options: All options of the method, defaults included; one that came later only where it is not at its default.
    """

    target: str
    image_set: str
    weights: dict[str, str] = field(default_factory=dict)
    method: str = "prgf"
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The run's name: a hash of the content."""
        return id_of(self.content())

    @property
    def stream_target(self) -> str:
        """The target as random streams are keyed by it: its spec, without passwords and pace; "" where they are not."""
        return str(self.content()["target"]) if self.streams == "target" else ""

    @cached_property
    def attack(self) -> "Attack":
        """The method, made and checked: once in a process, from the plan to its last image."""
        from dowse.attacks.registry import resolve_method  # here: who reads specs need not know all methods

        return resolve_method(self)

    def __getstate__(self) -> dict[str, Any]:
        """Plain data alone crosses processes; a worker makes the method itself, where it may import it."""
        return {name: value for name, value in vars(self).items() if name != "attack"}

    def content(self) -> dict[str, Any]:
        """All that makes its rows, as JSON can say it; passwords in URLs are left out, and all that is only pace."""
        from dowse.targets import without_pace  # here: whoever reads rows need not know all targets

        content = asdict(self)
        content["target"] = without_pace(without_password(self.target))
        content["options"] = {name: self._plain(name, value) for name, value in self.options.items()}
        content["surrogate"] = [without_password(spec) for spec in self.surrogate]
        content["weights"] = {without_pace(without_password(spec)): digest for spec, digest in self.weights.items()}
        unsaid = {name for name, before in CAME_LATER.items() if content[name] == before}
        return {name: value for name, value in content.items() if name not in NO_PART_OF_THE_ID | unsaid}

    def _plain(self, name: str, value: Any) -> Any:
        if value is not None and not isinstance(value, PLAIN):
            raise InputError(
                f"option {name}={value!r} of {self.method} cannot be kept in a store: make it a number, a text, or a "
                "list of these"
            )
        return list(value) if isinstance(value, tuple) else value


def id_of(content: Mapping[str, Any]) -> str:
    """The id of a run by its content: its hash."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run so far: for how many images and with which budget.

    Attributes:
        spec: What is run.
        title: What the method is called in tables; unlike the spec's method it says the options that were given.
        count: How many images, from the first; None is all.
        target_name: What the target is called in tables; None leaves it to its spec.
        backend: What runs its target, "torch" or "onnxruntime", for the record; None where there is nothing to choose.
        rows_per_pass: The most rows of a pass of its target, where that was tried; None leaves it to its settings.
    """

    spec: RunSpec
    title: str
    count: int | None
    target_name: str | None = None
    backend: str | None = None
    rows_per_pass: int | None = None

    @property
    def target(self) -> str:
        """The target as a table says it: its name, else its spec without what is only pace."""
        return self.target_name or str(self.spec.content()["target"])

    @property
    def budget(self) -> int:
        """The most queries an image may cost."""
        return self.spec.budget
