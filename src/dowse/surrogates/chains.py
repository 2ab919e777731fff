"""Finds convolutions that follow each other in a traced network, and makes one step of them."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule, Node

from dowse.models.layers import SameConv2d
from dowse.surrogates.packed import IDENTITY, RELU, RELU6, Activation, Chain, can_pack

ACTIVATIONS = {nn.ReLU: RELU, nn.ReLU6: RELU6, F.relu: RELU, torch.relu: RELU, F.relu6: RELU6}


def chained(made: GraphModule) -> bool:
    """Make one `Chain` of convolutions of which each is read by the next only; whether there were any.

    The last of all layers stays as it is where it is a convolution: its input may be the features of the network.
    """
    if not can_pack():
        return False
    layers, found = dict(made.named_modules()), list(_chains(made))
    for number, nodes in enumerate(found):
        steps = [(layers[str(one.target)], activation_of(after, layers)) for one, after in nodes]
        made.add_submodule(f"chain{number}", Chain(steps))
        with made.graph.inserting_before(nodes[0][0]):
            whole = made.graph.call_module(f"chain{number}", nodes[0][0].args)
        (last, after) = nodes[-1]
        (after or last).replace_all_uses_with(whole)
        for node, after in reversed(nodes):
            for one in (after, node):
                if one is not None:
                    made.graph.erase_node(one)
    made.graph.lint()
    made.recompile()
    made.delete_all_unused_submodules()
    return bool(found)


def _chains(made: GraphModule) -> Iterator[list[tuple[Node, Node | None]]]:
    """Convolutions that follow each other, as long as may be: each with the activation behind it, if there is one."""
    layers = dict(made.named_modules())
    calls = Counter(node.target for node in made.graph.nodes if node.op == "call_module")
    weighed = [one for one in made.graph.nodes if isinstance(_layer(one, layers), nn.Conv2d | nn.Linear)]
    taken: set[Node] = set()
    for first in weighed:
        chain: list[tuple[Node, Node | None]] = []
        node: Node | None = first
        while node is not None and node not in taken and node is not weighed[-1]:
            if not _fits(_layer(node, layers)) or calls[node.target] > 1 or len(node.args) != 1 or node.kwargs:
                break
            after = _only_reader(node)
            activated = after if after is not None and activation_of(after, layers) != IDENTITY else None
            chain.append((node, activated))
            taken.add(node)
            node = _only_reader(activated or node)
        if chain:
            yield chain


def _layer(node: Node, layers: dict[str, nn.Module]) -> nn.Module | None:
    return layers[str(node.target)] if node.op == "call_module" else None


def _fits(layer: nn.Module | None) -> bool:
    """Whether a layer is a convolution as torch has it, or with TensorFlow's padding."""
    if type(layer) not in (nn.Conv2d, SameConv2d) or not isinstance(layer, nn.Conv2d):
        return False
    plain = layer.padding_mode == "zeros" and not isinstance(layer.padding, str) and set(layer.dilation) == {1}
    return plain and layer.weight.dtype == torch.float32 and layer.weight.device.type == "cpu"


def _only_reader(node: Node) -> Node | None:
    """Who reads a result, if nobody else does."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def activation_of(node: Node | None, layers: dict[str, nn.Module]) -> Activation:
    """What a step is among the activations that oneDNN has in a convolution's pass."""
    if node is None or len(node.args) != 1 or set(node.kwargs) - {"inplace"}:
        return IDENTITY
    kind: Any = type(_layer(node, layers)) if node.op == "call_module" else node.target
    return ACTIVATIONS.get(kind, IDENTITY) if node.op in ("call_module", "call_function") else IDENTITY
