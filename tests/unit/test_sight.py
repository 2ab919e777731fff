"""How `dowse` sees an image: rows with surrogates are, made anew, what a search without any would have remembered."""

import pytest
import torch

from dowse.attacks.sight import COARSE, Sight
from dowse.core.flow import Answer, Begin, Look, Opening, Seen
from dowse.maths.last_layer import Examples
from dowse.maths.losses import Objective
from tests.nets import generator


def sight(x0: torch.Tensor, classes: int, rank: int | None) -> Sight:
    """Of an image of class 0 that a surrogate puts at that rank; None is no surrogate."""
    scores = torch.arange(classes, 0, -1, dtype=torch.float64)
    answer = Answer(torch.tensor([-1.0]).double(), torch.tensor([False]), scores[None])
    logits = scores.clone()
    if rank is not None:
        logits[0] = scores[rank] - 0.5
    replies = {
        Begin: Opening(answer, 0, None, Objective("margin", "logits"), 0 if rank is None else 1),
        Look: {0: Seen(logits, torch.ones(5, dtype=torch.float64))},
    }
    flow, reply = Sight.of(x0), None
    while True:
        try:
            reply = replies[type(flow.send(reply))]
        except StopIteration as stop:
            return stop.value


@pytest.mark.parametrize(
    ("classes", "rank", "used", "doubtful"),
    [(2, 0, True, True), (10, 1, True, True), (10, 2, False, False), (100, 9, True, True), (100, 10, False, False),
     (499, 9, True, True), (500, 9, True, False), (500, 10, False, False), (1000, 9, True, False),
     (1000, 10, False, False), (3000, 29, True, False), (3000, 30, False, False)],
)  # fmt: skip
def test_a_surrogate_is_used_where_it_knows_the_label_and_doubted_where_that_says_little(classes, rank, used, doubtful):
    seen = sight(torch.full((3, 4, 4), 0.5), classes, rank)
    assert bool(seen.seen) == used
    assert seen.doubtful == doubtful
    assert (seen.coarse is None) == used


def test_on_a_large_image_no_surrogate_that_knows_the_label_is_doubted():
    """There patterns and windows are slow, and to go on without a good surrogate costs more than to keep a poor one."""
    doubted = [sight(torch.full((3, side, side), 0.5), 10, 0).doubtful for side in (COARSE, COARSE + 1)]
    assert doubted == [True, False]


def test_a_row_that_no_surrogate_sees_is_the_row_of_a_search_alone():
    """So a search that goes on alone has learnt what one without surrogates would have."""
    x0, x = torch.rand(2, 3, COARSE, COARSE - 7, generator=generator(1))
    helped, alone = sight(x0, 10, 0), sight(x0, 10, None)
    answer = helped.known.answer
    (got,), expected = Examples.of(helped.row(x, helped.seen, answer)).unseen().rows, alone.row(x, {}, answer)
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one, other)
