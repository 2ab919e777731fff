"""The CPU: how many cores there are, and what makes them fast at attacks."""

import ctypes
import os
import platform
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

# glibc's numbers for what mallopt can set (malloc.h), and the values that keep freed memory in the process:
# no block is mapped by itself, no freed memory goes back to the system, the heap grows by 256 MiB at a time.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
KEEP_FREED_MEMORY = ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, 2**28))
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # variables that say how OpenMP's threads wait


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ensure_fast_malloc() -> bool:
    """Tell glibc to keep freed memory for the next forward pass; False where there is no glibc.

    A forward pass at 224×224 allocates and frees every feature map. By default glibc maps the large ones anew each
    time, and the page faults can cost more than the arithmetic in nets of light layers, such as MobileNetV2; nets
    of heavy convolutions, such as ResNet-18, gain little. It has the effect of the variables MALLOC_MMAP_MAX_=0,
    MALLOC_TRIM_THRESHOLD_ and MALLOC_TOP_PAD_, but needs no new process. The process keeps its peak memory from
    then on, so a program calls this, never an import. Calling it twice does nothing more.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(option, value) == 1 for option, value in KEEP_FREED_MEMORY)


def wait_without_spinning() -> None:
    """Have threads of OpenMP sleep while they wait for each other, unless the environment says how they wait.

    By default they spin for a while. Beside one other busy process on as many cores that spinning takes the time that
    the thread which is waited for needs, and two threads fall to a tenth of their speed. OpenMP reads the variable
    once, as torch is imported: call it before. Processes that start from here do the same.
    """
    if not any(variable in os.environ for variable in WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def channels_last(module: "nn.Module") -> "nn.Module":
    """`module` itself, its 4-d weights laid out channels last, which CPU convolutions prefer.

    The memory layout of the results may follow; their values move by rounding only.
    """
    import torch  # here, so that a command line can tune malloc before it pays for importing torch

    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return module
