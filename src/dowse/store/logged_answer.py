"""An answered question as it is logged: enough to hear it again, and a sketch that tells whether it is the same."""

import hashlib
import math
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dowse.core.flow import Answer, Query
from dowse.core.reply import Reply

PROJECTIONS = 4
DIGEST_BYTES = 8
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
    rows = points.detach().contiguous().flatten(1)
    return Sketch(len(rows), _digest(rows, points.shape), _project(rows))


def distance(one: Sketch, other: Sketch) -> float:
    """An estimate of the root mean square distance between the points of two questions of as many rows.

    A projection on random signs has the square of the distance as its mean square, so the estimate is right on average
    whatever the difference looks like, and off by a factor of a few at most.
    """
    if one.rows != other.rows:
        return math.inf
    squares = [(a - b) ** 2 for a, b in zip(one.projections, other.projections, strict=True)]
    return math.sqrt(sum(squares) / len(squares) / one.rows)


def _digest(rows: Tensor, shape: torch.Size) -> bytes:
    """Sums of the rows' words, column by column, hashed: integer sums see every bit and cost no more than reading."""
    words = _words(rows)
    n, width = words.shape
    blocks = width // _COLUMNS
    body = words[:, : blocks * _COLUMNS].reshape(n, blocks, _COLUMNS).sum(1, dtype=torch.int64)
    rest = words[:, blocks * _COLUMNS :]
    digest = hashlib.blake2b(f"{rows.dtype}{tuple(shape)}".encode(), digest_size=DIGEST_BYTES)
    for part in (body, rest):
        digest.update(part.cpu().contiguous().numpy().tobytes())
    return digest.digest()


def _words(rows: Tensor) -> Tensor:
    """The bits of rows (n, D) as integers, (n, D) or (n, D/2): as wide as they fit."""
    if rows.element_size() == 4 and rows.shape[1] % 2:
        return rows.view(torch.int32)
    return (rows.clone() if rows.storage_offset() % 2 else rows).view(torch.int64)


def _project(rows: Tensor) -> tuple[float, ...]:
    combined = _signs(len(rows), 1).to(rows)[:, 0] @ rows  # (D,): each row by a sign of its own
    projected = combined.to("cpu", torch.float64) @ _signs(rows.shape[1], PROJECTIONS)
    return tuple(projected.tolist())


@lru_cache(maxsize=64)
def _signs(n: int, columns: int) -> Tensor:
    """±1 with equal chance, the same in every process, (n, columns) float64."""
    rng = torch.Generator().manual_seed(columns)
    return torch.randint(0, 2, (n, columns), generator=rng, dtype=torch.float64) * 2 - 1


FORMAT = 2
_ANSWERED, _FINITE, _WHITE_BOX, _REFUSED = 1, 2, 4, 8
_HEADER = struct.Struct(f"<BBIIIIiidf{DIGEST_BYTES}s{PROJECTIONS}d")


@dataclass(frozen=True)
class LoggedAnswer:
    """What became of one question of one image.

    Attributes:
        asked: The sketch of its points.
        sent: Rows handed to the target.
        answered: Rows that came back.
        label: The label the objective was about.
        predicted: The target's own label of the first adversarial row, or else of the first row.
        confidence: The probability that the target gives this label.
        finite: Whether all scores were.
        white_box: Whether a gradient was part of the answer; it is not kept, so such an answer cannot be heard again.
        seconds: How long the image had been under attack when the answer came.
        loss: f of each row, (n,) float64; None if there was no answer.
        adversarial: The verdict of each row, (n,) bool; None if there was no answer.
        scores: (n, K) float64, K = 0 where the method does not look at scores; None if there was no answer.
        refused: The rows that a detector left without scores, (n,) bool, as in a Reply; None if all have them.
    """

    asked: Sketch
    sent: int
    answered: int
    label: int | None
    predicted: int | None
    confidence: float | None
    finite: bool
    white_box: bool
    seconds: float
    loss: Tensor | None
    adversarial: Tensor | None
    scores: Tensor | None
    refused: Tensor | None = None

    @classmethod
    def of(cls, query: Query, reply: Reply, *, with_scores: bool, seconds: float) -> "LoggedAnswer":
        """What a reply leaves behind; the scores only with_scores."""
        answer = reply.answer
        return cls(
            asked=sketch(query.points),
            sent=reply.sent,
            answered=reply.answered,
            label=reply.label,
            predicted=reply.predicted,
            confidence=reply.confidence,
            finite=reply.finite,
            white_box=query.gradient,
            seconds=seconds,
            loss=None if answer is None else answer.loss,
            adversarial=None if answer is None else answer.adversarial,
            scores=None if answer is None else answer.scores[:, : None if with_scores else 0],
            refused=reply.refused,
        )

    def reply(self) -> Reply:
        """The reply as the driver got it, without the cause of a failure."""
        answer = None
        if self.loss is not None and self.adversarial is not None and self.scores is not None:
            answer = Answer(self.loss, self.adversarial, self.scores)
        return Reply(
            answer, self.label, self.sent, self.answered, None, self.predicted, self.confidence, self.finite,
            self.refused,
        )  # fmt: skip

    def pack(self) -> bytes:
        """As bytes: a header, then 8 bytes a row for its loss, one bit for its verdict, and the scores if kept.

        Where rows were refused, one bit a row says which, at the end.
        """
        flags = _ANSWERED * (self.loss is not None) | _FINITE * self.finite | _WHITE_BOX * self.white_box
        flags |= _REFUSED * (self.refused is not None)
        refused = b"" if self.refused is None else np.packbits(self.refused.numpy()).tobytes()
        classes = 0 if self.scores is None else self.scores.shape[1]
        header = _HEADER.pack(
            FORMAT,
            flags,
            self.asked.rows,
            self.sent,
            self.answered,
            classes,
            -1 if self.label is None else self.label,
            -1 if self.predicted is None else self.predicted,
            -1.0 if self.confidence is None else self.confidence,
            self.seconds,
            self.asked.digest,
            *self.asked.projections,
        )
        if self.loss is None or self.adversarial is None or self.scores is None:
            return header + refused
        verdicts = np.packbits(self.adversarial.numpy())
        scores = _bytes_of(self.scores, "<f8") if classes else b""
        return b"".join((header, _bytes_of(self.loss, "<f8"), verdicts.tobytes(), scores, refused))

    @classmethod
    def unpack(cls, block: bytes) -> "LoggedAnswer":
        """What `pack` packed; a ValueError if the bytes cannot be that."""
        if len(block) < _HEADER.size or block[0] != FORMAT:
            raise ValueError(f"a logged answer of {len(block)} bytes that starts with {block[:1]!r} cannot be read")
        header = _HEADER.unpack_from(block)
        _, flags, rows, sent, answered, classes, label, predicted, confidence, seconds, digest, *projections = header
        has_answer = bool(flags & _ANSWERED)
        bits = -(-rows // 8)
        body = memoryview(block)[_HEADER.size :]
        length = has_answer * (8 * rows + bits + 8 * rows * classes)
        if len(body) != length + bool(flags & _REFUSED) * bits:
            raise ValueError(f"a logged answer about {rows} rows is {len(body)} bytes long, which cannot be")
        refused = _bits_of(body[length:], rows) if flags & _REFUSED else None
        body, loss, adversarial, scores = body[:length], None, None, None
        if has_answer:
            loss = _tensor_of(body[: 8 * rows])
            adversarial = _bits_of(body[8 * rows : 8 * rows + bits], rows)
            scores = _tensor_of(body[8 * rows + bits :]).view(rows, classes)
        return cls(
            asked=Sketch(rows, digest, tuple(projections)),
            sent=sent,
            answered=answered,
            label=None if label < 0 else label,
            predicted=None if predicted < 0 else predicted,
            confidence=None if confidence < 0 else confidence,
            finite=bool(flags & _FINITE),
            white_box=bool(flags & _WHITE_BOX),
            seconds=seconds,
            loss=loss,
            adversarial=adversarial,
            scores=scores,
            refused=refused,
        )


def _bits_of(part: memoryview, n: int) -> Tensor:
    return torch.from_numpy(np.unpackbits(np.frombuffer(part, np.uint8), count=n).astype(bool))


def _bytes_of(values: Tensor, dtype: str) -> bytes:
    return values.numpy().astype(dtype, copy=False).tobytes()


def _tensor_of(part: memoryview) -> Tensor:
    return torch.from_numpy(np.frombuffer(part, "<f8").astype(np.float64))
