"""Laws of steady networks: in which passes a row goes is its own question's affair, so that its scores are too."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import dowse
from dowse import models
from dowse.attacks.base import Attack
from dowse.core.flow import Flow, ask, check, prior_at
from dowse.core.packing import Batch, fill, filled, full_batches, shared_rows, steady_batches
from dowse.core.same_bits import same_bits
from dowse.core.target import as_target
from dowse.maths.geometry import Ball
from dowse.surrogates.prior import SurrogatePrior
from tests.rounding import VARIABLE
from tests.support import Convolutions, pictures

SIDE = 66  # images so large that none of their rows shares a pass: then scores are equal by construction
IMAGES = pictures(5, dtype=torch.float32, shape=(3, SIDE, SIDE))


def facts(outcome: dowse.Outcome) -> tuple[object, ...]:
    return outcome.end, outcome.queries, outcome.sent, outcome.loss, outcome.adversarial.numpy().tobytes()


def attacked(target: nn.Module, surrogate: nn.Module, x: Tensor, y: Tensor, **run: object) -> list[tuple[object, ...]]:
    return [facts(outcome) for outcome in dowse.attack(target, x, y, surrogate=surrogate, **run).outcomes]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "options"), [("prgf", {"q": 9}), ("square", {}), ("gfcs", {}), ("dowse", {}), ("averaging", {"q": 7})]
)
def test_a_convolutional_networks_images_do_not_notice_each_other(method: str, options: dict[str, int]) -> None:
    target, surrogate = Convolutions(0), Convolutions(1)
    y = torch.cat([target(x.unsqueeze(0)).argmax(1) for x in IMAGES])
    run = {"method": method, "eps": 0.3, "budget": 40, **options}
    alone = attacked(target, surrogate, IMAGES, y, concurrency=1, **run)
    assert attacked(target, surrogate, IMAGES, y, concurrency=5, **run) == alone
    back = torch.tensor([4, 2, 0, 3, 1])
    assert attacked(target, surrogate, IMAGES[back], y[back], concurrency=3, **run) == [alone[i] for i in back]


rows_of_requests = st.lists(st.integers(1, 40), min_size=1, max_size=9)


def sizes(batches: list[Batch]) -> dict[tuple[int, int], int]:
    """In a pass of how many rows each row went, by request and row."""
    found: dict[tuple[int, int], int] = {}
    for spans, size in batches:
        assert sum(stop - start for _, start, stop in spans) <= size
        for request, start, stop in spans:
            for row in range(start, stop):
                assert (request, row) not in found, "a row went twice"
                found[request, row] = size
    return found


@given(rows_of_requests, st.integers(8, 20), st.sampled_from([1, 8]))
def test_a_pass_is_as_large_as_it_is_for_the_question_alone(rows: list[int], size: int, shared: int) -> None:
    together = sizes(list(steady_batches(rows, range(len(rows)), size, shared, lambda i: False)))
    assert len(together) == sum(rows)
    for i, n in enumerate(rows):
        alone = sizes(list(steady_batches([n], [0], size, shared, lambda i: False)))
        assert {row: together[i, row] for row in range(n)} == {row: alone[0, row] for row in range(n)}


@given(rows_of_requests, st.integers(16, 20))
def test_wider_passes_are_for_rows_that_shared_one_and_ask_about_no_more_copies(rows: list[int], size: int) -> None:
    narrow, wide = (list(steady_batches(rows, range(len(rows)), size, 8, lambda i: False, w)) for w in (None, 16))
    before, now = sizes(narrow), sizes(wide)
    assert before.keys() == now.keys()
    assert all(now[row] == asked or (asked, now[row]) == (8, 16) for row, asked in before.items())
    assert sum(batch.size for batch in wide) <= sum(batch.size for batch in narrow)


@given(rows_of_requests, st.integers(8, 20))
def test_without_copies_every_pass_has_the_rows_that_were_asked_and_no_more(rows: list[int], size: int) -> None:
    batches = list(steady_batches(rows, range(len(rows)), size, 8, lambda i: False, copies=False))
    assert len(sizes(batches)) == sum(rows) == sum(batch.size for batch in batches)
    few = [batch.size for batch in batches if any(rows[request] < 8 for request, _, _ in batch.spans)]
    assert all(n == 8 for n in few[:-1]), "only the last shared pass may have room"


class Summing(nn.Module):
    """A steady network that may answer otherwise in passes of another size, as many layers do in their last bits."""

    steady, exact = True, False

    def __init__(self, *, alike: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(48, 4, generator=torch.Generator().manual_seed(0)) - 0.5)
        self.alike, self.passes = alike, set[int]()
        self.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        self.passes.add(len(x))
        scores = (x.flatten(1).unsqueeze(2) * self.weight).sum(1)
        return scores if self.alike else scores * (1 + 1e-3 * len(x))


@pytest.mark.parametrize("alike", [True, False])
def test_many_share_wider_passes_only_where_that_changes_no_bit(alike: bool) -> None:
    x = pictures(21, dtype=torch.float32, shape=(3, 4, 4))
    found = []
    for concurrency in (1, 21):
        target = Summing(alike=alike)
        result = dowse.attack(target, x, method="square", eps=0.02, budget=12, concurrency=concurrency)
        assert result.sent.tolist() == result.queries.tolist()
        found.append([facts(outcome) for outcome in result.outcomes])
    assert found[0] == found[1]
    assert 16 in target.passes, "it was tried"
    if not alike:
        asked = Summing(alike=False)
        dowse.attack(asked, x, method="square", eps=0.02, budget=12, concurrency=21, batch_size=8)
        assert 16 not in asked.passes, "a pass has batch_size rows at most"


def test_who_minds_no_neighbour_is_asked_without_copies_and_answers_the_same() -> None:
    x = pictures(11, dtype=torch.float32, shape=(3, 4, 4))
    found, passes = [], []
    for exact in (False, True):
        target = Summing(alike=True)
        target.exact = exact
        result = dowse.attack(target, x, method="square", eps=0.02, budget=12, concurrency=11, batch_size=8)
        found.append([facts(outcome) for outcome in result.outcomes])
        passes.append(target.passes - {0})
    assert found[0] == found[1]
    assert passes[0] == {8}
    assert 3 in passes[1]


@pytest.mark.parametrize("alike", [True, False])
def test_same_bits_looks_at_every_size(alike: bool) -> None:
    target = Summing(alike=alike)
    assert same_bits(as_target(target), pictures(1, dtype=torch.float32, shape=(3, 4, 4)), 8, range(1, 8)) == alike
    assert target.passes == ({1, 2, 3, 4, 5, 6, 7, 8} if alike else {1, 8}), "the first difference is enough"


@given(rows_of_requests, st.integers(1, 20), st.sets(st.integers(0, 8)))
def test_batches_are_full_and_leave_out_who_failed(rows: list[int], size: int, failed: set[int]) -> None:
    batches = list(full_batches(rows, range(len(rows)), size, failed.__contains__))
    assert all(batch.size == size for batch in batches[:-1])
    went = {request for batch in batches for request, _, _ in batch.spans}
    assert went == set(range(len(rows))) - failed
    assert len(sizes(batches)) == sum(n for i, n in enumerate(rows) if i not in failed)


def test_what_fills_up_is_copies_of_the_last() -> None:
    assert filled(torch.tensor([[1], [2]]), 4).tolist() == [[1], [2], [2], [2]]
    assert filled(torch.tensor([1, 2]), 2).tolist() == [1, 2]
    assert (shared_rows(3 * 32 * 32), shared_rows(3 * 224 * 224), shared_rows(3 * 32 * 32, 5)) == (8, 1, 5)


def test_copies_are_neither_queries_nor_sent_and_only_steady_networks_see_them() -> None:
    seen: list[int] = []

    class Small(nn.Module):
        def __init__(self, steady: bool) -> None:
            super().__init__()
            self.steady = steady

        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return x.flatten(1)[:, :4]

    x = pictures(3, dtype=torch.float32)
    for steady in (False, True):
        seen.clear()
        result = dowse.attack(Small(steady).eval(), x, method="square", eps=1e-4, budget=6, concurrency=3)
        assert result.sent.tolist() == result.queries.tolist()
        rows = int(result.sent.sum())
        assert (set(seen) - {0} == {8}) == steady
        assert steady or sum(seen) == rows


def test_a_surrogate_is_asked_in_passes_of_one_size() -> None:
    seen: list[int] = []

    class Watched(Convolutions):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return super().forward(x)

    small = pictures(11, dtype=torch.float32, shape=(3, 40, 40))
    prior = SurrogatePrior(Watched(0), dowse.maths.losses.Objective())
    assert prior.gradient(small, torch.zeros(11, dtype=torch.int64)).shape == small.shape
    assert len(prior.see(small[:3], torch.zeros(3, dtype=torch.int64))) == 3
    assert seen == [8, 8, 1, 8], "the pass of one row looks for the last layer"
    seen.clear()
    prior.gradient(IMAGES, torch.zeros(5, dtype=torch.int64))
    assert seen == [1] * 5


@given(st.integers(1, 100), st.integers(1, 20))
def test_the_fill_of_passes_is_what_is_no_copy(rows: int, size: int) -> None:
    passes = list(full_batches([rows], [0], size, lambda i: False))
    assert fill(rows, size) == rows / (size * len(passes))
    assert fill(rows, 0) == 0


class Straggling(Attack):
    """Every second image has a long question first, so that at first half of them wait on the surrogate."""

    name = "straggling"
    needs_surrogate = True

    def flow(self, x: Tensor, f: float, ball: Ball, rng: torch.Generator) -> Flow[None]:
        if torch.rand((), generator=rng) < 0.5:
            yield from ask(x.expand(10, *x.shape))
        for _ in range(3):
            yield from prior_at(x)
            yield from check(x)


@pytest.mark.parametrize("steady", [True, False])
def test_small_images_wait_for_each_other_where_passes_are_filled_up(steady: bool) -> None:
    seen: dict[str, list[int]] = {"target": [], "surrogate": []}

    class Watched(Convolutions):
        def __init__(self, name: str, steady: bool) -> None:
            super().__init__(0)
            self.name, self.steady = name, steady

        def forward(self, x: Tensor) -> Tensor:
            seen[self.name].append(len(x))
            return super().forward(x)

    x = pictures(8, dtype=torch.float32, shape=(3, 40, 40))
    run = {"method": Straggling(), "budget": 30, "eps": 0.1, "concurrency": 8}
    queries = dowse.attack(Watched("target", steady), x, surrogate=Watched("surrogate", True), **run).queries
    assert sorted(set(queries.tolist())) == [4, 14]
    long = int((queries == 14).sum())
    if steady:
        assert seen["surrogate"][1:] == [8] * 3, "after the look at its classes, a pass a gradient"
        assert sorted(n for n in seen["target"] if n) == [8] * 4 + [10] * long
    else:
        assert seen["surrogate"][1:] == [8] * 3, "who asks the target does not wait for gradients beside copies"
        assert 10 * long in seen["target"], "and those who wait for them come with all the others"


@pytest.mark.skipif(VARIABLE in os.environ, reason="a row's place matters to the processor that is played")
def test_a_built_in_network_in_float32_with_one_image_at_a_time_and_with_eight(shared: Path) -> None:
    data = np.load(shared / "data" / "cifar10_test1000.npz")
    x = torch.from_numpy(data["images"][:8]).permute(0, 3, 1, 2).float().contiguous() / 255
    y = torch.from_numpy(data["labels"][:8].astype("int64"))
    target, surrogate = models.load("cifar10_resnet20"), models.load("cifar10_resnet32")
    run = {"method": "prgf", "q": 10, "eps": 0.5, "budget": 60}
    one = attacked(target, surrogate, x, y, concurrency=1, **run)
    assert attacked(target, surrogate, x, y, concurrency=8, **run) == one
    assert len({fact[1] for fact in one}) > 2, "they end at different times"
