"""The paper's figures on small networks whose answers are known: what they compute before anything is drawn."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from dowse.api import attack
from dowse.core.target import Target
from dowse.errors import InputError, TargetFailedError
from dowse.figures import bootstrap_bands, figure1a, figure1b, figure1c, figure1de, figure2
from dowse.figures.attack_path import follow, row_cosines, true_gradients
from dowse.figures.figure_settings import FigureSettings
from dowse.figures.panel import Laboratory
from dowse.figures.scene import Scene
from dowse.maths import theory
from dowse.store import StoreWriter
from dowse.targets.fast import Choice
from tests.stores import CELL, Made, make_store
from tests.support import D, Linear, Tanh, generator, labels_of, pictures

TARGET = Tanh(seed=1)
SURROGATE = Tanh(seed=2, near=TARGET)
SMALL = {"q": 6, "iterations": 5, "lambdas": 4, "samples": 6, "slopes": 60, "budget": 400}


def scene(n: int = 3, target: torch.nn.Module = TARGET) -> Scene:
    x = pictures(n, seed=5)
    return Scene(target, SURROGATE, x, labels_of(target, x), tuple(f"{i}.png" for i in range(n)), 0, "pictures")


def laboratory(n: int = 3, with_fixed: bool = False, **words: object) -> Laboratory:
    return Laboratory(FigureSettings(**{**SMALL, **words}), with_fixed=with_fixed, scene=scene(n))


def test_true_gradients_of_a_linear_model_are_known():
    W, b = torch.randn(4, D, generator=generator(0), dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    x, y = pictures(3), torch.tensor([0, 3, 1])
    probabilities = (x.flatten(1) @ W.T).softmax(1)
    probabilities[torch.arange(3), y] -= 1
    found = true_gradients(Linear(W, b), x, y)
    torch.testing.assert_close(found.flatten(1), probabilities @ W)  # ∇ of the cross-entropy: Wᵀ(p − e_y)


def test_a_target_without_gradient_is_refused():
    with pytest.raises(InputError, match="needs the target's own gradient"):
        true_gradients(lambda x: x.flatten(1)[:, :4], pictures(1), torch.tensor([0]))
    with pytest.raises(TargetFailedError, match="ConnectionError: closed"):
        true_gradients(_Broken().eval(), pictures(1), torch.tensor([0]))


class _Broken(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ConnectionError("closed")


def test_queries_go_to_whoever_answers_sooner_and_gradients_to_the_target():
    class Sooner(Target):
        rows = 0

        def __call__(self, points: torch.Tensor, seeds: torch.Tensor | None = None) -> torch.Tensor:
            assert not torch.is_grad_enabled()
            self.rows += len(points)
            return TARGET(points)

    sooner, setting = Sooner(), FigureSettings(**SMALL)
    trail = follow(replace(scene(), choice=Choice("onnxruntime", target=sooner)), setting, 0)
    assert sooner.rows == trail.queries
    assert trail == follow(scene(), setting, 0)


def test_cosines_of_rows():
    a = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    b = torch.tensor([[-3.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    assert row_cosines(a, b) == pytest.approx([-1, math.sqrt(0.5), 0])


def test_watching_changes_nothing():
    """The watched path is the plain attack's: the same queries, the same success."""
    setting, place = FigureSettings(**{**SMALL, "iterations": 100}), scene(6)
    plain = attack(TARGET, place.images, place.labels, method="prgf", surrogate=SURROGATE, budget=400, q=6)
    trails = [follow(place, setting, i) for i in range(6)]
    assert [trail.queries for trail in trails] == plain.queries.tolist()
    assert [trail.fooled for trail in trails] == plain.success.tolist()
    assert plain.success.any()


def test_a_trail_has_an_entry_an_iteration_and_ends_in_time():
    trail = follow(scene(), FigureSettings(**{**SMALL, "iterations": 3, "past_success": True}), 0, [0.1, 1.0])
    assert {len(part) for part in (trail.alpha, trail.lam, trail.transfer, trail.estimated, trail.fixed)} == {3}
    assert all(len(row) == 2 for row in trail.fixed)


def test_a_budget_below_one_estimate_is_refused():
    with pytest.raises(InputError, match="ended before its first estimate"):
        follow(scene(), FigureSettings(**{**SMALL, "budget": 5}), 0)


def test_what_is_noted_is_what_theory_makes_of_the_true_cosine():
    """α of many probes is near the true cosine, λ* is Eq. (12) of α, and at λ* = 1 the estimate is the prior."""
    trail = follow(scene(), FigureSettings(**{**SMALL, "iterations": 4, "past_success": True}), 1)
    for α, λ, transfer, estimated in zip(trail.alpha, trail.lam, trail.transfer, trail.estimated, strict=True):
        assert λ == theory.lambda_star(α**2, D, 6)
        if λ == 1:
            assert estimated == pytest.approx(abs(transfer))


def test_at_λ_1_the_estimate_is_the_transfer_gradient():
    lab = laboratory(with_fixed=True, past_success=True)
    numbers = figure1c.compute(lab)
    assert numbers["lambdas"][0] == pytest.approx(1 / D)
    assert numbers["lambdas"][-1] == 1
    for fixed, transfer in zip(numbers["fixed"], numbers["transfer"], strict=True):
        assert [row[-1] for row in fixed] == pytest.approx([abs(α) for α in transfer], abs=1e-9)


def test_the_theory_curve_ends_at_the_transfer_gradient():
    numbers = {"dimension": D, "q": 6, "transfer": [[0.5, -0.3], [0.1]]}
    assert figure1c.theory_curve(numbers, np.array([1.0])) == pytest.approx([0.3])


def test_lead_is_the_difference_at_the_same_iterates():
    numbers = {"star": [[0.5, 0.3], [0.4]], "fixed": [[[0.1, 0.5], [0.3, 0.1]], [[0.4, 0.3]]]}
    lead = figure1c.lead_band(numbers)
    assert lead.mean == pytest.approx([0.4 / 3, 0.3 / 3])
    assert (lead.low <= lead.mean).all()
    assert (lead.mean <= lead.high).all()


def test_the_norms_error_follows_the_chi_law():
    n, D_large = 20_000, 10_000
    slopes = 3.0 * torch.randn(n, generator=generator(0), dtype=torch.float64) / math.sqrt(D_large)
    found = figure1b.errors(slopes, 3.0, D_large, 10, generator(1))
    for S in (2, 10):
        spread = 1 / math.sqrt(2 * n / S)  # of the root of a mean of n/S squares, as if they were normal
        assert abs(found[S - 1] / figure1b.expected(S) - 1) < 4 * spread


def test_the_norms_error_is_that_of_the_estimate_that_attacks_make():
    slopes = torch.randn(6, generator=generator(0), dtype=torch.float64)
    dealt = [slopes[torch.randperm(6, generator=rng)] for rng in [generator(1)] for _ in range(figure1b.SHUFFLES)]
    squares = [(theory.gradient_norm(one, 48) / 2.0 - 1) ** 2 for sets in dealt for one in sets.view(2, 3)]
    assert figure1b.errors(slopes, 2.0, 48, 3, generator(1))[2] == pytest.approx(math.sqrt(np.mean(squares)))


@pytest.mark.parametrize("S", [1, 3, 50])
def test_the_expected_error_is_that_of_a_chi_variable(S):
    mean = stats.chi(S).mean() / math.sqrt(S)
    assert figure1b.expected(S) == pytest.approx(math.sqrt(stats.chi(S).var() / S + (mean - 1) ** 2))
    assert figure1b.expected(S) == pytest.approx(1 / math.sqrt(2 * S), rel=0.12)


def test_figure1b_measures_the_norm_of_a_real_gradient():
    numbers = figure1b.compute(laboratory(n=2, samples=20, slopes=600))
    errors = np.sqrt((np.array(numbers["errors"]) ** 2).mean(0))
    assert errors[9] == pytest.approx(figure1b.expected(10), rel=0.4)  # 2 images × 60 sets, in 48 dimensions
    assert errors[0] > errors[4] > errors[19]
    assert numbers["norms"] == pytest.approx(
        true_gradients(TARGET, scene(2).images, scene(2).labels).flatten(1).norm(dim=1).tolist()
    )


def test_means_count_only_images_still_under_attack():
    found, images = bootstrap_bands.by_iteration([[1.0, 2.0, 3.0], [3.0]])
    assert found.mean.tolist() == [2, 2, 3]
    assert images.tolist() == [2, 1, 1]
    assert bootstrap_bands.pooled([np.array([[1.0], [2.0]]), np.array([[6.0]])]).mean == pytest.approx([3])


def test_curves_stop_where_few_images_are_left():
    numbers = {"lam": [[1.0] * 6, [1.0] * 6, [1.0] * 4, [1.0]], "under_attack": [6, 6, 4, 1]}
    assert figure1de.curve(numbers, "lam").drawn == 4
    assert figure1de.curve({"lam": [[1.0, 0.5]]}, "lam").drawn == 2
    assert "1.000 at iteration 3, where 3 images are left" in figure1de.lambda_sentence(numbers)


def test_past_success_every_image_is_followed_to_the_end():
    lab = laboratory(past_success=True, iterations=4)
    assert {len(trail.lam) for trail in lab.trails} == {4}
    until = laboratory(iterations=4).trails
    assert [trail.under_attack for trail in lab.trails] == [trail.under_attack for trail in until]
    assert [len(trail.lam) for trail in until] == [trail.under_attack for trail in until]
    assert [trail.fooled for trail in lab.trails] == [trail.fooled for trail in until]
    assert any(trail.under_attack < 4 for trail in until)


def test_average_queries_at_any_success_rate():
    rates, means = figure2.averages([10, 20, 60], attacked=4)
    assert rates.tolist() == [0.25, 0.5, 0.75]
    assert means.tolist() == [10, 15, 30]
    assert [len(part) for part in figure2.averages([], 5)] == [0, 0]


def test_figure2_has_a_panel_a_target_and_titles_that_differ(tmp_path):
    other = replace(CELL, target="dowse:other")
    store = make_store(tmp_path, [Made("a", [10, 20, None]), Made("a", [5]), Made("b", [None]), Made("a", [7], other)])
    first, second = figure2.compute(Laboratory(FigureSettings(store=store)))["panels"]
    assert [(c["title"], c["queries"]) for c in first["curves"]] == [
        ("a (number=0)", [10, 20]), ("a (number=1)", [5]), ("b", [])
    ]  # fmt: skip
    assert [(c["title"], c["attacked"]) for c in second["curves"]] == [("a", 1)]
    with StoreWriter(store) as under_way:
        under_way._database.execute("UPDATE runs SET count = 9 WHERE title = 'b'")
    first, _ = figure2.compute(Laboratory(FigureSettings(store=store)))["panels"]
    assert [c["title"] for c in first["curves"]][2:] == ["b, under way"]


def test_the_film_begins_with_the_original_and_ends_with_the_verdict():
    numbers = figure1a.compute(laboratory(image="1.png", q=4))
    assert numbers["image"] == "1.png"
    for row in numbers["rows"].values():
        first, last = row["pictures"][0], row["pictures"][-1]
        assert first["queries"] == 1
        assert not first["fooled"]
        assert last["fooled"] == row["fooled"]
        assert all(p["queries"] <= max(1, mark) for p, mark in zip(row["pictures"], numbers["marks"], strict=True))


def test_the_chosen_image_is_the_dearest():
    numbers, place = figure1a.compute(laboratory(n=5, q=4)), scene(5)
    words = {"surrogate": SURROGATE, "budget": 400, "q": 4}
    costs = [attack(TARGET, place.images, place.labels, method=method, **words) for method in ("rgf", "prgf")]
    assert all(cost.success.all() for cost in costs)
    assert numbers["image"] == f"{int((costs[0].queries + costs[1].queries).argmax())}.png"
    assert numbers["basis"].startswith("of 5 images that both methods fool")
    with pytest.raises(InputError, match=r"none of the images looked at.*1.png"):
        figure1a.compute(laboratory(image="11.png"))


@pytest.mark.parametrize(
    ("queries", "marks"), [(30, 3), (200, 3), (201, 4), (600, 7), (601, 5), (3001, 5), (50_000, 7)]
)
def test_pictures_are_few_and_reach_the_end(queries, marks):
    found = figure1a._marks(queries)
    assert len(found) == marks
    assert found[0] == 0
    assert found[-1] >= min(queries, figure1a.STEPS[-1] * (figure1a.MOST - 1))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"norm": "l3"}, "norm='l3' is unknown"),
        ({"count": 0}, "count counts"),
        ({"lambdas": 1}, "lambdas must be at least 2"),
        ({"slopes": 50, "samples": 50}, "at least twice samples"),
    ],
)
def test_bad_settings(words, said):
    with pytest.raises(InputError, match=said):
        FigureSettings(**words)
