"""A surrogate's batch norms folded into the convolutions before them: the same function, fewer passes over memory."""

from collections import Counter

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node, Tracer
from torch.nn.utils.fusion import fuse_conv_bn_eval

from dowse.core.target import Shape, as_target
from dowse.machine.cpu import channels_last
from dowse.targets import input_shape, resolve_surrogate

LOGITS, GRADIENTS = 1e-4, 0.1  # differences in length that are taken for rounding, and for kinks that rounding crosses
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
KEPT = ("steady", "input_shape")  # of a Target's attributes, those that a network may carry


def open_surrogate(spec: str) -> nn.Module:
    """The white-box module of a spec, as fast as it can be made: `folded`."""
    return folded(resolve_surrogate(spec), input_shape(spec))


def folded(net: nn.Module, shape: Shape | None = None) -> nn.Module:
    """A frozen network with every batch norm that follows a convolution folded into it, w ← w·γ/√(v + ε).

    A batch norm in eval mode is a multiplication and a sum for each channel, two passes over a feature map forward and
    one backward, and EfficientNet-Lite0 has 49. The network is traced without running it; one whose course depends on
    values, that has hooks, that draws noise or that has nothing to fold is given back as it is, and so is one whose
    folded form differs by more than rounding on an image of noise. `net` itself is not changed.

    Args:
        net: From points (n, C, H, W) in [0, 1] to logits (n, K), frozen and in eval mode.
        shape: (C, H, W) of its images; None tries 64×64 pixels.
    """
    if not _may_fold(net):
        return net
    try:
        made = _fold(net)
        same = made is not None and _agree(net, made, shape or (_channels(net), 64, 64))
    except Exception:  # what a stranger's forward raises when it is traced has no end, and no surrogate needs folding
        return net
    if made is None or not same:
        return net
    for name in KEPT:
        if hasattr(net, name):
            object.__setattr__(made, name, getattr(net, name))
    return made


def _may_fold(net: nn.Module) -> bool:
    """Whether there is something to fold and nothing that a trace would lose."""
    layers = list(net.modules())
    return (
        any(isinstance(layer, nn.BatchNorm2d) for layer in layers)
        and not any(layer.training for layer in layers)
        and not any(p.requires_grad for p in net.parameters())
        and not any(getattr(layer, hooks) for layer in layers for hooks in HOOKS)
        and not as_target(net).takes_row_seeds
    )


class _Layers(Tracer):
    """Takes convolutions and batch norms for single steps, also those of classes derived from torch's."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """As Tracer's."""
        return isinstance(m, nn.Conv2d | nn.BatchNorm2d) or super().is_leaf_module(m, module_qualified_name)


def _fold(net: nn.Module) -> GraphModule | None:
    graph = _Layers().trace(net)
    made = GraphModule(net, graph)  # with folders of its own for the layers, which are the net's
    layers = dict(made.named_modules())
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    found = False
    for node in list(graph.nodes):
        before = _convolution_before(node, layers)
        if before is None or calls[before.target] > 1:
            continue
        name = str(before.target)
        parent, _, attribute = name.rpartition(".")
        both = fuse_conv_bn_eval(layers[name], layers[str(node.target)])
        setattr(made.get_submodule(parent), attribute, both)
        node.replace_all_uses_with(before)
        graph.erase_node(node)
        found = True
    if not found:
        return None
    graph.lint()
    made.recompile()
    made.delete_all_unused_submodules()
    return channels_last(made.eval().requires_grad_(False))  # type: ignore[return-value]


def _convolution_before(node: Node, layers: dict[str, nn.Module]) -> Node | None:
    """The convolution whose result goes into a batch norm and nowhere else."""
    if node.op != "call_module" or not isinstance(norm := layers[str(node.target)], nn.BatchNorm2d):
        return None
    if norm.running_mean is None or len(node.args) != 1 or node.kwargs:
        return None
    before = node.args[0]
    if not isinstance(before, Node) or before.op != "call_module" or len(before.users) != 1:
        return None
    return before if isinstance(layers[str(before.target)], nn.Conv2d) else None


def _agree(net: nn.Module, made: nn.Module, shape: Shape) -> bool:
    """Whether logits and gradients of the two are the same up to rounding."""
    x = torch.rand(1, *shape, generator=torch.Generator().manual_seed(0)).to(next(net.parameters()))
    (z, g), (z_made, g_made) = _said(net, x), _said(made, x)
    return bool((z - z_made).norm() <= LOGITS * z.norm() and (g - g_made).norm() <= GRADIENTS * g.norm())


def _channels(net: nn.Module) -> int:
    return next(layer.in_channels for layer in net.modules() if isinstance(layer, nn.Conv2d))


def _said(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        logits: Tensor = net(x)
        (gradient,) = torch.autograd.grad(logits.square().sum(), x)
    return logits.detach(), gradient
