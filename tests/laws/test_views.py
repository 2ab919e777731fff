"""Laws of the views that gradients are taken through."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from dowse.maths.views import DIMMEST, FARTHEST, random_view

sides, seeds = st.integers(1, 20), st.integers(0, 2**31)


@given(sides, sides, st.integers(1, 3), seeds)
def test_the_way_back_is_the_transpose_of_the_view(H: int, W: int, C: int, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    x, g = torch.rand((2, C, H, W), generator=rng, dtype=torch.float64)
    view, back = random_view(x, rng)
    assert view.shape == back(g).shape == x.shape
    assert not view.requires_grad
    assert not back(g).requires_grad
    assert torch.isclose((view * g).sum(), (x * back(g)).sum())


@given(sides, sides, seeds)
def test_a_view_is_the_image_dimmed_and_moved_on_black(H: int, W: int, seed: int) -> None:
    view, _ = random_view(torch.ones((1, H, W), dtype=torch.float64), torch.Generator().manual_seed(seed))
    rows, columns = (torch.unique(i) for i in view[0].nonzero(as_tuple=True))
    inside = view[0][rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    assert torch.equal(inside, inside[0, 0].expand_as(inside))
    assert DIMMEST <= float(inside[0, 0]) <= 1
    for side, left in ((H, len(rows)), (W, len(columns))):
        assert side - max(1, round(FARTHEST * side)) <= left <= side
        assert left >= 1


def test_one_stream_gives_one_series_of_views() -> None:
    x = torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(1))
    series = [
        [random_view(x, rng)[0] for _ in range(4)] for rng in (torch.Generator().manual_seed(2) for _ in range(2))
    ]
    assert all(torch.equal(one, other) for one, other in zip(*series, strict=True))
    assert len({tuple(view.flatten().tolist()) for view in series[0]}) == 4
