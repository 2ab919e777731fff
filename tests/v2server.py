"""A small model server that speaks the Open Inference Protocol on loopback and misbehaves by script."""

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dowse.targets.http.target import HttpTarget

DTYPES = {"FP32": "<f4", "FP64": "<f8", "FP16": "<f2", "UINT8": "<u1"}
HEADER = "Inference-Header-Content-Length"


@dataclass
class Seen:
    """One request for scores as the server saw it."""

    rows: int
    binary: bool
    fault: str
    answered: int
    array: Any = None


@dataclass
class V2Server:
    """Serves `net`, points (n, C, H, W) in [0, 1] -> scores (n, K), at /v2/models/net.

    `script` names what happens to the requests for scores, one word each, then all is well: "ok", a status such as
    "500", "429:7" (Retry-After), "drop-unread", "drop", "cut", "stall", "malformed", "error", "wrong-shape",
    "wrong-rows", "wrong-classes", "nan", "null", "die" (answer, and never again).
    """

    net: Callable[[Tensor], Tensor]
    script: Iterable[str] = ()
    takes_binary: bool = True
    refuses_binary_with: int = 422
    datatype: str = "FP32"
    layout: str = "NCHW"
    scale: float = 1.0
    shape: tuple[int, ...] = (-1, 3, 4, 4)
    outputs: tuple[tuple[str, tuple[int, ...]], ...] = (("scores", (-1, 4)),)
    metadata_status: int = 200
    token: str | None = None
    version: str | None = None
    before_answer: Callable[[], object] = lambda: None
    seen: list[Seen] = field(default_factory=list)
    other_requests: list[str] = field(default_factory=list)
    dead: bool = False
    stopping: bool = False

    @property
    def url(self) -> str:
        version = f"/versions/{self.version}" if self.version else ""
        return f"http://127.0.0.1:{self.port}/v2/models/net{version}"

    @property
    def rows_seen(self) -> int:
        return sum(request.rows for request in self.seen)

    @property
    def rows_answered(self) -> int:
        return sum(request.answered for request in self.seen)

    def start(self) -> None:
        self.lock, self.released = threading.Lock(), threading.Event()
        self.words = iter(self.script)
        self.connections: set[socket.socket] = set()
        handler = type("Handler", (_Handler,), {"owner": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads, self.http.block_on_close = False, True
        self.port = self.http.server_address[1]
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def die(self) -> None:
        """Refuse all further connections, and drop what still comes over those there are."""
        self.http.shutdown()
        self.http.socket.close()
        self.dead = True  # last: whoever is dropped must find nobody to connect to

    def stop(self) -> None:
        self.released.set()
        self.http.shutdown()
        self.thread.join()
        with self.lock:
            self.stopping = True
            for connection in self.connections:
                _hang_up(connection)
        self.http.server_close()  # waits for the threads of all requests

    def metadata(self) -> dict[str, Any]:
        return {
            "name": "net",
            "platform": "test",
            "inputs": [{"name": "image", "datatype": self.datatype, "shape": list(self.shape)}],
            "outputs": [{"name": name, "datatype": "FP64", "shape": list(shape)} for name, shape in self.outputs],
        }

    def scores(self, array: Any) -> Any:
        """Scores (n, K) float64 of an input tensor as it came."""
        points = torch.from_numpy(array.astype(np.float64) / self.scale)
        with torch.no_grad():
            return self.net(points.permute(0, 3, 1, 2) if self.layout == "NHWC" else points).numpy()


class Clock:
    """A clock that moves only when somebody sleeps; all targets made by specs live by it once it is installed."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "Clock":
        made = partial(HttpTarget, clock=lambda: self.now, sleep=self.sleep)
        monkeypatch.setattr("dowse.targets.http.target.HttpTarget", made)
        return self


@contextmanager
def serving(net: Callable[[Tensor], Tensor], script: Iterable[str] = (), **settings: Any) -> Iterator[V2Server]:
    server = V2Server(net, script, **settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


class _Handler(BaseHTTPRequestHandler):
    owner: V2Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        with self.owner.lock:
            self.owner.connections.add(self.connection)
            if self.owner.stopping:
                _hang_up(self.connection)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            self.close_connection = True

    def finish(self) -> None:
        with self.owner.lock:
            self.owner.connections.discard(self.connection)
        try:
            super().finish()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        with self.owner.lock:
            self.owner.other_requests.append(self.path)
        if self._authorized():
            status = self.owner.metadata_status
            said = self.owner.metadata() if status == 200 else {"error": "no metadata here"}
            self._reply(status, json.dumps(said).encode())

    def do_POST(self) -> None:
        with self.owner.lock:
            fault = next(self.owner.words, "ok") if not self.owner.dead else "drop"
        if fault == "drop-unread":
            self._log(1, "Inference-Header-Content-Length" in self.headers, fault)
            return self._drop()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        expected = self.owner.url.partition(str(self.owner.port))[2] + "/infer"
        if self.path != expected:
            return self._reply(404, b'{"error": "no such model"}')
        if not self._authorized():
            return None
        binary = HEADER in self.headers
        head = json.loads(body[: int(self.headers[HEADER])] if binary else body)
        tensor = head["inputs"][0]
        dtype, n = DTYPES[tensor["datatype"]], tensor["shape"][0]
        if fault.partition(":")[0].isdecimal():
            self._log(n, binary, fault)
            status, _, retry_after = fault.partition(":")
            return self._reply(int(status), b"as scripted", {"Retry-After": retry_after} if retry_after else {})
        if binary and not self.owner.takes_binary:
            self._log(n, binary, "refused")
            return self._reply(self.owner.refuses_binary_with, b'{"detail": "not JSON"}')
        if fault in ("drop", "stall"):
            self._log(n, binary, fault)
            if fault == "stall":
                self.owner.released.wait()
            return self._drop()
        if binary:
            assert len(body) - int(self.headers[HEADER]) == tensor["parameters"]["binary_data_size"]
            array = np.frombuffer(body[int(self.headers[HEADER]) :], dtype).reshape(tensor["shape"])
        else:
            array = np.array(tensor["data"], np.float64).astype(dtype).reshape(tensor["shape"])
        self.owner.before_answer()
        wants_binary = bool(head.get("parameters", {}).get("binary_data_output"))
        self._answer(array, fault, binary, wants_binary, head)
        return None

    def _answer(self, array: Any, fault: str, binary: bool, wants_binary: bool, head: dict[str, Any]) -> None:
        n, scores = len(array), self.owner.scores(array)
        if fault in ("nan", "null"):
            scores[0, 0] = np.nan
        if fault == "wrong-rows":
            scores = np.concatenate([scores, scores[:1]])
        if fault == "wrong-classes":
            scores = np.concatenate([scores, scores[:, :1]], axis=1)
        if fault == "wrong-shape":
            scores = scores.reshape(-1)
        good = fault in ("ok", "nan", "null", "die")
        self._log(n, binary, fault, n if good else 0, array)
        wanted = [output["name"] for output in head.get("outputs", [])] or [name for name, _ in self.owner.outputs]
        tensors = [self._tensor(name, scores, wants_binary) for name in wanted]
        text = json.dumps({"model_name": "net", "outputs": [tensor for tensor, _ in tensors]})
        if fault == "null":
            text = text.replace("NaN", "null")
        reply = text.encode()
        headers = {HEADER: str(len(reply))} if wants_binary else {}
        reply += b"".join(data for _, data in tensors)
        if fault == "malformed":
            reply, headers = b'{"outputs": [', {}
        if fault == "error":
            reply, headers = b'{"error": "out of memory"}', {}
        if fault == "cut":
            self._reply(200, reply[:10], headers, length=len(reply))
            return self._drop()
        if fault == "die":
            self.owner.die()
        self._reply(200, reply, headers)
        return None

    @staticmethod
    def _tensor(name: str, scores: Any, binary: bool) -> tuple[dict[str, Any], bytes]:
        tensor: dict[str, Any] = {"name": name, "datatype": "FP64", "shape": list(scores.shape)}
        if not binary:
            return {**tensor, "data": scores.ravel().tolist()}, b""
        data = scores.astype("<f8").tobytes()
        return {**tensor, "parameters": {"binary_data_size": len(data)}}, data

    def _authorized(self) -> bool:
        given = self.headers.get("Authorization", "")
        if self.owner.token is None or given == f"Bearer {self.owner.token}":
            return True
        self._reply(401, f"{given} is not it".encode())  # an indiscreet server: it repeats what it was given
        return False

    def _log(self, rows: int, binary: bool, fault: str, answered: int = 0, array: Any = None) -> None:
        with self.owner.lock:
            self.owner.seen.append(Seen(rows, binary, fault, answered, array))

    def _drop(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        _hang_up(self.connection)

    def _reply(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, length: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body) if length is None else length)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
