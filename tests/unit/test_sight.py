"""How `dowse` sees an image: rows with surrogates are, made anew, what a search without any would have remembered."""

import pytest
import torch

import dowse
from dowse.attacks.sight import COARSE, Sight
from dowse.core.flow import Answer, Begin, Look, Opening, Seen
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
    [(2, 0, True, True), (10, 1, True, True), (10, 2, False, False), (149, 1, True, True), (150, 1, True, False),
     (150, 2, False, False), (1000, 9, True, False), (1000, 10, False, False)],
)  # fmt: skip
def test_a_surrogate_is_used_where_it_knows_the_label_and_doubted_where_that_says_little(classes, rank, used, doubtful):
    seen = sight(torch.full((3, 4, 4), 0.5), classes, rank)
    assert bool(seen.seen) == used
    assert seen.doubtful == doubtful
    assert (seen.coarse is None) == used


@pytest.mark.parametrize("side", [8, COARSE + 14])
def test_a_row_made_anew_is_the_row_of_a_search_alone(side):
    x0, x = torch.rand(2, 3, side, side, generator=generator(1))
    helped, alone = sight(x0, 10, 0), sight(x0, 10, None)
    answer = helped.known.answer
    got, expected = helped.alone().again(helped.row(x, helped.seen, answer)), alone.row(x, {}, answer)
    for one, other in zip(got, expected, strict=True):
        assert torch.equal(one, other)


def test_a_search_that_goes_on_alone_on_a_large_image_learns_from_small_ones():
    """Its rows are small images from then on: those of the trial too, or no model could be fitted."""
    shape, rng = (3, COARSE + 8, COARSE + 8), generator(2)

    class Net(torch.nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.W = torch.randn(4, 3 * shape[1] * shape[2], generator=generator(seed))
            self.b = torch.tensor([40.0, 0, 0, 0])
            self.eval()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1) @ self.W.T / 100 + self.b

    x = 0.2 + 0.6 * torch.rand(1, *shape, generator=rng)
    result = dowse.attack(Net(0), x, method="dowse", surrogate=Net(1), eps=0.1, budget=60, seed=0)
    assert result.queries.tolist() == [60]
