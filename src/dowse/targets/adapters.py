"""Whatever a user has becomes a Target here, once: a spec string, a module, a callable."""

from typing import Any

from dowse.core.target import Target, as_target
from dowse.targets.spec import resolve_target


def open_target(given: Any) -> Target:
    """The Target of what a user gives: a spec string, a Target, an nn.Module or any callable from points to scores.

    A model of another form (other layouts, arrays instead of tensors, answers in a dictionary) is to be made a callable
    from points (n, C, H, W) in [0, 1] to scores (n, K) here, before `as_target` sees it.
    """
    return as_target(resolve_target(given) if isinstance(given, str) else given)
