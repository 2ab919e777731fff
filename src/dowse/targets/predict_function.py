"""The other direction: a target as the function from arrays to scores that other libraries ask for."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dowse.core.packing import default_batch_size
from dowse.errors import InputError
from dowse.targets.model import ModelLike
from dowse.targets.spec import open_target


class PredictFunction:
    """A target, or its spec, as a function from images to scores, both numpy arrays; `dowse.predict_function` makes it.

    Attributes:
        target: Who is asked.
        input_shape: (C, H, W) of the images it takes, as far as it says so.
        queries: Rows that were answered so far.
    """

    def __init__(self, target: ModelLike | str, *, batch_size: int | None = None) -> None:
        self.target = open_target(target)
        self.target.expect("probs")  # scores as the model gives them
        self.input_shape, self.batch_size = self.target.input_shape, batch_size
        self.queries = 0

    def __call__(self, images: Any) -> NDArray[np.float32]:
        """Scores (n, K) float32 of images (n, C, H, W) in [0, 1], in passes of the batch size."""
        pixels = np.asarray(images)
        if pixels.ndim != 4 or not np.issubdtype(pixels.dtype, np.floating):
            raise InputError(
                f"images must be floats (n, C, H, W) in [0, 1], got {pixels.dtype} of shape {pixels.shape}: "
                "x.astype(np.float32) / 255 makes floats of bytes, x.transpose(0, 3, 1, 2) NCHW of NHWC"
            )
        kind = self.target.kind
        points = torch.tensor(pixels, dtype=torch.float32 if kind is None else kind.dtype)
        points = points if kind is None else points.to(kind.device)
        if not len(points):
            return self._asked(points)
        size = self.batch_size or self.target.rows_per_call or default_batch_size(points)
        return np.concatenate([self._asked(points[i : i + size]) for i in range(0, len(points), size)])

    def _asked(self, points: torch.Tensor) -> NDArray[np.float32]:
        """Scores (n, K) of one pass; each row of a target that draws noise has a seed of its own."""
        seeds = torch.arange(len(points)) + self.queries if self.target.takes_row_seeds else None
        with torch.no_grad():
            delivery = self.target.deliver(points, seeds)
        self.queries += int(delivery.answered.sum())
        if delivery.scores is None or not bool(delivery.answered.all()):
            raise delivery.cause or RuntimeError("the target left rows unanswered and did not say why")
        scores: NDArray[np.float32] = delivery.scores.detach().cpu().float().numpy()
        return scores


def predict_function(target: ModelLike | str, *, batch_size: int | None = None) -> PredictFunction:
    """A target as other libraries ask for one: images (n, C, H, W) in [0, 1] -> scores (n, K), numpy arrays both.

    It is what ART's `BlackBoxClassifierNeuralNetwork` takes for `predict_fn` and foolbox's `NumPyModel` for `model`, so
    that their attacks run against whatever Dowse can ask: specs, files, servers, defences. Scores are as the model
    gives them; `queries` of the function counts the rows that were answered.

    Args:
        target: As in `attack`.
        batch_size: The most rows of one pass; None chooses by the image's size.

    >>> predict = predict_function(lambda x: x.flatten(1)[:, :3])
    >>> predict(np.ones((2, 1, 2, 2), np.float32)).shape, predict.queries
    ((2, 3), 2)
    """
    return PredictFunction(target, batch_size=batch_size)
