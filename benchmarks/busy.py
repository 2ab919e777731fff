"""What one other busy process costs a run of two threads: queries a second alone and beside it, as a ratio.

`python -m benchmarks.busy` prints a line a way to wait: OpenMP's own, which spins, and ours. Each is one run, beside
which a process that does nothing as fast as it can is stopped and let go again, so that what else goes on hits both.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser

BUSY = [sys.executable, "-c", "while True: pass"]
ATTACK = [
    sys.executable, "-m", "dowse", "attack", "--target", "dowse:imagenet_mobilenetv2", "--images", "demo:photographs",
    "--method", "rgf", "--eps", "1e-4", "--budget", "1000000", "--threads", "2", "--no-answers", "--json",
]  # fmt: skip
WAYS = {"spinning, OpenMP's default": {"GOMP_SPINCOUNT": "300000"}, "sleeping, as dowse runs": {}}


def main() -> None:
    """Measure each way."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="of each turn")
    parser.add_argument("--turns", type=int, default=3, help="alone, and as many beside the busy process")
    told = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores before\n")
    print("| waiting | alone, queries/s | beside a busy process | ratio |")
    print("|---|---|---|---|")
    for way, settings in WAYS.items():
        alone, beside = rates(settings, told.seconds, told.turns)
        print(f"| {way} | {alone:.1f} | {beside:.1f} | {alone / beside:.2f} |", flush=True)


def rates(settings: dict[str, str], seconds: float, turns: int) -> tuple[float, float]:
    """Queries a second of a run under some variables, alone and beside a busy process."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(BUSY) as busy:
        busy.send_signal(signal.SIGSTOP)
        command = [*ATTACK, "--out", folder]
        with subprocess.Popen(command, env=plain | settings, stdout=subprocess.PIPE, text=True) as run:
            try:
                queries(run, 3)  # until it is warm
                asked = {signal.SIGSTOP: 0.0, signal.SIGCONT: 0.0}
                for wish in turns * [signal.SIGSTOP, signal.SIGCONT]:
                    busy.send_signal(wish)
                    queries(run, 1)
                    asked[wish] += queries(run, seconds) / turns
            finally:
                busy.kill()
                run.kill()
    return asked[signal.SIGSTOP], asked[signal.SIGCONT]


def queries(run: "subprocess.Popen[str]", seconds: float) -> float:
    """Queries a second of a run during the next seconds, from its own count at its first and its last event."""
    counts: list[tuple[float, int]] = []
    while not counts or counts[-1][0] - counts[0][0] < seconds:
        assert run.stdout is not None
        event = json.loads(run.stdout.readline())
        if event["event"] == "progress":
            counts.append((time.monotonic(), event["queries"]))
    (began, before), (ended, after) = counts[0], counts[-1]
    return (after - before) / (ended - began)


if __name__ == "__main__":
    main()
