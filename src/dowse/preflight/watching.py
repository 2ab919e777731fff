"""What a target does, seen without a query: the operations of a pass of no rows, or those that its file holds."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from dowse.core.oracle import Oracle
from dowse.core.seeds import global_randomness
from dowse.core.target import AdaptedTarget
from dowse.targets.onnx import OnnxTarget

SOFTMAX = ("_softmax", "Softmax")  # as torch and ONNX call it
MOVES = {
    "view", "_unsafe_view", "reshape", "detach", "alias", "clone", "_to_copy", "slice", "select", "squeeze", "t",
    "unsqueeze", "expand", "permute", "Identity", "Cast", "Reshape", "Squeeze", "Flatten",
}  # what only moves numbers: what is answered with was computed before  # fmt: skip
DRAWS = ("Random", "Bernoulli", "Multinomial")  # how ONNX's begin that draw


class Behaviour(NamedTuple):
    """What was seen; False also where nothing can be.

    Attributes:
        softmax: Whether the last thing that it computes is a softmax.
        draws: Whether it draws from a global random generator.
    """

    softmax: bool = False
    draws: bool = False


def learn_by_nothing(oracle: Oracle, like: Tensor) -> Behaviour:
    """Have an oracle learn K from a pass of no rows, and watch the target meanwhile; like is one image, (*s)."""
    before, watch = global_randomness(), _Watch()
    with _not_compiled(), watch:
        oracle.learn_classes(like)
    target = oracle.target
    if oracle.classes is None or (isinstance(target, AdaptedTarget) and target.read.adapted):
        return Behaviour()  # it takes no such pass, or probabilities become what is expected of it
    if isinstance(target, OnnxTarget):
        names = target.operations()
        return Behaviour(_ends_in_softmax(names), any(name.startswith(DRAWS) for name in names))
    return Behaviour(_ends_in_softmax(watch.names), watch.drew or global_randomness() != before)


def _not_compiled() -> AbstractContextManager[object]:
    """Has torch.compile leave this pass alone: it would never compile again what it has seen under a watch."""
    if "torch._dynamo" not in sys.modules or not hasattr(torch.compiler, "set_stance"):
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


def _ends_in_softmax(names: Sequence[str]) -> bool:
    computing = [name for name in names if name not in MOVES]
    return bool(computing) and computing[-1] in SOFTMAX


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hears of every operation of torch in this thread.

    Attributes:
        names: What was done, in order.
        drew: Whether anything was drawn from the global generator, if only for no rows: one of its own may have a seed.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.drew = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import all of torch.compile, two seconds of a core, to keep off a watch that it never meets."""
        return False

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name, kwargs = func.overloadpacket.__name__, kwargs or {}
        self.names.append(name)
        if torch.Tag.nondeterministic_seeded in func.tags and not name.startswith("rrelu"):  # drawn in training only
            self.drew = self.drew or not any(isinstance(one, torch.Generator) for one in (*args, *kwargs.values()))
        return func(*args, **kwargs)
