"""The first look at a target: a preflight on a few of its pictures, kept, so that to go on costs nothing twice."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from dowse.audit.surrogates import AUTO, NONE, Surrogates, fitting_surrogates, given_surrogates
from dowse.errors import InputError
from dowse.machine.files import write_file
from dowse.preflight import as_record, preflight
from dowse.settings import Outputs
from dowse.targets.model import ModelLike

PICTURES, SECONDS = 8, 0.5
FILE = "preflight.json"


@dataclass(frozen=True)
class FirstLook:
    """What a first look told.

    Attributes:
        about: What was looked at and with what in mind; a look is used again for the same alone.
        preflight: The findings as plain data.
        surrogates: The surrogates and why these.
        rate: The target's rows a second; None if it was not timed.
    """

    about: dict[str, Any]
    preflight: dict[str, Any]
    surrogates: Surrogates
    rate: float | None

    @property
    def wrong(self) -> list[dict[str, str]]:
        """The findings that are to be mended first."""
        return [one for one in self.preflight["findings"] if one["verdict"] == "wrong"]

    @property
    def stops(self) -> bool:
        """Whether an audit would be about another model than is meant; a weak one that gets some right is not."""
        return any(
            one["check"] != "labels" or one["found"].startswith("0 of") or one["remedy"].startswith("every label")
            for one in self.wrong
        )

    @property
    def notes(self) -> list[dict[str, str]]:
        """The findings that are good to know."""
        return [one for one in self.preflight["findings"] if one["verdict"] == "note"]


def look(
    target: ModelLike,
    images: Tensor,
    labels: Sequence[int | None],
    surrogates: Sequence[str],
    about: dict[str, Any],
    names: Sequence[str] = (),
) -> FirstLook:
    """Ask a target about a few pictures, (n, C, H, W), and choose its surrogates: those named, "auto" or "none".

    `names` are those of its classes, as far as anybody says.
    """
    outputs: Outputs = about["outputs"]
    found = preflight(target, images, labels, outputs=outputs, seconds=SECONDS)
    chosen = tuple(surrogates) or (AUTO,)
    if chosen == (AUTO,):
        fitting = fitting_surrogates(about["target"], found.classes, images, found.labels, names)
    elif chosen == (NONE,):
        fitting = Surrogates()
    elif {AUTO, NONE} & {*chosen}:
        raise InputError(f"--surrogate {AUTO} and {NONE} stand alone, got {', '.join(chosen)}")
    else:
        fitting = given_surrogates(chosen)
    return FirstLook({**about, "asked": list(surrogates)}, as_record(found), fitting, found.rate)


def kept_look(folder: Path, about: dict[str, Any], surrogates: Sequence[str]) -> FirstLook | None:
    """The look that was kept in a store's folder, None if there is none at the same target with the same in mind."""
    try:
        said = json.loads((folder / FILE).read_text(encoding="utf-8"))
        chosen = said["surrogates"] | {"specs": tuple(said["surrogates"]["specs"])}
        found = FirstLook(said["about"], said["preflight"], Surrogates(**chosen), said["rate"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if found.about == {**about, "asked": list(surrogates)} else None


def keep(folder: Path, found: FirstLook) -> None:
    """Keep a look in a store's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / FILE, json.dumps(asdict(found), indent=1, ensure_ascii=False) + "\n")
