"""The draws of the randomised defence: uniform sides, uniform places, independent rows."""

import torch
from scipy import stats

from dowse.core.seeds import row_seeds, uniform_of
from dowse.defences import Randomization

ROWS = 4000


def test_numbers_of_seeds_are_uniform_and_uncorrelated():
    for seeds in (torch.arange(ROWS), row_seeds(3, "image", 0, ROWS)):
        numbers = uniform_of(seeds, 3)
        assert ((numbers >= 0) & (numbers < 1)).all()
        for column in numbers.T:
            assert stats.kstest(column.numpy(), "uniform").pvalue > 1e-4
        correlation = torch.corrcoef(torch.cat([numbers.T[:, :-1], numbers.T[:, 1:]])).fill_diagonal_(0)
        assert float(correlation.abs().max()) < 4.5 / ROWS**0.5


def test_sides_and_places_are_uniform():
    x = torch.ones(ROWS, 1, 224, 1)  # one column is enough to see side and place of the rows
    seen = Randomization(lambda image: image)(x, seeds=row_seeds(0, "image", 0, ROWS))
    lit = seen[:, 0, :, 0].eq(1) if seen.shape[-1] == 1 else seen[:, 0].eq(1).any(2)
    side, top = lit.sum(1), lit.int().argmax(1)
    assert (side.min(), side.max()) == (224, 247)
    counts = torch.bincount(side - 224, minlength=24)
    assert stats.chisquare(counts.numpy()).pvalue > 1e-4
    rows = (side == 240).nonzero().squeeze(1)
    places = torch.bincount(top[rows], minlength=9)
    assert len(places) == 9
    assert stats.chisquare(places.numpy()).pvalue > 1e-4
