"""Defences that remember: a classifier whose service refuses a query that is too like an earlier one."""

from dataclasses import fields
from typing import ClassVar, Self

from torch import Tensor

from dowse.core.detection import Detector
from dowse.core.target import TargetLike
from dowse.defences.arguments import options
from dowse.defences.base import Defence


class Stateful(Defence):
    """A classifier behind a detector of queries that are alike.

    The driver of an attack shows every query to the memory of its account and refuses what the detector refuses
    (`dowse.core.gate`), for it alone knows whose a query is. Called by itself, as a module, this is the classifier:
    outside an attack there is no account. Questions that are not the attack's own go past the detector: the re-checks
    of `verify` and the one about a saved picture.

    Args:
        net: From points to scores.
        choices: The fields of `kind`.
    """

    has_gradient = False
    kind_of_detector: ClassVar[type[Detector]]
    detector: Detector

    def __init__(self, net: TargetLike, **choices: object) -> None:
        super().__init__(net)
        self.detector = self.kind_of_detector(**choices)  # type: ignore[arg-type]

    def transform(self, x: Tensor, seeds: Tensor) -> Tensor:
        """x as it is."""
        return x

    @classmethod
    def for_spec(cls, net: TargetLike, argument: str | None) -> Self:
        """Its prefix alone, or with `OPTION=VALUE` between commas after a colon."""
        kinds = {one.name: _read_as(one.type) for one in fields(cls.kind_of_detector)}
        return cls(net, **options(cls.prefix, argument, kinds))


def _read_as(hint: object) -> type:
    """The type that an option's text is read as."""
    return {int: int, float: float, int | None: int}.get(hint, str)  # type: ignore[call-overload, no-any-return]
