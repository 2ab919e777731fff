"""The public face: lazy streams, estimates, progress, observers, methods of one's own, and one set of defaults."""

import inspect
import itertools
import re
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
import torch

import dowse
from dowse.attacks import PGD
from dowse.attacks.registry import METHODS
from dowse.core.flow import ask
from dowse.estimators import PRGF, RGF
from dowse.maths.sampling import sphere
from dowse.settings import AttackSettings
from tests.support import SHAPE, Counter, Linear, Noisy, Tanh, generator, labels_of, pictures

TARGET = Tanh(0)
SURROGATE = Tanh(1, near=TARGET)
X = pictures(6)
Y = labels_of(TARGET, X)
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "extending.md"


def test_attack_and_the_runs_settings_have_the_same_defaults():
    """The keywords are written twice, for the reader's sake; that they agree is seen to here."""
    written = inspect.signature(dowse.attack).parameters
    keywords = {name: p.default for name, p in written.items() if p.kind is p.KEYWORD_ONLY}
    settings = {f.name: f.default for f in fields(AttackSettings) if f.name != "options"}
    live = {"surrogate": None, "observers": (), "on_progress": None}
    each = {"target_labels": None, "ids": None}  # an image's own; that there are target_labels is the setting targeted
    assert settings.pop("targeted") is False
    assert keywords == settings | live | each
    said = re.findall(
        r"^        (\w+): ", inspect.getdoc(dowse.attack).partition("Args:")[2].replace("\n", "\n    "), re.M
    )
    assert {*keywords} <= {*said}


def test_the_defaults_are_the_papers():
    assert METHODS["rgf"].options() == {"q": 50, "sigma": 1e-4, "subspace": None, "clip_probes": True}
    prgf = METHODS["prgf"].options()
    assert (prgf["q"], prgf["norm_samples"], prgf["norm_period"], prgf["lam"]) == (50, 10, 10, None)
    assert METHODS["averaging"].options()["threshold"] == pytest.approx(1 / (1 + 2**0.5))
    assert METHODS["transfer"].options()["steps"] == 20
    assert METHODS["whitebox"].options()["steps"] == 100


SHORT = {"method": "rgf", "q": 3, "budget": 12, "eps": 0.01}


class TestStream:
    def test_an_endless_stream_is_read_only_as_far_as_it_is_attacked(self):
        pulled = itertools.count()

        def endless():
            for seed in pulled:
                yield pictures(1, seed=seed)[0]

        outcomes = dowse.stream(TARGET, endless(), concurrency=4, **SHORT)
        first = list(itertools.islice(outcomes, 10))
        outcomes.close()
        assert sorted(outcome.index for outcome in first) == list(range(10))
        assert next(pulled) <= 10 + 4 + 1

    @pytest.mark.parametrize("concurrency", [1, 3])
    def test_no_more_images_wait_than_talk(self, concurrency):
        alive, most = set(), 0

        def items():
            nonlocal most
            for i in range(12):
                alive.add(i)
                most = max(most, len(alive))
                yield X[i % 6]

        for outcome in dowse.stream(TARGET, items(), concurrency=concurrency, **SHORT):
            alive.discard(outcome.index)
        assert most <= concurrency + 1

    def test_an_outcome_comes_as_soon_as_its_image_ends(self):
        """The second image is wrong at once: it comes first, when no more than the openings were asked."""
        counter = Counter(TARGET)
        wrong = (int(Y[1]) + 1) % 4
        outcomes = dowse.stream(counter, [(X[0], int(Y[0])), (X[1], wrong)], concurrency=2, **SHORT)
        assert next(outcomes).index == 1
        assert counter.rows == 2
        assert next(outcomes).index == 0

    def test_all_that_a_stream_may_hold(self):
        forms = [X[0], (X[0],), (X[0], int(Y[0])), [X[0], Y[0]], (X[0], None), dowse.Image(X[0], int(Y[0]), id="a")]
        outcomes = sorted(dowse.stream(TARGET, forms, **SHORT), key=lambda outcome: outcome.index)
        assert [outcome.label for outcome in outcomes] == [int(Y[0])] * 6
        assert outcomes[5].id == "a"
        assert outcomes[2].id == outcomes[3].id != outcomes[0].id == outcomes[1].id == outcomes[4].id

    def test_targeted(self):
        wanted = int(Y[0] + 1) % 4
        (outcome,) = dowse.stream(
            TARGET, [(X[0], int(Y[0]), wanted)], targeted=True, method="rgf", q=10, eps=3.0, budget=2000
        )
        with torch.no_grad():
            assert (int(TARGET(outcome.adversarial[None]).argmax()) == wanted) == outcome.success


class TestEstimate:
    def test_rgf(self):
        counter = Counter(TARGET)
        found = dowse.estimate(counter, X, Y, method="rgf", q=40)
        assert found.gradient.shape == X.shape
        assert found.queries.tolist() == [41] * 6
        assert counter.rows == 6 * 41
        assert found.alpha.isnan().all()
        assert found.lam.isnan().all()
        assert set(found.end) == {dowse.End.EXHAUSTED}

    def test_it_points_where_f_grows(self):
        found = dowse.estimate(TARGET, X, Y, method="rgf", q=2000)
        cosine = torch.cosine_similarity(found.gradient.flatten(1), true_gradient(TARGET, X, Y).flatten(1))
        assert (cosine > 0.95).all()

    @pytest.mark.parametrize("targeted", [False, True])
    def test_alpha_and_lambda(self, targeted):
        """With many probes for the norm, α̂ is the cosine of the two true gradients, or its absolute value."""
        wanted = (Y + 1) % 4 if targeted else None
        found = dowse.estimate(
            TARGET, X, Y, surrogate=SURROGATE, q=20, norm_samples=5000, sigma=1e-6, target_labels=wanted
        )
        labels = Y if wanted is None else wanted
        truth = torch.cosine_similarity(
            true_gradient(TARGET, X, labels).flatten(1), true_gradient(SURROGATE, X, labels).flatten(1)
        )
        assert found.alpha.dtype == torch.float64
        assert found.alpha.tolist() == pytest.approx(truth.abs().tolist(), abs=0.05)
        certain = found.lam == 1
        assert found.queries.tolist() == [5002 + (0 if sure else 20) for sure in certain.tolist()]

    @pytest.mark.parametrize(("method", "option"), [("prgf", "lam"), ("averaging", "mu")])
    def test_a_fixed_weight_is_reported(self, method, option):
        found = dowse.estimate(TARGET, X, Y, method=method, surrogate=SURROGATE, q=5, **{option: 0.3})
        assert found.lam.tolist() == [0.3] * 6
        assert found.alpha.isnan().all()

    def test_images_that_are_wrong_are_estimated_too(self):
        found = dowse.estimate(TARGET, X, (Y + 1) % 4, method="rgf", q=5)
        assert set(found.end) == {dowse.End.EXHAUSTED}
        assert (found.gradient.flatten(1).norm(dim=1) > 0).all()

    def test_a_budget_that_does_not_suffice(self):
        found = dowse.estimate(TARGET, X, Y, method="rgf", q=50, budget=20)
        assert set(found.end) == {dowse.End.BUDGET}
        assert not found.gradient.any()
        assert found.queries.tolist() == [1] * 6

    def test_observers_and_objects(self):
        seen = Seen()
        found = dowse.estimate(TARGET, X, Y, method=PRGF(q=4), surrogate=SURROGATE, observers=[seen])
        assert len(seen.ends) == 6
        assert torch.equal(found.gradient, dowse.estimate(TARGET, X, Y, q=4, surrogate=SURROGATE).gradient)


def true_gradient(net, x, labels):
    x = x.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(net(x), labels, reduction="sum")
    return torch.autograd.grad(loss, x)[0]


class Seen(dowse.Observer):
    def __init__(self):
        self.notes, self.answers, self.ends, self.progress = [], [], [], []

    def noted(self, task, values):
        self.notes.append((task.index, values))

    def answered(self, task, query, reply):
        self.answers.append((task.index, len(query.points), reply.answered))

    def ended(self, outcome):
        self.ends.append(outcome.index)

    def progressed(self, progress):
        self.progress.append(progress)


class TestObservers:
    def test_they_see_everything_and_change_nothing(self):
        seen, calls = Seen(), []
        run = {"method": "prgf", "surrogate": SURROGATE, "q": 5, "budget": 60, "eps": 0.2, "concurrency": 2}
        plain = dowse.attack(TARGET, X, Y, **run)
        result = dowse.attack(TARGET, X, Y, observers=[seen, dowse.Observer()], on_progress=calls.append, **run)
        assert torch.equal(plain.adversarial, result.adversarial)
        assert sorted(seen.ends) == list(range(6))
        for i in range(6):
            assert sum(n for index, n, _ in seen.answers if index == i) == int(result.queries[i])
        assert {"alpha", "lam", "norm", "a_square", "sigma"} <= set(seen.notes[0][1])
        assert calls == seen.progress

    def test_progress_adds_up(self):
        calls = []
        result = dowse.attack(
            TARGET, X, Y, method="rgf", q=5, eps=0.4, budget=60, concurrency=2, on_progress=calls.append
        )
        assert all(isinstance(call, dowse.Progress) for call in calls)
        assert all(a.queries <= b.queries and a.done <= b.done for a, b in itertools.pairwise(calls))
        assert all(call.active <= 2 for call in calls)
        last = calls[-1]
        assert last == (6, int(result.success.sum()), 0, int(result.queries.sum()))

    def test_an_observer_that_scribbles_on_its_note_harms_nobody(self):
        class Scribbling(dowse.Observer):
            def noted(self, task, values):
                values.clear()

        seen = Seen()
        dowse.attack(
            TARGET, X[:1], Y[:1], method="prgf", surrogate=SURROGATE, q=3, budget=30, observers=[Scribbling(), seen]
        )
        assert all(values for _, values in seen.notes)


@dataclass(frozen=True)
class Central:
    """An estimator of one's own: central differences."""

    n: int = 4

    def init(self, x):
        return 0

    def estimate(self, state, x, f, rng):
        u = sphere(self.n, x, rng)
        answer = yield from ask(torch.cat([x + 1e-3 * u, x - 1e-3 * u]))
        rise = answer.loss[: self.n] - answer.loss[self.n :]
        return torch.einsum("n,nchw->chw", rise.to(u), u), state + 1


class TestOwnMethods:
    def test_an_estimator(self):
        counter = Counter(TARGET)
        result = dowse.attack(counter, X, Y, method=Central(), eps=1.0, budget=500)
        assert result.success.all()
        assert ((result.queries - 1) % 9 == 0).all()
        assert counter.rows == int(result.queries.sum())

    def test_its_step_is_the_runs(self):
        result = dowse.attack(TARGET, X, Y, method=Central(), eps=1.0, step=1e-3, budget=10)
        assert [outcome.distance for outcome in result.outcomes] == pytest.approx([1e-3] * 6)

    @pytest.mark.parametrize("method", [PRGF(q=4), PGD(PRGF(q=4))], ids=["estimator", "attack"])
    def test_our_own_as_an_object_is_the_same_as_by_name(self, method):
        run = {"surrogate": SURROGATE, "eps": 0.3, "budget": 60}
        named = dowse.attack(TARGET, X, Y, method="prgf", q=4, **run)
        assert torch.equal(dowse.attack(TARGET, X, Y, method=method, **run).adversarial, named.adversarial)

    def test_needs_surrogate_is_heard(self):
        class Needy(Central):
            needs_surrogate = True

        counter = Counter(TARGET)
        with pytest.raises(dowse.InputError, match="'Needy' needs a surrogate"):
            dowse.attack(counter, X, Y, method=Needy())
        assert counter.rows == 0

    def test_check_may_refuse_an_image(self):
        class Picky(Central):
            def init(self, x):
                raise dowse.InputError("not this one")

        counter = Counter(TARGET)
        with pytest.raises(dowse.InputError, match="not this one"):
            dowse.attack(counter, X, Y, method=Picky())
        assert counter.rows == 0

    def test_the_document_runs(self, capsys):
        blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
        assert len(blocks) >= 4
        torch.manual_seed(0)
        names = {"__name__": "extending"}
        for block in blocks:
            exec(compile(block, str(DOCUMENT), "exec"), names)
        said = capsys.readouterr().out
        assert "fooled" in said
        assert "3 queries" in said
        assert (names["result"].queries <= 100).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("method", sorted(METHODS))
def test_either_precision(method, norm, dtype):
    target, surrogate = (Tanh(seed, dtype=dtype) for seed in (0, 1))
    x = pictures(3, dtype=dtype)
    result = dowse.attack(target, x, method=method, surrogate=surrogate, norm=norm, budget=120)
    assert result.adversarial.dtype == dtype
    order = 2 if norm == "l2" else torch.inf
    eps = (0.001 * 48) ** 0.5 if norm == "l2" else 0.05
    assert torch.linalg.vector_norm((result.adversarial - x).double().flatten(1), order, dim=1).max() <= eps


def test_float32_and_float64_tell_the_same_story():
    wide = Tanh(0, dtype=torch.float64)
    narrow = Tanh(0, dtype=torch.float32)
    gradients = [
        dowse.estimate(net, X.to(dtype), Y, method="rgf", q=500, ids=list("abcdef"))
        for net, dtype in ((wide, torch.float64), (narrow, torch.float32))
    ]
    for found, dtype in zip(gradients, (torch.float64, torch.float32), strict=True):
        truth = true_gradient(Tanh(0, dtype=dtype), X.to(dtype), Y)
        assert (torch.cosine_similarity(found.gradient.flatten(1), truth.flatten(1)) > 0.9).all()


def test_a_defence_with_row_seeds_and_none():
    """A target gets seeds if it asks for them and none if it does not."""

    class Plain(torch.nn.Module):
        def forward(self, x):
            return TARGET(x)

    for target in (Plain().eval(), Noisy(TARGET, 0.0)):
        assert len(dowse.attack(target, X, Y, method="rgf", q=3, budget=9)) == 6


def test_the_surrogate_is_asked_for_many_images_at_once():
    class Batched:
        def __init__(self):
            self.sizes = []

        def gradient(self, x, labels):
            self.sizes.append(len(x))
            return true_gradient(SURROGATE, x, labels)

    prior = Batched()
    dowse.attack(TARGET, X, Y, method="prgf", surrogate=prior, q=3, budget=20, eps=1e-3, concurrency=6)
    assert max(prior.sizes) == 6


def test_probabilities_give_the_same_losses_as_logits():
    """ce of softmax scores is ce of logits: the attack goes the same way."""
    probs = torch.nn.Sequential(TARGET, torch.nn.Softmax(1)).eval()
    run = {"method": "rgf", "q": 5, "budget": 40, "eps": 0.3}
    a = dowse.attack(TARGET, X, Y, **run)
    b = dowse.attack(probs, X, Y, outputs="probs", **run)
    assert torch.equal(a.queries, b.queries)
    assert torch.allclose(a.adversarial, b.adversarial, atol=1e-6)


def test_a_linear_f_is_known_exactly_by_its_slopes():
    """ĝ of RGF lies in the span of its directions, and along each of them has the slope that was measured."""
    w = torch.randn(48, generator=generator(0), dtype=torch.float64)
    target = Linear(torch.stack([torch.zeros_like(w), w]), torch.zeros(2, dtype=torch.float64))
    found = dowse.estimate(target, X[:1], [0], method=RGF(q=1, sigma=1e-5), loss="margin")
    g = found.gradient.flatten()
    assert float(g @ w) == pytest.approx(float(g @ g), rel=1e-6)
    assert found.gradient.shape == (1, *SHAPE)
