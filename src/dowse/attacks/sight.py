"""How the attack `dowse` sees an image: what surrogates say of it, which pixels are learnt from, and rows of both."""

import itertools
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dowse.core.flow import Answer, Flow, Opening, Seen, Weights, look, opening
from dowse.maths.last_layer import Example, ScoreModel, log_scores
from dowse.maths.subspace import Subspace

RECOGNISED = 0.01  # share of the classes among which a surrogate has to see an image's own
FEW = 10  # but as many as these where there are ten times as many classes, a tenth of fewer, and LEAST in any case
LEAST = 2
CHANCE = 0.02  # of being among them by chance, up to which that tells enough
COARSE = 56  # a side of the small images that are learnt from without a surrogate
TOP = 10  # classes that λ is fitted on, the target's best at first


@dataclass(frozen=True)
class Sight:
    """What does not change of it while one image is attacked.

    Attributes:
        x0: The image, (*s).
        seen: What surrogates see there, by number; nothing if none of them is used.
        known: What was known as the attack began.
        scales: What each surrogate's features are multiplied by, so that all have the same say.
        classes: The label, or the class wanted, and the target's best classes at first.
        coarse: The small images whose pixels are learnt from; None is all pixels, which a surrogate's gradients move.
    """

    x0: Tensor
    seen: dict[int, Seen]
    known: Opening
    scales: tuple[float, ...]
    classes: Tensor
    coarse: Subspace | None

    @classmethod
    def of(cls, x0: Tensor) -> Flow["Sight"]:
        """With a look at the unchanged image."""
        known = yield from opening()
        seen = (yield from look(x0)) if known.surrogates else {}
        if not _recognised(known, seen):
            seen = {}
        scales = tuple(1 / max(float(one.features.norm()), 1e-9) for one in seen.values())
        h = log_scores(known.answer.scores[0], known.objective.outputs)
        goal = known.label if known.wanted is None else known.wanted
        best = h.topk(min(TOP, len(h))).indices
        classes = torch.cat([torch.tensor([goal]), best])
        helped = cls(x0, seen, known, scales, classes, None)
        return helped if seen else helped.alone()

    @property
    def doubtful(self) -> bool:
        """Whether surrogates are used of which the label tells little, on so small an image that it can do without."""
        K = len(self.known.answer.scores[0])
        return bool(self.seen) and max(self.x0.shape[1:]) <= COARSE and first_classes(K) > CHANCE * K

    def alone(self) -> "Sight":
        """Without surrogates."""
        sides = min(self.x0.shape[1], COARSE), min(self.x0.shape[2], COARSE)
        return replace(self, seen={}, scales=(), coarse=Subspace.of(sides, tuple(self.x0.shape)))

    def look(self, x: Tensor) -> Flow[dict[int, Seen]]:
        """What the surrogates that are used see at x, (*s)."""
        return (yield from look(x)) if self.seen else {}

    def row(self, x: Tensor, seen: dict[int, Seen], answer: Answer) -> Example:
        """What an answer about x, (*s), teaches beside what surrogates see there."""
        h = log_scores(answer.scores[0], self.known.objective.outputs)
        return Example(self.moved(x), self._features(seen), self._prior(seen, len(h)), h)

    def margin(self, model: ScoreModel, z: Tensor, seen: dict[int, Seen]) -> Tensor:
        """e_c − e_y, (K,): y the label, c the class that the model puts next to it at z; −(e_c − e_w) when targeted."""
        h = model.scores(self.moved(z), self._features(seen), self._prior(seen, len(self.known.answer.scores[0])))
        goal, u = int(self.classes[0]), torch.zeros_like(h)
        h[goal] = -math.inf
        u[int(h.argmax())], u[goal] = 1, -1
        return u if self.known.wanted is None else -u

    def weights(self, u: Tensor, λ: float, by_feature: Tensor, seen: dict[int, Seen]) -> dict[int, Weights]:
        """What each surrogate's logits and features are pulled by."""
        ends = list(itertools.accumulate(len(one.features) for one in seen.values()))
        parts = torch.tensor_split(by_feature, ends[:-1])
        logits = max(λ, 1e-3) / len(seen) * u
        return {i: Weights(logits, self.scales[i] * part) for i, part in enumerate(parts)}

    def moved(self, x: Tensor) -> Tensor:
        """How far x is from the image in the pixels that are learnt from, (d,)."""
        δ = (x - self.x0)[None]
        return (δ if self.coarse is None else self.coarse.down(δ)).flatten()

    def pixels(self, slope: Tensor) -> Tensor:
        """What is learnt of those pixels, (d,), as a slope of the image's own, (*s)."""
        if self.coarse is None:
            return slope.view_as(self.x0).clone()
        return self.coarse.up(slope.view(1, *self.coarse.small))[0]

    def _features(self, seen: dict[int, Seen]) -> Tensor:
        """φ of all surrogates side by side, (F,)."""
        parts = [scale * seen[i].features for i, scale in enumerate(self.scales)]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)

    def _prior(self, seen: dict[int, Seen], K: int) -> Tensor:
        """The surrogates' mean logits, (K,)."""
        if not seen:
            return torch.zeros(K, dtype=torch.float64)
        return torch.stack([one.logits for one in seen.values()]).mean(0)


def first_classes(K: int) -> int:
    """Among how many of K classes a surrogate has to see an image's own.

    >>> [first_classes(K) for K in (2, 10, 50, 100, 500, 1000, 5000)]
    [2, 2, 5, 10, 10, 10, 50]
    """
    return max(round(RECOGNISED * K), min(K // 10, FEW), LEAST)


def _recognised(known: Opening, seen: dict[int, Seen]) -> bool:
    """Whether any surrogate puts the image's label among its first classes: if none does, they are worth no query."""
    first = first_classes(len(known.answer.scores[0]))
    before = [int((one.logits >= one.logits[known.label]).sum()) - 1 for one in seen.values()]  # or level
    return any(rank < first for rank in before)
