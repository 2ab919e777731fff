"""Connections that stay open: what a server may do to them, by a server that says what it is told to, byte by byte."""

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import httpx
import pytest

from dowse.targets.http.connections import Connections

ALL = 60.0  # seconds, never waited for


class Script:
    """Answers the requests of connection after connection with bytes; None hangs up instead."""

    def __init__(self, *connections: list[bytes | None]) -> None:
        self.script, self.heard = connections, list[list[bytes]]()
        self.hung_up = threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = httpx.URL(f"http://127.0.0.1:{self.listening.getsockname()[1]}/")
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        for answers in self.script:
            line, _ = self.listening.accept()
            self.heard.append([])
            with line:
                for answer in answers:
                    if answer is None:
                        break
                    self.heard[-1].append(_request(line))
                    line.sendall(answer)
            self.hung_up.set()


def _request(line: socket.socket) -> bytes:
    said = b""
    while b"\r\n\r\n" not in said:
        said += line.recv(4096)
    head, _, body = said.partition(b"\r\n\r\n")
    lengths = [int(one.split(b":")[1]) for one in head.split(b"\r\n") if one.lower().startswith(b"content-length")]
    while lengths and len(body) < lengths[0]:
        body += line.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def scripted(*connections: list[bytes | None]) -> Iterator[tuple[Script, Connections]]:
    server = Script(*connections)
    opened = Connections(server.url)
    try:
        yield server, opened
    finally:
        opened.close()
        server.thread.join()
        server.listening.close()


def ok(body: bytes, more: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


def post(opened: Connections, body: bytes = b"rows") -> bytes:
    return opened.exchange("POST", "/infer", {"X-Rows": "1"}, body, ALL).body


def test_requests_share_a_connection_head_and_body_in_one_piece() -> None:
    with scripted([ok(b"one"), ok(b"two")]) as (server, opened):
        assert [post(opened), post(opened, b"x" * 200_000)] == [b"one", b"two"]
        host = server.url.netloc.decode()
        said = f"POST /infer HTTP/1.1\r\nHost: {host}\r\nX-Rows: 1\r\nContent-Length: 4\r\n\r\nrows"
        assert server.heard[0][0] == said.encode()
        assert server.heard[0][1].endswith(b"\r\n\r\n" + b"x" * 200_000)


def test_a_connection_closed_meanwhile_is_noticed_before_anything_is_sent_over_it() -> None:
    with scripted([ok(b"one"), None], [ok(b"two")]) as (server, opened):
        assert post(opened) == b"one"
        server.hung_up.wait()
        assert post(opened) == b"two"
        assert [len(heard) for heard in server.heard] == [1, 1], "each was sent once"


@pytest.mark.parametrize("goes", ["Connection: close\r\n", "Connection: Close\r\nX: y\r\n"])
def test_a_server_that_says_close_gets_another_connection(goes: str) -> None:
    with scripted([ok(b"one", goes), None], [ok(b"two")]) as (_, opened):
        assert [post(opened), post(opened)] == [b"one", b"two"]


def test_answers_in_pieces_and_packed_ones_are_read_whole() -> None:
    pieces = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n4\r\n, on\r\n0\r\n\r\n"
    packed = ok(gzip.compress(b"scores" * 100), "content-encoding: gzip\r\n")
    early = b"HTTP/1.1 100 Continue\r\n\r\n" + ok(b"late")
    with scripted([pieces, packed, early, ok(b"")]) as (_, opened):
        assert [post(opened) for _ in range(4)] == [b"one, on", b"scores" * 100, b"late", b""]


HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"


@pytest.mark.parametrize("answer", [HALF, b"", b"no HTTP\r\n\r\n", ok(b"no", "content-encoding: gzip\r\n")])
def test_an_answer_cut_short_or_unreadable_is_a_connection_that_broke(answer: bytes) -> None:
    with scripted([answer, None]) as (_, opened), pytest.raises(httpx.RemoteProtocolError):
        post(opened)


def test_an_answer_that_trickles_ends_at_the_time_of_the_whole() -> None:
    ticks = count()
    with scripted([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1", None]) as (server, _):
        opened = Connections(server.url, clock=lambda: float(next(ticks)))
        with pytest.raises(httpx.ReadTimeout, match="too slowly"):
            opened.exchange("GET", "/", {}, None, 2.0)  # the clock is past that at the second look for more
        opened.close()


def test_without_a_server_nothing_was_handed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = httpx.URL(f"http://127.0.0.1:{free.getsockname()[1]}/")
    with pytest.raises(httpx.ConnectError):
        post(Connections(url))


def test_who_waits_when_all_are_closed_gets_no_answer() -> None:
    with scripted([b"", None]) as (server, opened):
        threading.Timer(0.05, opened.close).start()
        with pytest.raises(httpx.RemoteProtocolError):
            post(opened)
        assert len(server.heard[0]) == 1
    with pytest.raises(httpx.ConnectError, match="closed"):
        post(opened)
