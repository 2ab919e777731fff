"""What latency costs: an attack on a server that takes 50 ± 40 ms a request, against an ideal asynchronous client.

`python -m benchmarks.latency [--repeats 5] [--slower 4]` starts a server of its own on loopback, whose model costs
nothing, and attacks 16 images through it. The ideal client asks as many questions about as many images, each as soon as
the one before it is answered, and does nothing else: a coroutine an image, bytes that are ready, answers not read.

What is lost is waiting for others, which is the driver's fault, and the processor's time, 2 to 3 ms a request. On a
machine that others keep busy that is several times as long; `--slower 4` makes it requests of 200 ± 160 ms, which tell
the two apart.
"""

import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dowse
from benchmarks.figure import Figure, seconds
from dowse.experiment.file import make_experiment
from dowse.running.engines import LocalEngine
from dowse.running.run_experiment import run_experiment
from dowse.targets.http.inference_protocol import JSON_BYTES, encode_request
from dowse.targets.http.target import HttpTarget
from dowse.targets.options import HttpOptions

IMAGES, SIDE, REPEATS, GOAL = 16, 8, 5, 0.85
MEAN, SPREAD = 0.050, 0.040  # seconds a request, uniform
EPS = 1e-5  # nobody is fooled, so everyone asks as often
Asking = tuple[str, dict[str, Any], int, list[int]]  # the method, its options, the budget, the rows of each question
KINDS: dict[str, Asking] = {
    "a row a question (square, l∞)": ("square", {}, 60, [1] * 60),
    "50 rows and 1 by turns (rgf)": ("rgf", {"q": 50}, 1 + 51 * 25, [1, *[50, 1] * 25]),
}


def figures(repeats: int = REPEATS, slower: float = 1.0) -> list[Figure]:
    """Throughput over the ideal client's: as many connections as images, or four; with a store; and in rounds."""
    torch.set_num_threads(1)
    found = []
    with serving(slower) as url:
        for kind, asking in KINDS.items():
            ways = {
                "16 connections": partial(attacked, url, asking, 16),
                "16 connections, with a store": partial(run, url, asking, 16),
                "4 connections": partial(attacked, url, asking, 4),
                "16 connections, in rounds": partial(attacked, url, asking, 16, rounds=True),
            }
            rows, ratios = asking[-1], {way: list[float]() for way in ways}
            for _ in range(repeats):
                ideal = seconds(partial(ask_ideally, url, rows))
                for way, attack in ways.items():
                    ratios[way].append(ideal / attack())
            times = f"{1000 * MEAN * slower:.0f} ± {1000 * SPREAD * slower:.0f} ms"
            for way, samples in ratios.items():
                goal = GOAL if way in ("16 connections", "16 connections, with a store") else 0.0
                name = f"throughput over an ideal client's, {kind}, {way}"
                remark = f"{IMAGES} images, {len(rows)} questions each, {times}"
                found.append(Figure(name, samples, "at least", goal, remark))
    return found


def attacked(url: str, asking: Asking, connections: int, *, rounds: bool = False) -> float:
    """Seconds of an attack in memory."""
    x, y = images().permute(0, 3, 1, 2).float() / 255, torch.zeros(IMAGES, dtype=torch.int64)
    method, options, budget, _ = asking
    with closing(HttpTarget(url, HttpOptions(connections=connections, binary=True))) as target:
        if rounds:
            target.calls_at_once = 1
        begun = time.perf_counter()
        result = dowse.attack(
            target, x, y, method=method, norm="linf", eps=EPS, budget=budget, concurrency=IMAGES, **options
        )
        taken = time.perf_counter() - begun
    assert (result.queries == budget).all(), result.queries
    assert (result.sent == budget).all(), result.sent
    return taken


def run(url: str, asking: Asking, connections: int) -> float:
    """Seconds of the same as a run with a store and its log of answers."""
    method, options, budget, _ = asking
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "images.npz", images=images().numpy(), labels=np.zeros(IMAGES, dtype=np.int64))
        said = {
            "target": f"{url}#connections={connections}&binary=true", "images": f"{folder}/images.npz", "eps": EPS,
            "norm": "linf", "budget": budget, "concurrency": IMAGES, "method": {"name": method, **options},
            "save": "none",
        }  # fmt: skip
        experiment, engine = make_experiment(said, source="benchmark"), LocalEngine()
        with closing(engine):
            return seconds(lambda: run_experiment(experiment, Path(folder) / "out", engine))


def images() -> torch.Tensor:
    """8-bit images, (n, H, W, C)."""
    rng = torch.Generator().manual_seed(0)
    return torch.randint(40, 210, (IMAGES, SIDE, SIDE, 3), generator=rng, dtype=torch.uint8)


def ask_ideally(url: str, rows: list[int]) -> None:
    """What the ideal client does."""
    asyncio.run(ideally(url, rows))


async def ideally(url: str, rows: list[int]) -> None:
    """Ask questions of so many rows about every image, one after the other, all images at once."""
    host, _, rest = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    packed = {n: _post(host, rest, n) for n in set(rows)}

    async def one_image() -> None:
        reader, writer = await asyncio.open_connection(name, int(port))
        for n in rows:
            writer.write(packed[n])
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(_length(head))
        writer.close()

    await asyncio.gather(*(one_image() for _ in range(IMAGES)))


def _post(host: str, path: str, rows: int) -> bytes:
    body = encode_request(np.zeros((rows, 3, SIDE, SIDE), dtype=np.float32), "image", "FP32", binary=True)
    headers = {"Host": host, "Content-Length": str(len(body.body)), **body.headers}
    lines = [f"POST /{path}/infer HTTP/1.1", *(f"{key}: {value}" for key, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body.body


def _length(head: bytes) -> int:
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n") if b": " in line)
    return int(fields.get(b"content-length", b"0"))


@contextmanager
def serving(slower: float = 1.0) -> Iterator[str]:
    """A server in a process of its own; its URL."""
    command = [sys.executable, "-m", "benchmarks.latency", "--serve", "--slower", str(slower)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v2/models/net"
        finally:
            server.kill()


async def serve(slower: float) -> None:
    """Answer every request after its time, by a model of two classes whose scores are means of pixels, and 1 apart."""
    draw = random.Random(0)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            body = await reader.readexactly(_length(head))
            if head.startswith(b"GET"):
                _answer(writer, json.dumps(_METADATA).encode())
                continue
            await asyncio.sleep(slower * draw.uniform(MEAN - SPREAD, MEAN + SPREAD))
            rows = np.frombuffer(body[-(len(body) // _ROW) * _ROW :], dtype="<f4").reshape(-1, _ROW // 4)
            scores = np.stack([1 + rows.mean(1, dtype=np.float64), np.zeros(len(rows))], 1)
            said = {"outputs": [{"name": "scores", "datatype": "FP64", "shape": list(scores.shape),
                                 "parameters": {"binary_data_size": scores.nbytes}}]}  # fmt: skip
            text = json.dumps(said).encode()
            _answer(writer, text + scores.astype("<f8").tobytes(), f"{JSON_BYTES}: {len(text)}\r\n")

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


_ROW = 4 * 3 * SIDE * SIDE
_METADATA = {
    "name": "net",
    "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 3, SIDE, SIDE]}],
    "outputs": [{"name": "scores", "datatype": "FP64", "shape": [-1, 2]}],
}


def _answer(writer: asyncio.StreamWriter, body: bytes, more: str = "") -> None:
    writer.write(f"HTTP/1.1 200 OK\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--slower", type=float, default=1.0, help="multiplies the time of every request")
    parser.add_argument("--serve", action="store_true", help="only be the server, and say its port")
    told = parser.parse_args()
    if told.serve:
        asyncio.run(serve(told.slower))
        return
    for figure in figures(told.repeats, told.slower):
        print(figure, flush=True)


if __name__ == "__main__":
    main()
