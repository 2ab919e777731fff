"""What a user's own code defines, by its name "package.module:attribute"."""

import importlib
import os
import sys
from typing import Any

from dowse.errors import InputError, nearest


def imported(module_name: str, attribute: str) -> Any:
    """An attribute of a module, which is looked for in the current folder too, as `python -m` does."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(
            f"cannot import {module_name!r}: {error}; run from its folder, or put that on PYTHONPATH"
        ) from error
    finally:
        sys.path.remove(here)
    found = vars(module)
    if attribute not in found:
        public = [word for word in found if not word.startswith("_")]
        raise InputError(f"{module_name} has no {attribute!r}: {nearest(attribute, public)}")
    return found[attribute]
