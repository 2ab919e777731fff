"""On a target whose scores come in steps σ starts where they move, unless somebody chose it."""

import warnings

import pytest
import torch

import dowse
from dowse.attacks.registry import resolve_method
from dowse.attacks.stepped import Stepped, stepped
from dowse.errors import TargetNote
from dowse.estimators.sigma import SIGMA_LIMIT
from dowse.maths.steps import step_of_answer
from dowse.settings import AttackSettings
from tests.support import Tanh, labels_of, pictures

NET = Tanh(0, classes=6)
STEP = 1 / 256
X = pictures(6)
Y = labels_of(NET, X)
SURROGATE = Tanh(1, near=NET, classes=6)


def coarse(x):
    """Probabilities as an 8-bit model shows them."""
    return (NET(x).softmax(1) / STEP).round() * STEP


def smooth(x):
    return NET(x).softmax(1)


@pytest.mark.parametrize(
    ("shown", "step"),
    [
        ([0, 0, 0, 255 / 256], STEP),  # one value is enough where zeros are shared
        ([0.43, 0.31, 0.26], 0.01),
        ([0.52, 0.11, *[0] * 90], 0.01),  # a third went to classes that are shown as zero
        ([3 / 256, 253 / 256], STEP),
        ([0.0, 0.0, 1.0], None),  # a decision tells no step
        ([0.25, 0.75], None),
        ([0.37, 0.63], None),  # by chance, perhaps
        ([1.5, -2.25, 0.5], None),  # logits that people write
        ([], None),
    ],
)
def test_the_step_of_one_answer(shown, step):
    shown = torch.tensor(shown, dtype=torch.float64)
    for form in (shown, shown.float().double(), shown.clamp_min(STEP / 2) if step == STEP else shown):
        assert step_of_answer(form) == step
    if step is not None:
        assert step_of_answer(shown.clamp_min(1e-30).log()) == step


def test_smooth_answers_have_no_step():
    for scores in (NET(X), smooth(X), smooth(X).log(), (50 * NET(X)).float().softmax(1)):
        assert [step_of_answer(row) for row in scores] == [None] * len(X)


def test_logits_in_steps():
    assert step_of_answer(0.125 * torch.tensor([0, 3, 4, 5, 9, 17, 18, 31, 40, 44]) - 3) == pytest.approx(0.125)


@pytest.mark.filterwarnings("ignore::dowse.errors.TargetNote")
@pytest.mark.parametrize(("method", "budget"), [("prgf", 30), ("rgf", 60)])
def test_it_fools_where_it_did_not(method, budget):
    said = {"method": method, "q": 10, "budget": budget, "eps": 0.5, "outputs": "probs", "surrogate": SURROGATE}
    found, kept = (dowse.attack(coarse, X, Y, **said, **more) for more in ({}, {"sigma": 1.01e-4}))
    assert int(found.success.sum()) >= 5
    assert int(kept.success.sum()) <= 1


def said_of(target, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dowse.attack(target, X, Y, method="rgf", q=4, budget=12, eps=0.15, outputs="probs", **options)
    return [str(one.message) for one in caught if issubclass(one.category, TargetNote)]


def test_it_is_said_in_a_line():
    (said,) = said_of(coarse)
    assert said == (
        "scores come in steps: rgf starts with σ = 0.0039 a pixel, where they move, not 0.0001; "
        "a sigma of your own is kept"
    )
    assert "σ = 0.01 a" in said_of(smooth, decimals=2)[0]
    assert said_of(smooth) == said_of(coarse, sigma=2e-4) == []


def test_who_has_a_sigma_that_nobody_chose():
    def made(method, **options):
        return stepped(resolve_method(AttackSettings(method=method, options=options)), quantize=False)

    names = ("rgf", "prgf", "averaging", "nes", "spsa", "ods-rgf", "prgf-span")
    assert all(isinstance(made(name), Stepped) for name in names)
    assert not any(isinstance(made(name, sigma=0.002), Stepped) for name in names)
    assert not any(isinstance(made(name), Stepped) for name in ("square", "bandits", "zoo", "autozoom", "dowse"))
    assert made("spsa").sigma_for(torch.tensor([0, 0, 255 / 256])) == 0.01  # no shorter than its own
    assert made("rgf").sigma_for(torch.tensor([0.0, 0.3, 0.3, 0.4])) == SIGMA_LIMIT
