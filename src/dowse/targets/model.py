"""Models as people have them: whatever they take and answer with, they become Targets here, without a wrapper."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from dowse.core.target import AdaptedTarget, Delivery, Shape, TargetLike, checked_scores
from dowse.errors import InputError, in_a_line
from dowse.settings import Outputs
from dowse.targets.likely_forms import answering, declared, likely
from dowse.targets.options import AnyLayout, Arrays, ModelOptions, PixelType
from dowse.targets.pixels import Pixels

OF_THE_PROTOCOL = ("takes_row_seeds", "deliver", "tell_resends")  # whoever has one of them speaks as Target does
NOT_ABOUT_THE_FORM = (InputError, OSError, MemoryError, StopIteration)


class Predicts(Protocol):
    """A model as scikit-learn and Keras have them."""

    def predict(self, x: Any, /) -> Any:
        """Labels, or scores."""


ModelLike = TargetLike | Predicts
"""What a user may give beside a spec string."""


class Model(AdaptedTarget):
    """A model as it is: a module, a function, an object with `predict_proba` or `predict`; points -> scores (n, K).

    It is first asked as a Target is, with a tensor (n, C, H, W) of floats in [0, 1]. Where that fails, an image of
    zeros is tried in other forms, a row each time, until one is answered: numpy arrays, NHWC, 8-bit, flattened. The
    first question pays for these rows (`sent`), and `form` says what was found. What is said here is not looked for.

    Args:
        given: The model.
        layout: "NCHW", "NHWC", or "NHW" for images of one channel without its axis.
        dtype: "uint8", "float32", "float64" or "float16"; of uint8, pixels are multiplied by 255 and rounded.
        scale: Pixels in [0, 1] are multiplied by it; None is 255 for uint8 and 1 else.
        mean: One number or one for each channel, subtracted after scaling.
        std: One number or one for each channel, divided by after that.
        arrays: "torch" or "numpy".
        flat: Whether each image is a row of numbers, (n, D), in the order of the layout.
        call: The name of the method that is called, such as "predict_proba".
        outputs: "logits" or "probs"; None sees it in the first answer, where it is no tensor (n, K).
        shape: (C, H, W) of the images it takes, so that others are brought to it.

    >>> import numpy as np
    >>> model = Model(lambda x: x.mean(axis=(1, 2)) @ np.eye(3, 2), layout="NHWC", arrays="numpy")
    >>> model(torch.ones(4, 3, 2, 5)).shape, model.form
    (torch.Size([4, 2]), 'numpy float NHWC in, logits out')
    """

    def __init__(
        self,
        given: Any,
        *,
        layout: AnyLayout | None = None,
        dtype: PixelType | None = None,
        scale: float | None = None,
        mean: Any = None,
        std: Any = None,
        arrays: Arrays | None = None,
        flat: bool | None = None,
        call: str | None = None,
        outputs: Outputs | None = None,
        shape: Shape | None = None,
    ) -> None:
        self.options = ModelOptions(
            layout=layout, dtype=dtype, scale=scale, mean=mean, std=std, arrays=arrays, flat=flat, call=call,
            outputs=outputs, shape=shape,
        )  # fmt: skip
        self.whole, called = given, answering(given, call)
        super().__init__(called)
        self.module = given if isinstance(given, nn.Module) else None
        self.input_shape = self.options.shape or declared(given, self.options.layout)
        self.pixels: Pixels | None = None
        self.read.said = self.read.outputs = outputs
        by_hand = any(value is not None for name, value in vars(self.options).items() if name != "shape")
        self.read.adapted = self.foreign = by_hand or not callable(given) or called is not given
        self.differentiable = self.module is not None and arrays != "numpy" and dtype != "uint8" and not flat
        self._tell: Callable[[slice], None] = lambda rows: None
        self.tell_resends = self._told  # type: ignore[method-assign]

    @classmethod
    def of(cls, given: Any, options: Mapping[str, Any]) -> "Model":
        """A model with options by name, their values typed or text."""
        return cls(given, **vars(ModelOptions.of(options)))

    def __call__(self, points: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Scores (n, K) of points (n, C, H, W)."""
        if self.pixels is not None:
            return self._ask(self.pixels, points)
        return self._ask_nothing(points) if not len(points) else self._first(points)[0]

    def deliver(self, points: Tensor, seeds: Tensor | None = None) -> Delivery:
        """As Target.deliver; the first rows may be handed over more than once."""
        if self.pixels is not None:
            return Delivery.whole(checked_scores(self._ask(self.pixels, points), len(points)))
        if not len(points):
            return Delivery.whole(self._ask_nothing(points))
        n, self._handed = len(points), torch.zeros(len(points), dtype=torch.int64)
        try:
            scores, handed = self._first(points)
            return Delivery(checked_scores(scores, n), handed, torch.ones(n, dtype=torch.bool))
        except Exception as cause:
            return Delivery(None, self._handed, torch.zeros(n, dtype=torch.bool), cause)

    @property
    def form(self) -> str | None:
        """How images go in and scores come out, where that is not as a Target does."""
        if self.pixels is None or not (self.read.adapted or not self.pixels.plain):
            return None
        return f"{self.pixels.words} in, {self.read.words} out"

    @property
    def name(self) -> str:
        """What errors call it."""
        return type(self.whole).__name__

    def _told(self, tell: Callable[[slice], None]) -> None:
        self._tell = tell

    def _ask(self, pixels: Pixels, points: Tensor) -> Tensor:
        """Scores (n, K), read from the answer about points in a form."""
        scores: Tensor = self.read(self.given(pixels.encode(points)), len(points))
        return scores

    def _ask_nothing(self, points: Tensor) -> Tensor:
        """Scores of no rows, which cost nothing; a module that takes them so takes all so."""
        forms = self._forms(points)
        for i, pixels in enumerate(forms):
            try:
                scores = checked_scores(self._ask(pixels, points), 0)
            except Exception:
                if self.module is None or i + 1 == len(forms):
                    raise
                continue
            if self.module is not None:
                self._settle(pixels if i == 0 or not self._takes_nothing(forms[0], points) else forms[0])
            return scores
        raise AssertionError("there is always a form")

    def _takes_nothing(self, pixels: Pixels, points: Tensor) -> bool:
        """Whether no rows in a form are answered after all: the first call may have failed by chance."""
        try:
            checked_scores(self._ask(pixels, points), 0)
        except Exception:
            return False
        return True

    def _first(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Scores (n, K) of the first points, and how often each row was handed over, (n,)."""
        n, forms = len(points), self._forms(points)
        self._handed = handed = torch.ones(n, dtype=torch.int64)
        try:
            scores = checked_scores(self._ask(forms[0], points), n)
        except NOT_ABOUT_THE_FORM:
            raise
        except Exception as error:
            found = self._found(forms, points, error)
            self._settle(found)
            if found is forms[0]:
                raise  # it takes such images: what failed is another matter
            self._tell(slice(0, n))
            handed += 1
            return self._ask(found, points), handed
        self._settle(forms[0])
        return scores, handed

    def _found(self, forms: Sequence[Pixels], points: Tensor, error: Exception) -> Pixels:
        """The first form in which an image of zeros is answered; the first one where none is, if the program's own."""
        zeros, tried = points.new_zeros((1, *points.shape[1:])), []
        for pixels in forms:
            self._tell(slice(0, 1))
            self._handed[0] += 1
            try:
                checked_scores(self._ask(pixels, zeros), 1)
            except Exception as cause:
                tried.append(f"{pixels.words}: {in_a_line(cause, 100)}")
                continue
            return pixels
        if forms[0].plain and not self.foreign:
            return forms[0]
        raise TypeError(
            f"{self.name} answers images {'×'.join(map(str, points.shape[1:]))} in none of the forms tried "
            f"({'; '.join(tried)}): say layout=, dtype=, scale=, call= or shape= of dowse.Model, behind # in a spec"
        ) from error

    def _settle(self, pixels: Pixels) -> None:
        self.pixels = pixels
        if not pixels.plain:
            self.read.adapted = True
            self.differentiable = self.differentiable and pixels.differentiable

    def _forms(self, points: Tensor) -> list[Pixels]:
        """The forms to be tried, the likeliest first, as far as nothing else was said."""
        shape = tuple(points.shape[1:])
        forms = [form for form in likely(self.whole, self.given, shape) if form.agrees(self.options)]
        made = dict.fromkeys(form.with_scale(self.options) for form in forms)
        return list(made) or [Pixels.said(self.options)]
