"""How many rows go in a pass: by a clock that the target itself moves."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dowse.core.packing import default_batch_size
from dowse.targets.rows_per_pass import Tuned, tune_rows

X = torch.zeros(3, 3, 32, 32)
USUAL = default_batch_size(X)


class Timed:
    """Takes so many seconds for a pass of so many rows."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.seconds, self.now, self.asked = seconds, 0.0, list[int]()

    def __call__(self, points: Tensor) -> None:
        self.asked.append(len(points))
        self.now += self.seconds(len(points))

    def tuned(self, seconds: float = 1.0, images: Tensor = X) -> Tuned:
        return tune_rows(self, images, clock=lambda: self.now, seconds=seconds)


@pytest.mark.parametrize(
    ("seconds", "rows", "gain"),
    [
        (lambda n: 1.0 + n, USUAL, 1.0),  # twice as many gain less than a twentieth
        (lambda n: 100.0 + n, 2 * USUAL, pytest.approx((100 / USUAL + 1) / (50 / USUAL + 1))),
        (lambda n: n if n < USUAL else 2.0 * n, USUAL // 2, 2.0),
        (lambda n: 0.0, USUAL, 1.0),  # a clock too coarse to tell
    ],
)
def test_another_number_of_rows_is_taken_where_it_is_clearly_faster(
    seconds: Callable[[int], float], rows: int, gain: float
) -> None:
    target = Timed(seconds)
    assert target.tuned(seconds=0.0) == Tuned(rows, gain)


def test_it_tries_by_turns_until_its_time_is_over_and_twice_at_least() -> None:
    slow, quick = Timed(lambda n: n), Timed(lambda n: n / USUAL / 35)  # 0.1 seconds a turn
    slow.tuned()
    quick.tuned()
    assert slow.asked == [USUAL, USUAL // 2, 2 * USUAL] * 2
    assert len(quick.asked) == 3 * 10


def test_a_slow_first_pass_tells_nothing() -> None:
    target = Timed(lambda n: n + 1000 * (len(target.asked) == 1))
    assert target.tuned() == Tuned(USUAL, 1.0)
