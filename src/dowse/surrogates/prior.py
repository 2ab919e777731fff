"""The transfer-based prior: what a surrogate says and its gradients, batched over images."""

import itertools
import math
import warnings
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from dowse.core.flow import Look, PriorAt, Pull, Seen, Weighing, Weights
from dowse.core.packing import WIDER, cover, default_batch_size, filled, shared_rows
from dowse.core.prior import Prior, all_finite
from dowse.core.target import Kind, as_target, checked_scores
from dowse.errors import InputError, SurrogateWarning, warn
from dowse.maths.losses import Objective
from dowse.surrogates.faster import Alike, open_surrogate, widened
from dowse.surrogates.features import LastLayer
from dowse.surrogates.smoothing import smoothed
from dowse.surrogates.softened import softened
from dowse.surrogates.surrogate import Surrogate, resized
from dowse.surrogates.weighing import pulls, weighed, weighed_sums

SINGLE = Kind(torch.float32, torch.device("cpu"))


class SurrogatePrior(Prior):
    """What one surrogate says, and the gradient of f or of any linear function of its logits or features through it.

    A surrogate that draws noise per row is given the image's turn for a seed.

    Args:
        surrogate: The net, its size, class offset and smoothing.
        objective: The attack's objective; its loss is taken of the surrogate's logits.
        batch_size: The most rows of one forward and backward pass; None chooses by the image's size.
        classes: How many the target has, if that is known; it is told otherwise as soon as an answer shows it.
    """

    def __init__(
        self,
        surrogate: Surrogate | nn.Module,
        objective: Objective,
        batch_size: int | None = None,
        classes: int | None = None,
    ) -> None:
        if isinstance(surrogate, nn.Module):
            surrogate = Surrogate(surrogate)
        self.surrogate = surrogate
        self.net = open_surrogate(surrogate.net) if isinstance(surrogate.net, str) else surrogate.net
        self.target = as_target(self.net)
        self.kind = self.target.kind  # looked for among its weights once, and asked for every question
        self._alike: Alike | None = getattr(self.net, "alike", None)
        self.last_layer = LastLayer(self.net)
        self._soft_layer: LastLayer | None = None
        self.objective = Objective(objective.loss, "logits", objective.targeted)
        self.batch_size, self.classes, self._remarked = batch_size, classes, False
        self.own_classes: int | None = None

    def learn_classes(self, like: Tensor) -> None:
        """Look at its number of classes before any query, in a pass like all others and back; like is one image, (*s).

        InputError if it fails, as it would at the first gradient, when queries were spent.
        """
        try:
            with warnings.catch_warnings(), torch.enable_grad():
                warnings.simplefilter("ignore")
                there = self._there(like.detach().unsqueeze(0))
                x = filled(there, self._fixed(there)).detach().requires_grad_()
                scores = checked_scores(self._forward(x.clone(), torch.zeros(len(x), dtype=torch.int64)), len(x))
                gradient = torch.autograd.grad(scores.sum(), x, allow_unused=True)[0] if scores.requires_grad else None
        except Exception as error:
            raise InputError(
                f"the surrogate {self.target.name} fails on images like these, {tuple(like.shape)}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if gradient is None:
            raise InputError(
                f"the surrogate {self.target.name} has no gradient: it detaches its scores from the image. Use another"
            )
        self.own_classes = scores.shape[1]
        self._remark(self.own_classes)

    def check_label(self, label: int) -> None:
        """Raise InputError if one of the target's labels is none of its classes, as far as these are known."""
        offset = self.surrogate.class_offset
        if self.own_classes is not None and not 0 <= label + offset < self.own_classes:
            raise InputError(
                f"label {label} is none of the surrogate's {self.own_classes} classes with class_offset={offset}: give "
                "dowse.Surrogate(net, class_offset=…) the right one"
            )

    def expect(self, classes: int) -> None:
        """Give what it says by the numbers of so many classes from now on."""
        self.classes = classes

    def pass_size(self, question: PriorAt | Look | Pull) -> int:
        """How many images' questions of the kind share a pass."""
        return self._fixed(question.x) or 1

    def gradient(self, x: Tensor, labels: Tensor, turns: Tensor | None = None) -> Tensor:
        """∇f at each row: (n, *s), (n,) -> (n, *s). Rows are independent, so one backward pass serves them all."""
        turns = torch.zeros_like(labels) if turns is None else turns
        there = self._there(x)
        return torch.cat(
            [
                self._gradient(*(filled(rows[part], size) for rows in (there, labels, turns)))[: len(x[part])]
                for part, size in self._parts(there)
            ]
        ).to(x.device)

    def see(
        self, x: Tensor, turns: Tensor, weights: Sequence[Weighing] | None = None, *, soft: bool = False
    ) -> list[Seen]:
        """What it says at each row, (n, *s), and the gradient of what the n weights make of it, if there are any."""
        there = self._there(x)
        self.last_layer.search(self._resized(there[:1].clone()), **self._seeds(turns[:1]))
        last_layer = self._softened(there) if soft else self.last_layer
        return [
            one
            for part, size in self._parts(there)
            for one in self._see(
                last_layer,
                filled(there[part], size),
                filled(turns[part], size),
                weights and weights[part],
                len(x[part]),
                x.device,
            )
        ]

    def _softened(self, x: Tensor) -> LastLayer:
        """The net whose gradients transfer better, made when it is first asked for, of images like x, (n, C, H, W)."""
        if self._soft_layer is None:
            noisy = self.target.takes_row_seeds
            net = self.net if noisy else softened(self.net, self._resized(x[:1].clone()))
            self._soft_layer = self.last_layer.shared_by(net)
        return self._soft_layer

    def _there(self, x: Tensor) -> Tensor:
        """Images where the net is."""
        return x if self.kind is None else x.to(self.kind.device)

    def _parts(self, x: Tensor) -> list[tuple[slice, int]]:
        """The rows of each pass, and how many it is filled up to: on a CPU all passes have the same number.

        Or one of the numbers that were seen to give the same bits. So what a surrogate says at an image does not depend
        on who asks beside it (docs/decisions/0008).
        """
        fixed = self._fixed(x)
        sizes = self._sizes(x, fixed) if fixed else (self.batch_size or default_batch_size(x),)
        passes = cover(len(x), sizes)
        ends = itertools.accumulate(passes)
        return [(slice(end - size, end), size if fixed else 0) for end, size in zip(ends, passes, strict=True)]

    def _sizes(self, x: Tensor, fixed: int) -> tuple[int, ...]:
        """How many rows passes of images like x, (n, C, H, W), may have, most first; `fixed` is the usual number."""
        alike = self._alike
        if alike is None or alike.shape != self._shape(x) or self.kind != SINGLE:
            return (fixed,)
        sizes = self._wide_sizes if len(x) >= WIDER and fixed > 1 else alike.sizes
        allowed = tuple(size for size in sizes if self.batch_size is None or size <= self.batch_size)
        return allowed if fixed in allowed else (fixed,)

    @cached_property
    def _wide_sizes(self) -> tuple[int, ...]:
        """With those of wider passes, tried when so many rows wait for the first time."""
        assert self._alike is not None
        return widened(self.net, self._alike).sizes

    def _fixed(self, x: Tensor) -> int:
        """How many rows every pass of images like x has, (…, C, H, W); 0 where they need not have the same number."""
        on_cpu = (x.device if self.kind is None else self.kind.device).type == "cpu"
        return shared_rows(math.prod(self._shape(x)), self.batch_size) if on_cpu else 0

    def _shape(self, x: Tensor) -> tuple[int, int, int]:
        """What the net sees of one of the images x, (…, C, H, W)."""
        size = self.surrogate.size
        height, width = x.shape[-2:] if size is None else size if isinstance(size, tuple) else (size, size)
        return x.shape[-3], height, width

    def _gradient(self, x: Tensor, labels: Tensor, turns: Tensor) -> Tensor:
        """∇f at each row as a pull whose weights are ∂f/∂z, (n, *s), (n,), (n,) -> (n, *s)."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            logits = self._forward(x.clone(), turns)  # a copy, which a net that normalises in place may overwrite
            weights = self._slopes(logits.detach().double(), labels)
            (gradient,) = torch.autograd.grad(weighed(logits, weights.to(logits)), x)
        return self._smoothed(gradient)

    def _see(
        self,
        last_layer: LastLayer,
        x: Tensor,
        turns: Tensor,
        weights: Sequence[Weighing] | None,
        n: int,
        home: torch.device,
    ) -> list[Seen]:
        """As `see` at the first n rows, in one pass of all of them; gradients come home all at once."""
        with torch.set_grad_enabled(weights is not None):
            x = x.detach().requires_grad_(weights is not None)
            with last_layer.catching():
                z = self._in_targets_classes(self._forward(x.clone(), turns, last_layer.net))
            φ = last_layer.features()
            φ = z if φ is None else φ
            said = zip(_told(z[:n]), _told(φ[:n]), strict=True)
            seen = [Seen(logits, features) for logits, features in said]
            if weights is None:
                return seen
            chosen = [w if isinstance(w, Weights) else w(one) for w, one in zip(weights, seen, strict=True)]
            sums = weighed_sums(chosen, z, φ)
            pulled = [torch.autograd.grad(s, x, retain_graph=j < len(sums) - 1)[0] for j, s in enumerate(sums)]
        gradients = torch.stack([self._smoothed(g) for g in pulled], 1).to(home)[:n]
        own = [g[: pulls(w)] if pulls(w) else g[0] for g, w in zip(gradients, chosen, strict=True)]
        return [one._replace(gradient=g) for one, g in zip(seen, all_finite(gradients, own), strict=True)]

    def _forward(self, x: Tensor, turns: Tensor, net: nn.Module | None = None) -> Tensor:
        logits: Tensor = (net or self.net)(self._resized(x), **self._seeds(turns))
        return logits

    def _resized(self, x: Tensor) -> Tensor:
        return x if self.surrogate.size is None else resized(x, self.surrogate.size)

    def _seeds(self, turns: Tensor) -> dict[str, Tensor]:
        return {"seeds": turns} if self.target.takes_row_seeds else {}

    def _smoothed(self, gradient: Tensor) -> Tensor:
        return gradient if self.surrogate.smooth is None else smoothed(gradient, self.surrogate.smooth)

    def _in_targets_classes(self, logits: Tensor) -> Tensor:
        """Logits by the target's class numbers, (n, K_s) -> (n, K); where the surrogate has none, its lowest."""
        self._remark(logits.shape[1])
        offset, classes = self.surrogate.class_offset, self.classes
        if classes is None:
            classes = logits.shape[1] - offset
        if offset == 0 and classes == logits.shape[1]:
            return logits
        own = torch.arange(classes, device=logits.device) + offset
        known = (own >= 0) & (own < logits.shape[1])
        lowest = logits.detach().amin(1, keepdim=True)
        return torch.where(known, logits[:, own.clamp(0, logits.shape[1] - 1)], lowest)

    def _slopes(self, z: Tensor, labels: Tensor) -> Tensor:
        """∂f/∂z, (n, K), (n,) -> (n, K); a class that the surrogate does not have is as likely as its least likely.

        Only a label that the target gave can be such a class: `check_label` has seen those that a user gave.
        """
        self._remark(z.shape[1])
        own = labels + self.surrogate.class_offset
        known = (own >= 0) & (own < z.shape[1])  # here and not on the device, where looking would be waiting
        if known.all():
            return self.objective.slope(z, own.to(z.device))
        known, own = known.to(z.device), own.where(known, z.shape[1]).to(z.device)
        slopes, other = torch.empty_like(z), ~known
        slopes[known] = self.objective.slope(z[known], own[known])
        wider = torch.cat([z[other], z[other].amin(1, keepdim=True)], 1)
        slopes[other] = self.objective.slope(wider, own[other])[:, :-1]
        return slopes

    def _remark(self, classes: int) -> None:
        """Warn once of a surrogate whose classes look shifted."""
        if self.classes not in (None, classes) and self.surrogate.class_offset == 0 and not self._remarked:
            self._remarked = True
            warn(
                f"the surrogate has {classes} classes, the target {self.classes}: if their numbers are shifted, give "
                "dowse.Surrogate(net, class_offset=1) or -1, --class-offset on a command line",
                SurrogateWarning,
            )


def _told(values: Tensor) -> Tensor:
    """What an attack is told, (n, K) float64 on the CPU, no part of any graph: what is not finite is a row's least."""
    told = values.detach().to("cpu", torch.float64)
    if math.isfinite(told.sum()):
        return told
    finite = told.isfinite()
    least = told.where(finite, math.inf).amin(1, keepdim=True)
    return told.where(finite, least.where(least.isfinite(), 0.0))
