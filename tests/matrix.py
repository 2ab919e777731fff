"""The whole suite under every kind of machine that this one can play; `make test-matrix`.

Each setting is one run of pytest in a process of its own: with other instruction sets, more threads, no workers,
another order of the tests, beside busy processes, and on the processors that tests/rounding.py plays. The table at the
end says what was run, and in which operations a setting gives other bits than the plain one: a setting that changes
nothing here shows nothing here. The exit status is 1 if any run failed or took too long.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

PROJECT = Path(__file__).resolve().parent.parent
DEFAULT = ("-m", "not (server or browser or cluster or install or long)")
COLUMNS = ("setting", "passed", "failed", "skipped", "seconds", "other bits than plain in")

# Prints a line for each operation: its name and a digest of what it makes of fixed numbers.
PROBE = """
import hashlib, torch
from torch.nn.functional import conv2d
from tests.rounding import play_if_asked
play_if_asked()
def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
a, b, x, w = drawn(37, 529), drawn(529, 45), drawn(3, 8, 15, 15), drawn(4, 8, 3, 3)
made = {
    "product": a @ b, "single product": a.float() @ b.float(),
    "convolution": conv2d(x, w), "single convolution": conv2d(x.float(), w.float()),
    "sum": a.sum(1), "single sum": a.float().sum(1), "tanh": a.tanh(), "single tanh": a.float().tanh(),
}
for name, value in made.items():
    print(hashlib.sha256(value.numpy().tobytes()).hexdigest(), name)
"""


@dataclass(frozen=True)
class Setting:
    """One kind of machine: what is said to the libraries, and what to pytest."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    busy: bool = False
    needs: str = ""  # a flag of /proc/cpuinfo


@dataclass(frozen=True)
class Ran:
    """What a run of pytest left."""

    setting: Setting
    status: int
    passed: int
    failed: Sequence[str]
    skipped: int
    seconds: float
    differs: Sequence[str]


def instructions(mkl: str, onednn: str, aten: str, openblas: str) -> dict[str, str]:
    """What tells torch's three libraries, and numpy's, which instructions to use."""
    return {
        "MKL_ENABLE_INSTRUCTIONS": mkl,
        "ONEDNN_MAX_CPU_ISA": onednn,
        "ATEN_CPU_CAPABILITY": aten,
        "OPENBLAS_CORETYPE": openblas,
    }


def settings(seed: int) -> list[Setting]:
    """All of them; `seed` is for the order of the tests."""
    patient = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}  # waiting threads leave the cores to others
    return [
        Setting("plain"),
        Setting("sse4", instructions("SSE4_2", "SSE41", "default", "NEHALEM")),
        Setting("avx2", instructions("AVX2", "AVX2", "avx2", "HASWELL"), needs="avx2"),
        Setting("avx512", instructions("AVX512", "AVX512_CORE", "avx512", "SKYLAKEX"), needs="avx512f"),
        Setting("mkl-compatible", {"MKL_CBWR": "COMPATIBLE"}),  # MKL heeds this on every maker's processors
        Setting("two-threads", patient),
        Setting("no-workers", options=("-n", "0")),
        Setting("random-order", options=("--random-order", f"--random-order-seed={seed}")),
        Setting("busy", busy=True),
        Setting("rounding-1", {"DOWSE_TEST_ROUNDING": "1"}),
        Setting("rounding-2", {"DOWSE_TEST_ROUNDING": "2"}),
    ]


def chosen(every: Sequence[Setting], names: Sequence[str]) -> list[Setting]:
    """The settings of these names, or all; a name's beginning stands for all that begin so."""
    unknown = [name for name in names if not any(one.name.startswith(name) for one in every)]
    if unknown:
        sys.exit(f"no setting is named {', '.join(unknown)}; there are: {', '.join(one.name for one in every)}")
    return [one for one in every if not names or any(one.name.startswith(name) for name in names)]


def flags() -> set[str]:
    """What /proc/cpuinfo says the processor can; empty where there is no such file."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.partition(":")[2].split()}


def environment_of(setting: Setting) -> dict[str, str]:
    """Nothing of what the settings say is taken over from the caller."""
    said = {name for one in settings(0) for name in one.environment}
    kept = {name: value for name, value in os.environ.items() if name not in said}
    return {**kept, "OMP_NUM_THREADS": "1", **setting.environment}


def probe(setting: Setting) -> dict[str, str]:
    """A digest of each operation's result under a setting."""
    command = [sys.executable, "-c", PROBE]
    told = subprocess.run(
        command, cwd=PROJECT, env=environment_of(setting), capture_output=True, text=True, check=True, timeout=600
    )
    return {name: digest for digest, name in (line.split(" ", 1) for line in told.stdout.splitlines())}


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """So many processes that do nothing, as fast as they can."""
    idle = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in idle:
            process.kill()
            process.wait()


def run(setting: Setting, tests: Sequence[str], patience: float, plain: Mapping[str, str]) -> Ran:
    """One run of pytest; it and all its children are ended when the patience is."""
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        busy_processes(os.cpu_count() or 1 if setting.busy else 0),
    ):
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", *DEFAULT, *setting.options, f"--junitxml={report}", *tests]
        process = subprocess.Popen(
            command, cwd=PROJECT, env=environment_of(setting), start_new_session=True, preexec_fn=_hear_ctrl_c
        )
        try:
            status = process.wait(patience)
        except subprocess.TimeoutExpired:
            status = 124
        finally:
            end(process)
        passed, failed, skipped = read(report)
    differs = [name for name, digest in probe(setting).items() if digest != plain[name]]
    return Ran(setting, status, passed, failed, skipped, time.monotonic() - begun, differs)


def _hear_ctrl_c() -> None:
    """A shell's background job and its children are born deaf to it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group, with its group: first as Ctrl-C does, so that it can tidy up."""
    for sign, seconds in ((signal.SIGINT, 30), (signal.SIGKILL, None)):
        if process.poll() is None:
            os.killpg(process.pid, sign)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)


def read(report: Path) -> tuple[int, list[str], int]:
    """From pytest's own report: how many tests passed, which failed, how many were skipped."""
    if not report.is_file():
        return 0, [], 0
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    names = [f"{case.get('classname')}::{case.get('name')}" for case in failed]
    return len(cases) - len(failed) - len(skipped), names, len(skipped)


def table(ran: Sequence[Ran], left_out: Sequence[Setting]) -> str:
    """What ran, a line each, then the names of the tests that failed."""
    lines = [COLUMNS]
    for one in ran:
        failures = {0: str(len(one.failed)), 124: "out of time"}.get(
            one.status, f"{len(one.failed)} (exit {one.status})"
        )
        differs = ", ".join(one.differs) or "nothing"
        lines.append((one.setting.name, str(one.passed), failures, str(one.skipped), f"{one.seconds:.0f}", differs))
    lines += [(one.name, "-", "-", "-", "-", f"not run: no {one.needs} here") for one in left_out]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    drawn = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    drawn += [f"{one.setting.name}: {test}" for one in ran for test in one.failed]
    return "\n".join(drawn)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen settings one after another."""
    parser = argparse.ArgumentParser(prog="make test-matrix", description=__doc__)
    parser.add_argument("tests", nargs="*", help="files or folders; without any, the whole suite")
    parser.add_argument("--only", default="", help="names of settings, or their beginnings, between commas or spaces")
    parser.add_argument("--patience", type=float, default=3600.0, help="seconds that one setting may take")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the random order of the tests")
    parser.add_argument("--list", action="store_true", help="name the settings and end")
    said = parser.parse_args(arguments)
    wanted = chosen(settings(said.seed), said.only.replace(",", " ").split())
    if said.list:
        _say("\n".join(one.name for one in wanted))
        return 0
    here = flags()
    fit = [one for one in wanted if not one.needs or one.needs in here]
    left_out = [one for one in wanted if one not in fit]
    plain, ran = probe(Setting("plain")), []
    for number, setting in enumerate(fit, 1):
        told = " ".join([*(f"{name}={value}" for name, value in setting.environment.items()), *setting.options])
        _say(f"\n{number} of {len(fit)}: {setting.name} {told}")
        ran.append(run(setting, said.tests, said.patience, plain))
    _say("\n" + table(ran, left_out))
    return int(any(one.status for one in ran))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
