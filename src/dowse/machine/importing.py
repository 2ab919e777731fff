"""Modules by their names: packages that some need, and what a user's own code defines, if its modules are trusted."""

import functools
import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from dowse.errors import InputError, in_words, nearest

TRUST = "DOWSE_TRUST"  # the variable that names trusted modules, with commas between them; * is all


def needed(module: str, why: str, extra: str) -> Any:
    """A module that only some need; InputError that says why and names the extra that installs it, if it is not there.

    Args:
        module: Its name.
        why: Who needs what, in words.
        extra: Of `pip install 'dowse[EXTRA]'`.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{why} ({error}): pip install 'dowse[{extra}]'") from error


def trust(modules: Iterable[str]) -> None:
    """Let names come from these modules too, here and in processes that start from here."""
    os.environ[TRUST] = ",".join([*filter(None, os.environ.get(TRUST, "").split(",")), *modules])


def is_there(module: str) -> bool:
    """Whether there is such a module to be trusted, or at least the package that it would be in; nothing of it runs."""
    try:
        return module == "*" or _found(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def check_trusted(module: str) -> None:
    """Raise InputError unless a module may be imported because a spec or a file names it.

    Whoever writes a spec or an experiment file chooses what is called, and with which arguments: the standard library
    would be enough to run any program.
    """
    top, trusted = module.partition(".")[0], os.environ.get(TRUST, "").split(",")
    if "*" in trusted or any(f"{module}.".startswith(f"{one}.") for one in trusted if one):
        return
    own = top in ("dowse", "__main__") or (top not in sys.stdlib_module_names and _is_own(top))
    if not own:
        raise InputError(
            "what a spec or an experiment names must come from a module that you name with --trust, that lives below "
            "the working directory, or that belongs to an installed distribution and not to the standard library; "
            f"{module} does not: look at what it would run, then say --trust {top} (or {TRUST}={top})"
        )


def _is_own(top: str) -> bool:
    """Whether a package lies below the working directory or was installed; one that is nowhere fails by itself."""
    here = Path.cwd().resolve()
    try:
        spec = _found(top)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return True
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    inside = [Path(place).resolve().is_relative_to(here) for place in places if place is not None]
    return (bool(inside) and all(inside)) or top in importlib.metadata.packages_distributions()


def _found(top: str) -> ModuleSpec | None:
    """Where a package would be imported from, the working directory first."""
    here = str(Path.cwd().resolve())
    sys.path.insert(0, here)
    try:
        return importlib.util.find_spec(top)
    finally:
        sys.path.remove(here)


def imported(module_name: str, attribute: str) -> Any:
    """An attribute of a trusted module, which is looked for in the current folder too, as `python -m` does."""
    check_trusted(module_name)
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(
            f"cannot import {module_name!r}: {error}; run from its folder, or put that on PYTHONPATH and say "
            f"--trust {module_name}"
        ) from error
    except (Exception, SystemExit) as error:  # whatever the user's module does
        raise InputError(f"{module_name} fails as it is imported: {in_words(error)}") from error
    finally:
        sys.path.remove(here)
    found = vars(module)
    if attribute not in found:
        public = [word for word in found if not word.startswith("_")]
        raise InputError(f"{module_name} has no {attribute!r}: {nearest(attribute, public)}")
    value = made_by = found[attribute]
    while isinstance(made_by, functools.partial):
        made_by = made_by.func
    if isinstance(owner := getattr(made_by, "__module__", None), str):
        check_trusted(owner)  # a module may hold what it imported itself
    return value
