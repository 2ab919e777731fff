"""An answered question as it is logged: enough to hear it again, and a sketch that tells whether it is the same."""

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dowse.core.flow import Answer, Query
from dowse.core.reply import Reply
from dowse.store.answer_header import DIGEST_BYTES, FORMAT, HEADER, PROJECTIONS, check_header

Rows = NDArray[Any]

_COLUMNS = 61  # prime, so that no image's rows or channels line up with it


class Sketch(NamedTuple):
    """What is remembered of the points of a question.

    Attributes:
        rows: How many points there were.
        digest: Changes with any one number, and with the order of the points; made of sums, it is no proof against
            changes that are meant to cancel out.
        projections: Random projections of all points together; see `distance`.
    """

    rows: int
    digest: bytes
    projections: tuple[float, ...]


def sketch(points: Tensor) -> Sketch:
    """The sketch of points (n, *s), which costs little more than reading them: 5 ms for 50×3×224×224."""
    rows = points.detach().cpu().contiguous().numpy().reshape(len(points), -1)  # numpy: a call costs less than torch's
    return Sketch(len(rows), _digest(rows, points), _project(rows))


def distance(one: Sketch, other: Sketch) -> float:
    """An estimate of the root mean square distance between the points of two questions of as many rows.

    A projection on random signs has the square of the distance as its mean square, so the estimate is right on average
    whatever the difference looks like, and off by a factor of a few at most.
    """
    if one.rows != other.rows:
        return math.inf
    squares = [(a - b) ** 2 for a, b in zip(one.projections, other.projections, strict=True)]
    return math.sqrt(sum(squares) / len(squares) / one.rows)


def _digest(rows: Rows, points: Tensor) -> bytes:
    """Sums of the rows' words, column by column, hashed: integer sums see every bit and cost no more than reading."""
    words = _words(rows)
    n, width = words.shape
    blocks = width // _COLUMNS
    body = words[:, : blocks * _COLUMNS].reshape(n, blocks, _COLUMNS).sum(1, dtype=np.int64)
    rest = words[:, blocks * _COLUMNS :]
    digest = hashlib.blake2b(f"{points.dtype}{tuple(points.shape)}".encode(), digest_size=DIGEST_BYTES)
    for part in (body, rest):
        digest.update(part.tobytes())
    return digest.digest()


def _words(rows: Rows) -> Rows:
    """The bits of rows (n, D) as integers, (n, D) or (n, D/2): as wide as they fit."""
    return rows.view(np.int32 if rows.itemsize == 4 and rows.shape[1] % 2 else np.int64)


def _project(rows: Rows) -> tuple[float, ...]:
    combined = _signs(len(rows), 1, rows.dtype)[:, 0] @ rows  # (D,): each row by a sign of its own
    projected = combined.astype(np.float64) @ _signs(rows.shape[1], PROJECTIONS, np.dtype(np.float64))
    return tuple(projected.tolist())


@lru_cache(maxsize=64)
def _signs(n: int, columns: int, dtype: np.dtype[Any]) -> Rows:
    """±1 with equal chance, the same in every process, (n, columns)."""
    rng = torch.Generator().manual_seed(columns)
    signs = torch.randint(0, 2, (n, columns), generator=rng, dtype=torch.float64) * 2 - 1
    return signs.numpy().astype(dtype)


_ANSWERED, _FINITE, _WHITE_BOX, _REFUSED = 1, 2, 4, 8


@dataclass(frozen=True)
class LoggedAnswer:
    """What became of one question of one image.

    Attributes:
        asked: The sketch of its points.
        reply: What the driver got, without a cause and a gradient; of the scores, (n, K), K = 0 where the method does
            not look at them.
        white_box: Whether a gradient was part of the answer; it is not kept, so such an answer cannot be heard again.
        seconds: How long the image had been under attack when the answer came.
    """

    asked: Sketch
    reply: Reply
    white_box: bool
    seconds: float

    @classmethod
    def of(cls, query: Query, reply: Reply, *, with_scores: bool, seconds: float) -> "LoggedAnswer":
        """What a reply leaves behind; the scores only with_scores."""
        if (answer := reply.answer) is not None:
            answer = Answer(answer.loss, answer.adversarial, answer.scores[:, : None if with_scores else 0])
        return cls(sketch(query.points), reply._replace(answer=answer, cause=None), query.gradient, seconds)

    def pack(self) -> bytes:
        """As bytes: a header, then 8 bytes a row for its loss, one bit for its verdict, and the scores if kept.

        Where rows were refused, one bit a row says which, at the end.
        """
        reply, answer = self.reply, self.reply.answer
        flags = _ANSWERED * (answer is not None) | _FINITE * reply.finite | _WHITE_BOX * self.white_box
        flags |= _REFUSED * (reply.refused is not None)
        header = HEADER.pack(
            FORMAT,
            flags,
            self.asked.rows,
            reply.sent,
            reply.answered,
            0 if answer is None else answer.scores.shape[1],
            *(-1 if label is None else label for label in (reply.label, reply.predicted)),
            -1.0 if reply.confidence is None else reply.confidence,
            self.seconds,
            self.asked.digest,
            *self.asked.projections,
        )
        parts = [header]
        if answer is not None:
            parts += [_bytes_of(answer.loss), _packed_bits(answer.adversarial), _bytes_of(answer.scores)]
        return b"".join(parts if reply.refused is None else [*parts, _packed_bits(reply.refused)])

    @classmethod
    def unpack(cls, block: bytes) -> "LoggedAnswer":
        """What `pack` packed; a ValueError if the bytes cannot be that."""
        check_header(block)
        header = HEADER.unpack_from(block)
        _, flags, rows, sent, answered, classes, label, predicted, confidence, seconds, digest, *projections = header
        bits, body, answer = -(-rows // 8), memoryview(block)[HEADER.size :], None
        length = bool(flags & _ANSWERED) * (8 * rows + bits + 8 * rows * classes)
        if len(body) != length + bool(flags & _REFUSED) * bits:
            raise ValueError(f"a logged answer about {rows} rows is {len(body)} bytes long, which cannot be")
        if flags & _ANSWERED:
            verdicts = _bits_of(body[8 * rows : 8 * rows + bits], rows)
            scores = _tensor_of(body[8 * rows + bits : length]).view(rows, classes)
            answer = Answer(_tensor_of(body[: 8 * rows]), verdicts, scores)
        reply = Reply(
            answer,
            None if label < 0 else label,
            sent,
            answered,
            cause=None,
            predicted=None if predicted < 0 else predicted,
            confidence=None if confidence < 0 else confidence,
            finite=bool(flags & _FINITE),
            refused=_bits_of(body[length:], rows) if flags & _REFUSED else None,
        )
        return cls(Sketch(rows, digest, tuple(projections)), reply, bool(flags & _WHITE_BOX), seconds)


def _packed_bits(values: Tensor) -> bytes:
    return np.packbits(values.numpy()).tobytes()


def _bits_of(part: memoryview, n: int) -> Tensor:
    return torch.from_numpy(np.unpackbits(np.frombuffer(part, np.uint8), count=n).astype(bool))


def _bytes_of(values: Tensor) -> bytes:
    return values.numpy().astype("<f8", copy=False).tobytes()


def _tensor_of(part: memoryview) -> Tensor:
    return torch.from_numpy(np.frombuffer(part, "<f8").astype(np.float64))
