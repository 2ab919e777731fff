"""Connections to one server that stay open between requests, with as little in between as HTTP allows.

httpx does the same and more, in three times the processor's time a request, and that time limits an attack on a server
that answers many requests at once. It stays where a proxy is in between, and its exceptions are raised here. Python's
http.client takes 69 µs to read an answer alone, this 12.
"""

import io
import select
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import TYPE_CHECKING, NamedTuple

import httpx

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

IDLE = 5.0  # seconds after which a connection that nobody used is not used again: servers close theirs about then
AT_ONCE = 2**16  # bytes of a body up to which it goes in one piece with its head
LONGEST_LINE = 2**16


class Answered(NamedTuple):
    """What a server answered; the names of headers are in small letters."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """Open connections to the server of a URL; several threads may use them, each of them one at a time.

    Args:
        url: Any of the server's.
        clock: Seconds, from any start.
    """

    def __init__(self, url: httpx.URL, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._host = clock, url.raw_host.decode()
        self._named = url.netloc.decode()
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._tls: ssl.SSLContext | None = None
        if url.scheme == "https":
            self._tls = httpx.create_ssl_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        self._lock, self._closed = threading.Lock(), False
        self._idle: list[tuple[float, socket.socket]] = []
        self._busy: set[socket.socket] = set()

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> Answered:
        """Send a request and wait for all of its answer; raises what a transport of httpx raises."""
        line = self._connection(timeout)
        keep = False
        try:
            lines = [f"{method} {path} HTTP/1.1", f"Host: {self._named}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            if body is not None:
                lines.append(f"Content-Length: {len(body)}")
            begun = self._clock()
            self._send(line, "\r\n".join([*lines, "", ""]).encode("latin-1"), body or b"", timeout)
            answered, keep = _read(io.BufferedReader(_Reader(line, begun + timeout, self._clock)))
            return answered
        except TimeoutError as error:
            raise httpx.ReadTimeout(str(error)) from None
        except (OSError, HTTPException, ValueError, zlib.error) as error:
            raise httpx.RemoteProtocolError(str(error) or type(error).__name__) from None
        finally:
            self._give_back(line, keep)

    def close(self) -> None:
        """Close all of them; who waits for an answer gets none."""
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
            for line in self._busy:
                _shut_down(line)
        for _, line in idle:
            line.close()

    def _connection(self, timeout: float) -> socket.socket:
        """One that is open and silent, or a new one."""
        while True:
            with self._lock:
                if self._closed:
                    raise httpx.ConnectError("the target was closed")
                since, line = self._idle.pop() if self._idle else (0.0, None)
                if line is not None:
                    self._busy.add(line)
            if line is None:
                break
            if time.monotonic() - since <= IDLE and not _has_something_to_say(line):
                return line
            self._give_back(line, keep=False)
        try:
            line = self._connect(timeout)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from None
        except OSError as error:
            raise httpx.ConnectError(str(error)) from None
        with self._lock:
            self._busy.add(line)
        return line

    def _connect(self, timeout: float) -> socket.socket:
        line = socket.create_connection((self._host, self._port), timeout)
        try:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return line if self._tls is None else self._tls.wrap_socket(line, server_hostname=self._host)
        except BaseException:
            line.close()
            raise

    def _send(self, line: socket.socket, head: bytes, body: bytes, timeout: float) -> None:
        line.settimeout(timeout)
        try:
            for part in (head + body,) if len(body) <= AT_ONCE else (head, body):
                line.sendall(part)
        except ConnectionError:
            pass  # a server that refuses a request early says so before it hangs up: that is read

    def _give_back(self, line: socket.socket, keep: bool) -> None:
        with self._lock:
            self._busy.discard(line)
            keep = keep and not self._closed
            if keep:
                self._idle.append((time.monotonic(), line))
        if not keep:
            line.close()


class _Reader(io.RawIOBase):
    """What comes over a connection until a moment, however slowly it trickles."""

    def __init__(self, line: socket.socket, until: float, clock: Callable[[], float]) -> None:
        self._line, self._until, self._clock = line, until, clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        left = self._until - self._clock()
        if left <= 0:
            raise TimeoutError("the answer came too slowly")
        self._line.settimeout(left)
        return self._line.recv_into(buffer)


def _read(answer: io.BufferedReader) -> tuple[Answered, bool]:
    """An answer, and whether the connection stays open behind it."""
    status = 100
    while 100 <= status < 200:  # which another answer follows
        version, status, reason = _status(_line(answer))
        headers: dict[str, str] = {}
        while text := _line(answer):
            name, colon, value = text.partition(":")
            if not colon:
                raise HTTPException(f"a header without a colon, {text[:80]!r}")
            headers[name.strip().lower()] = value.strip()
    said = headers.get("connection", "").lower()
    stays = "close" not in said if version == "HTTP/1.1" else "keep-alive" in said
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = _pieces(answer)
    elif status in (204, 304):
        body = b""
    elif (length := headers.get("content-length")) is not None:
        body = _exactly(answer, int(length))
    else:
        body, stays = answer.read(), False
    return Answered(status, reason, headers, _unpacked(headers, body)), stays


def _status(line: str) -> tuple[str, int, str]:
    version, _, rest = line.partition(" ")
    code, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not code.isdecimal():
        raise HTTPException(f"no answer by HTTP, {line[:80]!r}" if line else "the server hung up")
    return version, int(code), reason


def _pieces(answer: io.BufferedReader) -> bytes:
    """The body of an answer that comes in pieces, each behind its size in hexadecimal digits."""
    parts = []
    while size := int(_line(answer).partition(";")[0], 16):
        parts.append(_exactly(answer, size))
        _line(answer)
    while _line(answer):
        pass  # headers that come last, which nobody asks for
    return b"".join(parts)


def _line(answer: io.BufferedReader) -> str:
    line = answer.readline(LONGEST_LINE)
    if not line.endswith(b"\n") and (line or answer.read(1)):
        raise HTTPException(f"a line of more than {LONGEST_LINE} bytes, or cut short")
    return line.rstrip(b"\r\n").decode("latin-1")


def _exactly(answer: io.BufferedReader, n: int) -> bytes:
    body = answer.read(n)
    if len(body) != n:
        raise HTTPException(f"{len(body)} of {n} bytes came")
    return body


def _has_something_to_say(line: socket.socket) -> bool:
    """Whether a connection on which nothing is awaited has something to read: as a rule, that it was closed."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(0))


def _shut_down(line: socket.socket) -> None:
    try:
        line.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _unpacked(headers: Mapping[str, str], body: bytes) -> bytes:
    """A body as it was before the server packed it."""
    packed = headers.get("content-encoding", "identity").lower() in ("gzip", "x-gzip", "deflate")
    return zlib.decompress(body, 47) if packed and body else body
