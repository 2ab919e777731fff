"""One answered question as it is logged: enough to hear the answer again, and to see that the question is the same."""

import struct
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dowse.core.flow import Answer, Query
from dowse.core.reply import Reply
from dowse.store.sketch import DIGEST_BYTES, PROJECTIONS, Sketch, sketch

FORMAT = 2
_ANSWERED, _FINITE, _WHITE_BOX = 1, 2, 4
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
        )

    def reply(self) -> Reply:
        """The reply as the driver got it, without the cause of a failure."""
        answer = None
        if self.loss is not None and self.adversarial is not None and self.scores is not None:
            answer = Answer(self.loss, self.adversarial, self.scores)
        return Reply(answer, self.label, self.sent, self.answered, None, self.predicted, self.confidence, self.finite)

    def pack(self) -> bytes:
        """As bytes: a header, then 8 bytes a row for its loss, one bit for its verdict, and the scores if kept."""
        flags = _ANSWERED * (self.loss is not None) | _FINITE * self.finite | _WHITE_BOX * self.white_box
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
            return header
        verdicts = np.packbits(self.adversarial.numpy())
        return b"".join(
            (header, _bytes_of(self.loss, "<f8"), verdicts.tobytes(), _bytes_of(self.scores, "<f8") if classes else b"")
        )

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
        if len(body) != has_answer * (8 * rows + bits + 8 * rows * classes):
            raise ValueError(f"a logged answer about {rows} rows is {len(body)} bytes long, which cannot be")
        loss = adversarial = scores = None
        if has_answer:
            loss = _tensor_of(body[: 8 * rows])
            verdicts = np.unpackbits(np.frombuffer(body[8 * rows : 8 * rows + bits], np.uint8), count=rows)
            adversarial = torch.from_numpy(verdicts.astype(bool))
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
        )


def _bytes_of(values: Tensor, dtype: str) -> bytes:
    return values.numpy().astype(dtype, copy=False).tobytes()


def _tensor_of(part: memoryview) -> Tensor:
    return torch.from_numpy(np.frombuffer(part, "<f8").astype(np.float64))
