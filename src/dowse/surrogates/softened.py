"""A surrogate with the same outputs and a softer gradient, which holds for other networks more often than its own does.

A network's gradient passes a ReLU where that is open and nowhere else, and counts every residual branch in full. Both
are details of the one network. So here a share of the gradient gets through where a ReLU is shut (after Guo et al. 2020
and Wang et al. 2023), and a residual branch hands back a part of its own, the shortcut all of it (Wu et al. 2020).
docs/method.md has what each is worth.
"""

import copy
import operator
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from dowse.surrogates.chains import activation_of
from dowse.surrogates.faster import LOGITS, has_hooks, traced
from dowse.surrogates.packed import IDENTITY, Chain, activated

LEAK = 0.1  # share of a gradient that gets through a ReLU where that is shut
BRANCH = 0.7  # share that a residual branch hands back
SUMS = (operator.add, operator.iadd, torch.add)


def softened(net: nn.Module, like: Tensor) -> nn.Module:
    """A network's softer form, which shares its layers; `net` itself if it has hooks or cannot be traced.

    Args:
        net: From points (n, C, H, W) in [0, 1] to logits (n, K), or what `faster` made of one.
        like: An image that both are tried on, (1, C, H, W): their logits must be the same up to rounding, and the
            softer form's gradient must come through, which it may not where an activation is overwritten.
    """
    if has_hooks(net):
        return net
    try:
        made = GraphModule(net, copy.deepcopy(net.graph)) if isinstance(net, GraphModule) else traced(net)
        if not _soften(made) or not _agree(net, made.train(net.training), like):
            return net
    except Exception:  # what a stranger's forward raises when it is traced has no end; its own gradient serves as well
        return net
    object.__setattr__(made, "alike", getattr(net, "alike", None))  # what was put in goes number by number
    return made


def _agree(net: nn.Module, made: nn.Module, like: Tensor) -> bool:
    with torch.no_grad():
        z: Tensor = net(like.clone())
    with torch.enable_grad():
        x = like.detach().requires_grad_()
        z_made: Tensor = made(x.clone())
        torch.autograd.grad(z_made.sum(), x)  # which raises where it cannot
    return bool((z - z_made.detach()).norm() <= LOGITS * z.norm())


def _soften(made: GraphModule) -> bool:
    """Soften every ReLU and residual sum; whether there were any."""
    layers = dict(made.named_modules())
    depth: dict[Node, int] = {}  # weighing layers on the longest way to a result
    found = False
    for node in list(made.graph.nodes):
        layer = layers[str(node.target)] if node.op == "call_module" else None
        depth[node] = max((depth[one] for one in node.all_input_nodes), default=0) + _weighs(layer)
        if isinstance(layer, Chain):
            made.set_submodule(str(node.target), layer.leaking(LEAK))
        elif (activation := activation_of(node, layers)) != IDENTITY:
            depth[_instead(made, node, activated, (node.args[0], activation, LEAK))] = depth[node]
        elif (summands := _branch_and_shortcut(node, depth)) is not None:
            depth[_instead(made, node, _residual_sum, summands)] = depth[node]
        else:
            continue
        found = True
    made.graph.lint()
    made.recompile()
    return found


def _weighs(layer: nn.Module | None) -> int:
    """How many matrices of weights a layer has."""
    return 0 if layer is None else sum(p.ndim > 1 for p in layer.parameters())


def _instead(made: GraphModule, node: Node, function: Any, args: tuple[Any, ...]) -> Node:
    """Another step in a step's place."""
    with made.graph.inserting_before(node):
        new = made.graph.call_function(function, args)
    node.replace_all_uses_with(new)
    made.graph.erase_node(node)
    return new


def _branch_and_shortcut(node: Node, depth: dict[Node, int]) -> tuple[Node, Node] | None:
    """The two summands of a residual sum, the one of more layers first; None for anything else."""
    is_sum = node.target in SUMS if node.op == "call_function" else node.op == "call_method" and node.target == "add"
    if not is_sum or len(node.all_input_nodes) != 2 or len(node.args) != 2 or node.kwargs:
        return None
    one, other = sorted(node.all_input_nodes, key=depth.__getitem__)
    return (other, one) if 0 < depth[one] < depth[other] else None


class _ResidualSum(torch.autograd.Function):
    """Branch and shortcut and, backwards, a part of the gradient for the branch."""

    @staticmethod
    def forward(ctx: Any, branch: Tensor, shortcut: Tensor) -> Tensor:
        return branch + shortcut

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        return BRANCH * g, g


def _residual_sum(branch: Tensor, shortcut: Tensor) -> Tensor:
    if branch.shape != shortcut.shape:
        return branch + shortcut
    y: Tensor = _ResidualSum.apply(branch, shortcut)  # type: ignore[no-untyped-call]
    return y
