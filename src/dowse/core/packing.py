"""How rows become passes of a network: full ones across images, or passes whose size no neighbour changes.

The last bits of a row's scores depend on how many rows a pass has, and in the networks measured on nothing else: not on
which rows they are, nor on the row's place (docs/decisions/0008). So where a target is `steady` a question is asked by
itself, and rows that are too few for that share passes of one size, filled up with copies.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

SMALL = 3 * 64 * 64  # numbers of an image up to which a pass of several rows is much faster than one of a single row
TOGETHER = 8  # rows of small images that share a pass
AT_ONCE, MANY = 8, 32  # images under attack; so many small ones fill passes with questions of a row or two each
WIDER = 16  # rows of a pass that torch is faster with still, whatever malloc does (docs/decisions/0008)


class Span(NamedTuple):
    """Rows start to stop of request number `request`."""

    request: int
    start: int
    stop: int


class Batch(NamedTuple):
    """Rows of one pass, and how many it has with the copies that fill it up."""

    spans: list[Span]
    size: int

    def parts(self, rows: Tensor | None) -> Sequence[Tensor] | None:
        """Rows of such a pass, (size, *s), span by span, and what fills it up behind them."""
        if rows is None:
            return None
        lengths = [stop - start for _, start, stop in self.spans]
        return torch.split(rows, [*lengths, len(rows) - sum(lengths)])


def full_batches(
    rows: Sequence[int], chosen: Sequence[int], size: int, failed: Callable[[int], bool]
) -> Iterator[Batch]:
    """Full batches of the rows of the requests chosen, in order.

    Args:
        rows: How many rows each request has.
        chosen: The requests, by number.
        size: Rows of a batch; the last one may have fewer.
        failed: Whether a request has failed, so that the rest of its rows are left out; asked as late as possible.
    """
    spans: list[Span] = []
    room = size
    for i in chosen:
        start = 0
        while start < rows[i] and not failed(i):
            stop = min(rows[i], start + room)
            spans.append(Span(i, start, stop))
            room -= stop - start
            start = stop
            if room == 0:
                yield Batch(spans, size)
                spans, room = [], size
    if spans:
        yield Batch(spans, size - room)


def steady_batches(
    rows: Sequence[int],
    chosen: Sequence[int],
    size: int,
    shared: int,
    failed: Callable[[int], bool],
    wider: int | None = None,
    *,
    copies: bool = True,
) -> Iterator[Batch]:
    """As `full_batches`, in batches whose sizes depend on a request's own rows alone: of at most `size` of one request.

    The rows of a request of fewer than `shared` share batches of exactly that size with others of the kind, or of
    exactly `wider` rows, where a row is known to be answered with the same bits in both. Without copies they share
    batches of that size at most.
    """
    few = [i for i in chosen if rows[i] < shared]
    for i in chosen:
        for start in range(0, rows[i] if rows[i] >= shared else 0, size):
            if not failed(i):
                stop = min(rows[i], start + size)
                yield Batch([Span(i, start, stop)], stop - start)
    for spans, taken in full_batches(rows, few, wider or shared, failed):
        yield Batch(spans, taken if not copies else shared if wider is None or taken <= shared else wider)


def shared_rows(numbers: int, most: int | None = None) -> int:
    """How many rows of images of so many numbers share a pass, at most `most`; 1 where each goes as fast by itself."""
    return min(TOGETHER if numbers <= SMALL else 1, most or TOGETHER)


def cover(rows: int, sizes: Sequence[int]) -> list[int]:
    """The sizes of the passes that so many rows go in, of some that fall: of as few rows as can be, then as few passes.

    >>> [cover(rows, (16, 8, 4)) for rows in (35, 13, 11, 7, 1)]
    [[16, 16, 4], [16], [8, 4], [8], [4]]
    """
    most, *smaller = sizes
    whole, left = divmod(rows, most)
    rest = cover(left, smaller) if left and smaller else [most]
    return [most] * whole + ((rest if sum(rest) < most else [most]) if left else [])


def fill(rows: int, size: int) -> float:
    """Which share of the rows are no copies, where so many go in passes of exactly `size`; 0 for passes of any size."""
    return rows / (-(-rows // size) * size) if size else 0.0


def filled(rows: Tensor, size: int) -> Tensor:
    """Rows, (n, *s), followed by copies of the last up to a size, (size, *s)."""
    missing = size - len(rows)
    return rows if missing <= 0 else torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])])


def numbers_of_a_row(points: Tensor) -> int:
    """How many numbers one of the points, (n, *s), has."""
    return points.shape[1:].numel()


def default_batch_size(points: Tensor, device: torch.device | None = None) -> int:
    """Rows that keep a CPU's caches warm (8 at 3×224×224, 128 at 3×32×32) or a GPU full; points (n, *s).

    The device is where the network is; None is where the points are.
    """
    elements = 128 * 3 * 32 * 32 if (device or points.device).type == "cpu" else 2**25
    return min(256, max(8, elements // max(1, numbers_of_a_row(points))))


def images_at_once(numbers: int, *, sharing: bool) -> int:
    """How many images of so many numbers are attacked at once, by whether questions of few rows share passes.

    >>> images_at_once(3 * 32 * 32, sharing=True), images_at_once(3 * 224 * 224, sharing=True)
    (32, 8)
    """
    return MANY if sharing and numbers <= SMALL else AT_ONCE
