import platform
import subprocess
import sys

import pytest
import torch
from torch import nn

from dowse.machine import cpu

# Allocates and frees a 40 MB block ten times, touching each page, and prints how often the system had to map one.
FAULTS = """
import ctypes, resource, sys
from dowse.machine import cpu
if sys.argv[1] == "tuned":
    assert cpu.ensure_fast_malloc()
    assert cpu.ensure_fast_malloc()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
size = 5 * 2**23  # above the largest block that glibc learns to keep by itself
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    block = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(size)))
    libc.memset(block, 1, ctypes.c_size_t(size))
    libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    output = subprocess.run([sys.executable, "-c", FAULTS, mode], capture_output=True, text=True, check=True)
    return int(output.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_memory_stays_mapped_between_allocations() -> None:
    assert faults("tuned") * 3 < faults("plain")


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert not cpu.ensure_fast_malloc()


def test_channels_last_keeps_the_values() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 2)).eval()
    x = torch.rand(2, 3, 3, 3)
    expected = net(x)
    assert cpu.channels_last(net) is net
    assert net[0].weight.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(net(x), expected)
