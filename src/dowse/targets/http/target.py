"""Targets behind HTTP: models that mlserver, KServe, Triton and others serve by the Open Inference Protocol (V2)."""

import math
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dowse.core.calls import Calls
from dowse.core.target import Delivery, Target
from dowse.errors import InputError
from dowse.targets.declared_form import Array, filled, form_of, image_shape
from dowse.targets.http.bearer_token import Token
from dowse.targets.http.bytes_or_json import Encoding
from dowse.targets.http.client import ModelClient, check_url
from dowse.targets.http.inference_protocol import ModelMetadata, WireError, decode_response, encode_request
from dowse.targets.http.metadata import declared_batch, declared_classes, declared_sizes, pick_input, pick_output
from dowse.targets.http.pacing import Backoff, Failure, RateLimit, TargetError
from dowse.targets.http.parcel import Parcel, account
from dowse.targets.options import HttpOptions
from dowse.targets.pixels import Pixels

if TYPE_CHECKING:
    import httpx

NUMBERS_PER_REQUEST = 2**20
MOST_ROWS_PER_REQUEST = 64
ROWS_OF_UNKNOWN_SIZE = 16
RETRIES_FOR_METADATA = 2  # who mistyped a port should not wait long to hear of it

NO_METADATA = (404, 405, 501)  # a server may answer so where it describes no model and still serves it


class HttpTarget(Target):
    """A classifier behind HTTP: points (n, C, H, W) in [0, 1] -> scores (n, K).

    A call's rows travel in several requests at once. What fails in passing (no connection, a time-out, 408, 425, 429,
    5xx) is sent again after a growing wait, and counted as sent again. Whether the server takes tensors as bytes is
    found out with the first rows: refused so, they are sent again as JSON. A model of a fixed batch size gets requests
    of that size, filled up with copies of a row that are no queries and whose scores are dropped.

    A server that stays silent through all retries is tried once a request from then on, until it answers again; a run
    against a dead server so comes to its end.

    Args:
        url: `http(s)://HOST[:PORT]/v2/models/NAME[/versions/VERSION]`.
        options: See HttpOptions.
        transport: What carries requests, for tests; None is the network.
        clock: Seconds, from any start.
        sleep: Waits so many seconds; None is a wait that ends with the call.

    Attributes:
        rows_per_call: As many rows as fill all connections.
        calls_at_once: As many as there are connections; however calls are split, no more requests than that are under
            way.
        input_shape: (C, H, W) as far as the model's metadata fix it; None if they leave something free.
        classes: K, from the metadata or from the first answer; None as long as it is unknown.
    """

    remote = True

    def __init__(
        self,
        url: str,
        options: HttpOptions | None = None,
        *,
        transport: "httpx.BaseTransport | None" = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.url, self.options = check_url(url), options or HttpOptions()
        self._read_token()  # a missing one is an error now
        self._client = ModelClient(
            self.url,
            timeout=self.options.timeout,
            connections=self.options.connections,
            token=self._read_token,
            transport=transport,
            clock=clock,
        )
        self.calls_at_once = self.options.connections
        self._free = threading.BoundedSemaphore(self.options.connections)
        self._threads = ThreadPoolExecutor(self.options.connections, thread_name_prefix="dowse-http")
        self._close = weakref.finalize(self, _close, self._client, self._threads)
        self._backoff = Backoff(self.options.retries, longest=self.options.longest_wait)
        self._limit = RateLimit(self.options.rate, clock)
        self._sleep = sleep
        self._lock = threading.Lock()
        self._encoding, self._finding_out = Encoding(self.options.binary), threading.Lock()
        self._answers = 0
        self._silent = False
        self._tell_resend: Callable[[slice], None] = lambda rows: None
        metadata = self._learn_metadata()
        self._input = pick_input(metadata, self.options)
        self._output = pick_output(metadata, self.options)
        self.classes = declared_classes(metadata, self._output)
        self.input_shape = image_shape(declared_sizes(self._input.shape), self.options.layout)
        self._fixed_rows = declared_batch(self._input.shape)
        self.rows_per_call = self._rows_per_request(self.input_shape) * self.options.connections

    def __repr__(self) -> str:
        return f"HttpTarget({self.url!r})"

    def close(self) -> None:
        """Close all connections; also happens when nobody holds the target any more."""
        self._close()

    def __call__(self, points: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Scores (n, K) of points (n, C, H, W); of no rows, K as the metadata say it, without a request."""
        if len(points) == 0:
            self._form(points)
            if self.classes is None:
                raise TargetError(f"{self.url} does not say how many classes it has; its first answer will")
            return torch.empty((0, self.classes), dtype=torch.float64)
        delivery = self.deliver(points)
        if delivery.cause is not None or delivery.scores is None:
            raise delivery.cause or TargetError(f"{self.url} did not answer")
        return delivery.scores

    def deliver(self, points: Tensor, seeds: Tensor | None = None) -> Delivery:
        """Hand over points, (n, C, H, W), in requests of a few rows; what fails for good fails only its rows."""
        try:
            rows = self._form(points).encode(points)
        except InputError as cause:
            return Delivery.failed(len(points), cause, sent=0)
        step = self._rows_per_request(tuple(points.shape[1:]))
        parts = [slice(i, i + step) for i in range(0, len(points), step)]
        parcels: list[Parcel] = []
        with self._calls() as calls:
            while parts:
                with self._one_until_the_encoding_is_known() as alone:
                    now = parts[: 1 if alone else None]
                    parcels += calls.all([partial(self._send, rows, part, calls) for part in now])
                    del parts[: len(now)]
        return account(parcels)

    @contextmanager
    def _calls(self) -> Iterator[Calls]:
        """The requests of one call; as it ends, in whatever way, those that still wait give up."""
        calls = Calls(self.options.connections, self._threads)
        try:
            yield calls
        finally:
            calls.give_up()

    @contextmanager
    def _one_until_the_encoding_is_known(self) -> Iterator[bool]:
        """Whether a request has to find out how tensors travel; then it is the only one, whoever else calls."""
        if self._encoding.binary is not None:
            yield False
            return
        with self._finding_out:
            alone = self._encoding.binary is None
            if alone:
                yield True
        if not alone:
            yield False

    def tell_resends(self, tell: Callable[[slice], None]) -> None:
        """As Target.tell_resends."""
        self._tell_resend = tell

    def _send(self, all_rows: Array, part: slice, calls: Calls) -> Parcel:
        """One request, tried until it is answered or not worth another try; each but the first is told of before."""
        rows, stop = all_rows[part], calls.given_up
        sent, reserved, failures, answers_before = 0, len(rows), 0, 0
        retries = 0 if self._silent else self.options.retries
        binary, refusal = self._encoding.binary is not False, None
        try:
            while True:
                self._pause(self._limit.reserve(self._fixed_rows or len(rows)), stop)
                if sent == reserved:
                    calls.at_home(lambda: self._tell_resend(part))
                    reserved += len(rows)
                try:
                    sent += len(rows)
                    scores = self._ask(rows, binary)
                    with self._lock:
                        self._encoding.learn(binary, refusal)
                    return Parcel(len(rows), sent, scores=scores)
                except Failure as failure:
                    sent -= 0 if failure.handed_over else len(rows)
                    if binary and self._encoding.suspects(failure):
                        binary, refusal = False, failure
                        if not failure.transient:
                            continue
                    elif refusal is not None and refusal.transient:  # it refuses JSON too: nothing is learned
                        binary, refusal = True, None
                    if not failures:
                        answers_before = self._answers
                    failures += 1
                    wait = None
                    if failures <= retries:
                        wait = self._backoff.wait(failures, failure, random.random)
                    if wait is None:
                        self._silent = failure.transient and self._answers == answers_before
                        raise self._error(failure, failures) from None
                    if failure.retry_after is not None:
                        self._limit.hold(failure.retry_after)
                    self._pause(wait, stop)
        except Exception as cause:
            return Parcel(len(rows), sent, cause=cause)

    def _ask(self, rows: Array, binary: bool) -> Array:
        """Scores, (n, K), from one request; a Failure if there are none."""
        asked = rows if self._fixed_rows is None else filled(rows, self._fixed_rows)
        message = encode_request(asked, self._input.name, self._input.datatype, binary=binary, output=self._output)
        with self._free:
            answer = self._client.infer(message)
        try:
            scores = decode_response(answer, self._output)
        except WireError as error:
            raise Failure(self._client.hidden(str(error))) from None
        if scores.ndim != 2 or len(scores) != len(asked) or scores.shape[1] < 1:
            raise Failure(f"it answered {len(asked)} rows with scores of shape {scores.shape}, not ({len(asked)}, K)")
        with self._lock:
            if self.classes is None:
                self.classes = scores.shape[1]
            if scores.shape[1] != self.classes:
                raise Failure(f"it answered with {scores.shape[1]} classes, it said or had {self.classes} before")
            self._answers += 1
            self._silent = False
        return scores[: len(rows)]

    def _pause(self, seconds: float, stop: threading.Event) -> None:
        if seconds > 0:
            (self._sleep or stop.wait)(seconds)
        if stop.is_set():
            raise TargetError(f"{self.url}: the call was given up")

    def _learn_metadata(self) -> ModelMetadata:
        """What the server says of the model; nothing where it says nothing and the input's name is given."""
        failures, stop = 0, threading.Event()
        backoff = replace(self._backoff, retries=min(self._backoff.retries, RETRIES_FOR_METADATA))
        while True:
            try:
                return ModelMetadata.read(self._client.metadata())
            except WireError as error:
                raise InputError(f"{self.url} does not describe a model: {self._client.hidden(str(error))}") from None
            except Failure as failure:
                if failure.status in NO_METADATA and self.options.input is not None:
                    return ModelMetadata()
                failures += 1
                wait = backoff.wait(failures, failure, random.random)
                if wait is None:
                    raise InputError(f"{self._error(failure, failures)}{_remedy(failure)}") from None
                self._pause(wait, stop)

    def _form(self, points: Tensor) -> Pixels:
        if points.ndim != 4:
            raise InputError(f"{self.url} takes images (n, C, H, W), got {tuple(points.shape)}")
        return form_of(declared_sizes(self._input.shape), self._input.datatype, tuple(points.shape[1:]), self.options)

    def _rows_per_request(self, image: tuple[int, ...] | None) -> int:
        """The most rows of one request about images of a shape, (C, H, W), None if that is not known yet."""
        if (told := self._fixed_rows or self.options.rows) is not None:
            return told
        by_size = ROWS_OF_UNKNOWN_SIZE if image is None else NUMBERS_PER_REQUEST // max(1, math.prod(image))
        most = min(MOST_ROWS_PER_REQUEST, self.options.rate or math.inf)  # at a rate, no more at once than in a second
        return max(1, int(min(most, by_size)))

    def _read_token(self) -> Token | None:
        return Token.read(self.options.token_env, self.options.token_file)

    def _error(self, failure: Failure, attempts: int) -> TargetError:
        if failure.status is not None and attempts == 1:
            return TargetError(f"{self.url} answered with {failure}")
        tried = "" if attempts == 1 else f" after {attempts} attempts, the last"
        answered = failure.status is not None or str(failure).startswith("it answered")
        return TargetError(f"{self.url} {'gave no usable answer' if answered else 'did not answer'}{tried}: {failure}")


def _remedy(failure: Failure) -> str:
    """What to do where a server's metadata could not be had, beyond what the failure says itself."""
    if failure.status in NO_METADATA:
        return "; a server that has no metadata and serves the model all the same needs #input=NAME, its input's name"
    return "; is the server up?" if failure.status is None else ""


def _close(client: ModelClient, threads: ThreadPoolExecutor) -> None:
    threads.shutdown(wait=False, cancel_futures=True)
    client.close()
