"""What every figure is: numbers to compute, a drawing of them, and a sentence that says what they say."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dowse.figures.attack_path import Trail, follow
from dowse.figures.figure_settings import FigureSettings
from dowse.figures.scene import Scene, make_scene
from dowse.figures.style import AnyFigure

Numbers = dict[str, Any]
Tell = Callable[[str, int, int], None]
"""Hears what is being computed, how many parts of it are done, and how many there are."""


class Laboratory:
    """What several figures share, made when it is first asked for.

    Args:
        setting: What to look at.
        tell: Hears of progress.
        with_fixed: Whether paths are compared with fixed λ too, which figure 1c needs and which costs most.
        scene: Target, surrogate and images, if they are there already; None loads what the setting names.
    """

    def __init__(
        self,
        setting: FigureSettings,
        tell: Tell = lambda what, done, total: None,
        with_fixed: bool = False,
        scene: Scene | None = None,
    ) -> None:
        self.setting, self.tell, self.with_fixed, self._scene = setting, tell, with_fixed, scene

    @cached_property
    def scene(self) -> Scene:
        """Target, surrogate and images."""
        return make_scene(self.setting) if self._scene is None else self._scene

    @cached_property
    def lambdas(self) -> list[float]:
        """The fixed λ of figure 1c, evenly spaced in log λ from 1/D, which is RGF, to 1, the transfer gradient."""
        grid = np.geomspace(1 / self.scene.images[0].numel(), 1, self.setting.lambdas)
        return [*grid[:-1].tolist(), 1.0]

    @cached_property
    def trails(self) -> list[Trail]:
        """The paths of the λ* attacks, one an image."""
        lambdas: Sequence[float] = self.lambdas if self.with_fixed else ()
        trails: list[Trail] = []
        for index in range(n := len(self.scene.images)):
            self.tell("attack paths", index, n)
            trails.append(follow(self.scene, self.setting, index, lambdas))
        self.tell("attack paths", n, n)
        return trails

    def about(self) -> Numbers:
        """What was looked at, for the record."""
        scene = self.scene
        return {
            "image_set": scene.source,
            "images": list(scene.names),
            "left_out": scene.left_out,
            "dimension": scene.images[0].numel(),
            "backend": scene.choice.backend,
        }


@dataclass(frozen=True)
class Panel:
    """A figure.

    Attributes:
        name: Its word on the command line.
        about: What it shows, in a line.
        size: From the numbers to width and height of their drawing, in inches.
        compute: From a laboratory to its numbers, which JSON can hold.
        draw: Draws the numbers on a figure or a part of one.
        sentence: What the numbers say.
    """

    name: str
    about: str
    size: Callable[[Numbers], tuple[float, float]]
    compute: Callable[[Laboratory], Numbers]
    draw: Callable[[AnyFigure, Numbers], None]
    sentence: Callable[[Numbers], str]
