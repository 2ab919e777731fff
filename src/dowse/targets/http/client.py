"""One request to a model server: what came back, or why nothing did and whether it makes sense to try again."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import NoReturn
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from dowse.errors import InputError
from dowse.targets.http.bearer_token import Token
from dowse.targets.http.inference_protocol import Message
from dowse.targets.http.pacing import Failure, read_retry_after
from dowse.targets.options import refuse_password

try:
    import httpx
except ImportError as error:
    raise InputError(f"http targets need httpx ({error}): pip install 'dowse[http]'") from error

from dowse.targets.http.connections import Connections  # who lacks httpx is told so first

AT_LEAST_FOR_METADATA = 10.0  # seconds: a model that is being loaded describes itself slowly
LONGEST_EXCERPT = 200

REMEDIES = {
    401: "give a token with token_env=NAME or token_file=PATH",
    403: "is the token of token_env= or token_file= the right one?",
    404: "is the model's name right, and is the model loaded?",
    413: "send less at once with rows=",
}


class ModelClient:
    """Talks to one model of one server; several threads may.

    Args:
        url: `http(s)://HOST[:PORT]/…/v2/models/NAME[/versions/V]`.
        timeout: Seconds for a connection, and for a whole answer.
        connections: How many requests are under way at once.
        token: Reads the token, for every request anew; None if there is none.
        transport: What carries requests, for tests; None is the network.
        clock: Seconds, from any start.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        connections: int,
        token: Callable[[], Token | None] = lambda: None,
        transport: "httpx.BaseTransport | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url, self._timeout, self._token, self._clock = url, timeout, token, clock
        self._infer = httpx.URL(f"{url}/infer")
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._connections: Connections | None = None
        if transport is None and (proxy := _proxy(self._infer)) is None:
            self._connections = Connections(self._infer, clock)
        elif transport is None:
            transport = httpx.HTTPTransport(limits=limits, proxy=proxy)
        self._transport = transport
        self._shown: Token | None = None

    def close(self) -> None:
        """Close the connections."""
        for carrier in (self._connections, self._transport):
            if carrier is not None:
                carrier.close()

    def hidden(self, text: str) -> str:
        """A text, such as what the server says, without the token in it."""
        return _hidden(text, self._shown)

    def metadata(self) -> bytes:
        """What the server says of the model; a Failure if it says nothing."""
        return self._request("GET", httpx.URL(self.url), max(self._timeout, AT_LEAST_FOR_METADATA)).body

    def infer(self, message: Message) -> Message:
        """What the server answers to a request; a Failure if it does not."""
        return self._request("POST", self._infer, self._timeout, message)

    def _request(self, method: str, url: "httpx.URL", timeout: float, message: Message | None = None) -> Message:
        try:
            token = self._shown = self._token()
        except InputError as error:
            raise Failure(str(error), handed_over=False) from None
        try:
            return self._exchange(method, url, timeout, message, token)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
            _fail("no connection", error, token, transient=True, handed_over=False)
        except httpx.TimeoutException as error:
            _fail(f"no answer within {timeout:g} s", error, token, transient=True)
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            _fail("the connection broke", error, token, transient=True)
        except httpx.HTTPError as error:
            _fail("the request failed", error, token, transient=False)

    def _exchange(
        self, method: str, url: "httpx.URL", timeout: float, message: Message | None, token: Token | None
    ) -> Message:
        headers = {"User-Agent": "dowse", "Accept": "*/*", "Accept-Encoding": "gzip, deflate"}
        headers |= dict(message.headers) if message else {}
        if token is not None:
            headers["Authorization"] = token.header()
        body = message.body if message else None
        if self._connections is None:
            return self._through_httpx(method, url, headers, body, timeout, token)
        answered = self._connections.exchange(method, url.raw_path.decode(), headers, body, timeout)
        if 200 <= answered.status < 300:
            return Message(answered.body, answered.headers)
        refused = httpx.Response(
            answered.status,
            headers=answered.headers,
            extensions={"reason_phrase": answered.reason.encode("latin-1")},
        )
        raise _refusal(refused, answered.body, token)

    def _through_httpx(
        self, method: str, url: "httpx.URL", headers: dict[str, str], body: bytes | None, timeout: float,
        token: Token | None,
    ) -> Message:  # fmt: skip
        """The same by a transport of httpx; its client's cookies and redirects would cost as much again."""
        assert self._transport is not None
        limits = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), timeout)}
        begun = self._clock()
        request = httpx.Request(method, url, headers=headers, content=body, extensions=limits)
        with closing(self._transport.handle_request(request)) as response:
            parts = []
            for part in response.iter_bytes():
                if self._clock() - begun > timeout:
                    raise httpx.ReadTimeout("the answer came too slowly")
                parts.append(part)
            answer = b"".join(parts)
            if response.is_success:
                return Message(answer, response.headers)
            raise _refusal(response, answer, token)


def _proxy(url: "httpx.URL") -> str | None:
    """The proxy that the environment names for a URL (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY)."""
    named = getproxies()
    proxy = None if proxy_bypass(url.netloc.decode()) else named.get(url.scheme) or named.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def check_url(url: str) -> str:
    """The URL of a model without what may follow it; an InputError if it cannot be one."""
    refuse_password(url)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InputError(f"{url!r} is not a URL: {error}") from None
    steps = parts.path.rstrip("/").removesuffix("/infer").split("/")
    at = max((i for i in range(len(steps) - 1) if steps[i : i + 2] == ["v2", "models"]), default=None)
    behind = steps[at + 2 :] if at is not None else []
    is_version = len(behind) == 3 and behind[1] == "versions"
    if not parts.netloc or not all(behind) or not (len(behind) == 1 or is_version):
        raise InputError(f"{url!r} names no model: expected http(s)://HOST[:PORT]/v2/models/NAME[/versions/VERSION]")
    if parts.query or parts.fragment:
        raise InputError(f"options go into HttpOptions, or behind # in a spec string, not into the URL {url!r}")
    try:
        return str(httpx.URL(f"{parts.scheme}://{parts.netloc}{'/'.join(steps)}"))
    except httpx.InvalidURL as error:
        raise InputError(f"{url!r} is not a URL: {error}") from None


def _fail(what: str, error: Exception, token: Token | None, *, transient: bool, handed_over: bool = True) -> NoReturn:
    """Raise a Failure that keeps the words of an error but not the error, which knows the request's headers."""
    said = _hidden(str(error) or type(error).__name__, token)
    raise Failure(f"{what} ({said})", transient=transient, handed_over=handed_over) from None


def _refusal(response: "httpx.Response", body: bytes, token: Token | None) -> Failure:
    status = response.status_code
    said = f"HTTP {status} {response.reason_phrase}".strip()
    read = body[: 4 * LONGEST_EXCERPT].decode(errors="replace")
    text = "".join(letter if letter.isprintable() else " " for letter in read).strip()
    if text:
        text = _hidden(text, token)
        said += f": {text[:LONGEST_EXCERPT]}{'…' if len(text) > LONGEST_EXCERPT else ''}"
    if response.is_redirect:
        said += f" (to {_hidden(response.headers.get('Location', 'nowhere'), token)}: use that URL)"
    elif status in REMEDIES:
        said += f" ({REMEDIES[status]})"
    return Failure(
        said,
        transient=status in (408, 425, 429) or (status >= 500 and status not in (501, 505)),
        status=status,
        retry_after=read_retry_after(response.headers.get("Retry-After")),
    )


def _hidden(text: str, token: Token | None) -> str:
    return text if token is None else token.hide_in(text)
