"""Services that remember queries: known answers of the hashes, and what an attack on them sees, pays and is told."""

import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dowse
from dowse.attacks.registry import METHODS
from dowse.core.detection import Detector, Memory
from dowse.core.outcome import Outcome
from dowse.core.summary import summarize
from dowse.defences import DEFENCES, Blacklight, InputNoise, Piha
from dowse.defences.blacklight import WindowHashes
from dowse.defences.measure import measure_defence
from dowse.defences.piha import HuePatterns, blurred, hue, patterns
from dowse.targets import resolve_target
from dowse.targets.export import export_onnx
from tests.support import Counter, Faulty, Noisy, Tanh, attack_anyway, generator, labels_of, pictures

End = dowse.End
TARGET = Tanh(0)
SURROGATE = Tanh(1, near=TARGET)
X = pictures(4, seed=3)
Y = labels_of(TARGET, X)
SMALL = {"window": 3, "threshold": 10}  # for images of 48 numbers, where a step of an attack changes few windows
LEAN = {"pbo": {"starts": 1, "steps": 2}, "bases": {"steps": 2}}
BLACK_BOX = [name for name, method in METHODS.items() if not method.whitebox]


def watched(net=TARGET, **choices):
    """The network behind Blacklight, and who counts what passes."""
    counter = Counter(net)
    return Blacklight(counter, **(SMALL | choices)), counter


def photographs(n, seed=0, side=32):
    """n smooth colourful images, (n, 3, side, side): each a few waves."""
    rng = generator(seed)
    rows, columns = torch.meshgrid(*[torch.linspace(0, 1, side, dtype=torch.float64)] * 2, indexing="ij")
    waves, phases = 6 * torch.rand(n, 3, 2, generator=rng), 6 * torch.rand(n, 3, generator=rng)
    angle = waves[..., 0, None, None] * rows + waves[..., 1, None, None] * columns + phases[..., None, None]
    return 0.5 + 0.45 * angle.sin()


class TestWindowHashes:
    def test_the_papers_numbers_are_the_defaults(self):
        rule = WindowHashes()
        assert (rule.threshold, rule.step, rule.stride, rule.keep) == (25, 50, 1, 50)
        assert (rule.account, rule.then) == ("image", "end")

    def test_pixels_are_salted_and_rounded_to_steps(self):
        x = torch.tensor([[[0.0, 1.0]], [[0.5, 0.25]], [[0.1, 0.2]]], dtype=torch.float64)  # (3, 1, 2)
        salt = np.array([10, 30, 5, 0, 250, 254])  # pixel by pixel, a pixel's channels together
        rule = WindowHashes(salt=3)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dowse.defences.blacklight._salt", lambda seed, n: salt)
            # 0+10, 128+30, 26+5 | 255+0 → 0, 64+250 → 59, 51+254 → 50; in units of 50
            assert rule.quantised(x).tolist() == [0, 3, 1, 0, 1, 1]

    def test_the_salt_is_the_same_everywhere_and_another_for_another_number(self):
        black = torch.zeros(1, 1, 6, dtype=torch.float64)
        assert WindowHashes(step=1).quantised(black).tolist() == [225, 110, 6, 247, 27, 83]  # of splitmix64 from 0
        assert WindowHashes(step=1, salt=1).quantised(black).tolist() != WindowHashes(step=1).quantised(black).tolist()

    def test_a_fingerprint_is_the_largest_hashes_of_the_different_windows(self):
        x = photographs(1)[0]
        rule = WindowHashes()
        text = rule.quantised(x).tobytes()
        assert len(text) == 3072
        hashes = sorted({hashlib.sha256(text[i : i + 20]).digest() for i in range(3072 - 20 + 1)})
        assert rule.fingerprint(x) == frozenset(hashes[-50:])

    def test_windows_are_longer_where_images_are_larger_and_may_lie_apart(self):
        x = photographs(1, side=72)[0]
        rule = WindowHashes(stride=7)
        text = rule.quantised(x).tobytes()
        hashes = sorted({hashlib.sha256(text[i : i + 50]).digest() for i in range(0, len(text) - 50 + 1, 7)})
        assert rule.fingerprint(x) == frozenset(hashes[-50:])

    @pytest.mark.parametrize(("shared", "refused"), [(25, False), (26, True)])
    def test_more_than_the_threshold_must_be_shared(self, shared, refused):
        names = [str(number).encode() for number in range(100)]
        one, other = frozenset(names[:50]), frozenset(names[50 - shared : 100 - shared])
        assert WindowHashes().alike(one, other) is refused

    def test_an_image_with_too_few_windows_is_refused_with_a_remedy(self):
        with pytest.raises(dowse.InputError, match="smaller window"):
            WindowHashes(window=30).fingerprint(X[0])


class TestHuePatterns:
    def test_hues_are_those_of_the_colour_wheel(self):
        colours = {"red": (1, 0, 0, 0), "yellow": (1, 1, 0, 60), "green": (0, 1, 0, 120), "cyan": (0, 1, 1, 180),
                   "blue": (0, 0, 1, 240), "magenta": (1, 0, 1, 300), "grey": (0.5, 0.5, 0.5, 0),
                   "orange": (1, 0.5, 0, 30), "pink": (1, 0, 0.5, 330)}  # fmt: skip
        x = torch.tensor([rgb[:3] for rgb in colours.values()], dtype=torch.float64).T.unsqueeze(1)
        assert hue(x)[0].tolist() == [rgb[3] for rgb in colours.values()]

    def test_one_channel_is_its_own_hue(self):
        x = pictures(1, shape=(1, 4, 4))[0]
        assert torch.equal(hue(x), x[0])

    def test_a_pattern_has_a_bit_for_each_neighbour_that_is_no_smaller(self):
        # clockwise from above on the left; 5 has the neighbours 9 1 5 | 2 | 7 3 6 | 4
        m = torch.tensor([[9, 1, 5], [4, 5, 2], [6, 3, 7]], dtype=torch.float64)
        assert int(patterns(m)[1, 1]) == 0b1010101
        assert int(patterns(m)[0, 0]) == 0
        assert int(patterns(torch.zeros(2, 2))[0, 0]) == 255

    def test_the_filter_keeps_what_is_flat_and_weighs_by_a_gaussian(self):
        flat = torch.full((3, 4, 5), 0.3, dtype=torch.float64)
        torch.testing.assert_close(blurred(flat), flat)
        point = torch.zeros(1, 5, 5, dtype=torch.float64)
        point[0, 2, 2] = 1
        spread = blurred(point)[0]
        assert float(spread.sum()) == pytest.approx(1)
        assert float(spread[2, 3] / spread[2, 2]) == pytest.approx(math.exp(-0.5))
        assert float(spread[1, 1] / spread[2, 2]) == pytest.approx(math.exp(-1))

    def test_a_fingerprint_has_a_code_a_block(self):
        assert len(HuePatterns().fingerprint(photographs(1)[0])) == 25  # 32 is filled up to 35
        assert len(HuePatterns(block=8).fingerprint(photographs(1)[0])) == 16

    @pytest.mark.parametrize(("differ", "refused"), [(0, True), (1, True), (2, False)])
    def test_at_most_the_threshold_may_differ(self, differ, refused):
        one = bytes(25)
        assert HuePatterns().alike(one, bytes([1] * differ + [0] * (25 - differ))) is refused


@pytest.mark.parametrize(("rule", "images", "noise"), [(WindowHashes(), 12, 1 / 255), (HuePatterns(), 8, 0.1 / 255)])
def test_a_small_change_is_alike_and_another_image_is_not(rule, images, noise):
    x = photographs(images)
    changed = x[0] + noise * torch.randn(x[0].shape, generator=generator(1), dtype=x.dtype)
    first, *others = (rule.fingerprint(one) for one in x)
    assert rule.alike(first, rule.fingerprint(changed.clamp(0, 1)))
    assert not any(rule.alike(first, other) for other in others)


class TestMemory:
    @pytest.mark.parametrize("rule", [WindowHashes(then="refuse"), HuePatterns(then="refuse")])
    def test_the_same_query_is_refused_from_the_second_time_on(self, rule):
        x = photographs(3)
        memory = Memory(rule)
        assert memory.show(x[[0, 1, 0]]).refused.tolist() == [False, False, True]
        assert memory.show(x[[2, 1, 2]]).refused.tolist() == [False, True, True]

    def test_a_blocked_account_asks_nothing_more(self):
        x = photographs(3)
        shown = Memory(WindowHashes()).show(x[[0, 1, 1, 2]])
        assert (shown.refused.tolist(), shown.asked) == ([False, False, True, True], 3)

    def test_what_failed_is_forgotten_but_not_what_was_known_before(self):
        x = photographs(2)
        memory = Memory(WindowHashes(then="refuse"))
        memory.show(x[:1])
        memory.forget(memory.show(x))
        assert memory.show(x).refused.tolist() == [True, False]

    def test_a_query_may_be_unlike_itself(self):
        class Never(Detector):
            def fingerprint(self, x):
                return 0

            def alike(self, one, other):
                return False

        assert not Memory(Never()).show(X[[0, 0]]).refused.any()


class TestAnAttack:
    def test_a_refusal_ends_the_image_and_is_counted(self):
        """NES asks about two points around the image, so near that the first of them is refused."""
        target, counter = watched()
        result = dowse.attack(target, X, Y, method="nes", q=6, sigma=1e-4, eps=0.5, budget=40)
        assert result.end == [End.DETECTED] * 4
        assert result.queries.tolist() == result.sent.tolist() == [2] * 4
        assert result.refused.tolist() == [1] * 4
        assert [outcome.queries_until_detected for outcome in result.outcomes] == [2] * 4
        assert counter.rows == 4, "the target behind sees nothing that is refused"
        assert all(torch.equal(o.adversarial, X[o.index]) for o in result.outcomes), "the last iterate answered"
        summary = result.summary()
        assert (summary.n, summary.successes, summary.detected) == (4, 0, 4)
        assert (summary.queries_until_detected, summary.coverage) == (2, 0.5)
        assert "4 detected after 2.0 queries on average, 50.0% of queries refused" in str(summary)

    @pytest.mark.parametrize("method", BLACK_BOX)
    def test_any_attack_goes_on_without_answers(self, method):
        target, counter = watched(then="refuse")
        result = attack_anyway(
            target, X[:2], Y[:2], method=method, surrogate=SURROGATE, eps=0.05, budget=25, **LEAN.get(method, {})
        )
        assert End.DETECTED not in result.end
        assert not any(end.failed for end in result.end)
        assert (result.queries <= 25).all()
        assert torch.equal(result.queries, result.sent)
        assert counter.rows == int(result.queries.sum() - result.refused.sum())

    def test_a_refused_row_is_heard_as_the_last_iterate_was(self):
        class Twice(dowse.attacks.Attack):
            name = "twice"
            uses_scores = True
            heard: list = []  # noqa: RUF012 the test's own

            def flow(self, x, f, ball, rng):
                from dowse.core.flow import ask

                other = (x + 0.5) % 1
                answer = yield from ask(torch.stack([other, x, other]))
                Twice.heard.append((f, answer))

        target, counter = watched(then="refuse", window=6, threshold=40)
        result = dowse.attack(target, X[:1], Y[:1], method=Twice(), budget=9, eps=0.1)
        (f, answer), scores = Twice.heard[0], TARGET(X[:1]).detach()
        assert answer.loss[1:].tolist() == [f, f]
        torch.testing.assert_close(answer.scores[1:], scores.expand(2, -1))
        assert not answer.adversarial[1:].any()
        assert float(answer.loss[0]) != f
        assert (int(result.queries), int(result.refused), counter.rows) == (4, 2, 2)
        assert result.end == [End.EXHAUSTED]

    @pytest.mark.parametrize("method", ["dowse", "signhunter", "square"])
    def test_no_attack_moves_to_an_image_that_was_refused(self, method):
        """Some move where f is level; a refusal is less than that, and the last iterate is one that was answered."""
        answered = []

        class Keep(dowse.Observer):
            def answered(self, task, query, reply):
                refused = [False] * len(query.points) if reply.refused is None else reply.refused.tolist()
                answered.extend(x for x, no in zip(query.points, refused, strict=True) if not no)

        target, _ = watched(then="refuse")
        result = dowse.attack(
            target, X[:1], Y[:1], method=method, eps=0.02, budget=60, concurrency=1, observers=[Keep()]
        )
        assert int(result.refused) > 5
        assert any(torch.equal(result.adversarial[0], x) for x in answered)

    def test_success_before_a_refusal_in_the_same_question_is_success(self):
        found = dowse.attack(TARGET, X[:1], Y[:1], method="square", eps=3.0, budget=400, norm="l2").adversarial[0]

        class Sure(dowse.attacks.Attack):
            name = "sure"

            def flow(self, x, f, ball, rng):
                from dowse.core.flow import ask

                yield from ask(torch.stack([found, found, x]))

        target, _ = watched()
        result = dowse.attack(target, X[:1], Y[:1], method=Sure(), budget=9, eps=3.0, accept="any")
        assert result.end == [End.ADVERSARIAL]
        assert (int(result.queries), int(result.refused)) == (3, 1), "the row after the refused one was never asked"

    def test_an_account_of_an_image_knows_nothing_of_the_others(self):
        """Even where an image is there twice; with any concurrency."""
        x, y = X[[0, 1, 0, 2]], Y[[0, 1, 0, 2]]
        settings = {"method": "square", "eps": 0.6, "budget": 30}
        target, _ = watched(then="refuse")
        alone = [dowse.attack(target, x[i : i + 1], y[i : i + 1], ids=[str(i)], **settings) for i in range(4)]
        for concurrency in (1, 3):
            both = dowse.attack(target, x, y, ids=list("0123"), concurrency=concurrency, **settings)
            assert both.queries.tolist() == [int(one.queries) for one in alone]
            assert both.refused.tolist() == [int(one.refused) for one in alone]
            assert both.end == [one.end[0] for one in alone]
        assert both.refused.sum() > 0

    @pytest.mark.parametrize("then", ["end", "refuse"])
    def test_an_account_of_the_run_knows_them_all(self, then):
        """An image that was there before is refused with its first query, so nothing is known about it."""
        target, counter = watched(account="run", then=then)
        x, y = X[[0, 1, 0]], Y[[0, 1, 0]]
        result = dowse.attack(target, x, y, ids=list("abc"), method="square", eps=0.01, budget=8, concurrency=1)
        assert result.end[2] is End.DETECTED
        assert (int(result.queries[2]), int(result.refused[2])) == (1, 1)
        assert result.outcomes[2].label == int(y[2])
        assert math.isnan(result.outcomes[2].loss)
        assert counter.rows == int(result.queries.sum() - result.refused.sum())

    def test_two_runs_are_two_accounts(self):
        target, _ = watched(account="run")
        for _ in range(2):
            assert dowse.attack(target, X[:1], Y[:1], method="nes", q=6, budget=9).queries.tolist() == [2]

    def test_rechecks_go_past_the_detector(self):
        target, counter = watched(then="refuse", threshold=40, keep=45)
        result = dowse.attack(target, X[:1], Y[:1], method="square", eps=3.0, budget=400, verify=3)
        assert result.end == [End.ADVERSARIAL]
        assert int(result.verified) == 3
        assert int(result.sent) == int(result.queries) + 3 == counter.rows + int(result.refused)

    def test_a_question_that_failed_may_be_asked_again(self):
        """What the target failed on is no query that was answered: it is not remembered."""
        target, counter = watched(Faulty(TARGET, [0]))
        memory = Memory(target.detector)
        settings = {"method": "nes", "q": 6, "budget": 9}
        assert attack_anyway(target, X[:1], Y[:1], **settings).end == [End.TARGET_FAILED]
        assert not memory.show(X[:1]).refused.any()
        assert dowse.attack(target, X[:1], Y[:1], **settings).queries.tolist() == [2]
        assert counter.rows == 2

    def test_behind_a_detector_noise_is_drawn_by_the_number_of_the_query(self):
        """A refused query has its number too, so that the seeds of the others do not depend on what is refused."""
        plain, _ = watched(Noisy(TARGET, 0.01), then="refuse", threshold=44, keep=45)
        settings = {"method": "square", "eps": 0.5, "budget": 12, "seed": 4}
        one = dowse.attack(plain, X, Y, **settings)
        two = dowse.attack(plain, X, Y, concurrency=1, **settings)
        assert one.queries.tolist() == two.queries.tolist()
        assert [o.loss for o in one.outcomes] == [o.loss for o in two.outcomes]

    def test_an_estimate_ends_too(self):
        target, _ = watched()
        assert dowse.estimate(target, X[:1], Y[:1], method="rgf", q=4).end == [End.DETECTED]


class TestBadInput:
    @pytest.mark.parametrize(
        ("prefix", "words"),
        [
            ("blacklight:25", "such as blacklight:account"),
            ("blacklight:treshold=3", "did you mean 'threshold'"),
            ("blacklight:threshold=low", "must be of type int"),
            ("blacklight:threshold=50", "must be below keep=50"),
            ("blacklight:threshold=0", "at least 1"),
            ("blacklight:window=0", "at least 1"),
            ("blacklight:account=nobody", "account='nobody' is unknown"),
            ("blacklight:then=hide", "then='hide' is unknown"),
            ("blacklight:salt=1,salt=2", "twice"),
            ("piha:threshold=2", r"must lie in \[0, 1\]"),
            ("piha:block=0", "at least 1"),
            ("piha:window=3", "no option 'window'"),
        ],
    )
    def test_an_argument(self, prefix, words):
        name, _, argument = prefix.partition(":")
        with pytest.raises(dowse.InputError, match=words):
            DEFENCES[name](TARGET, argument)

    def test_it_stands_in_front_of_every_other_defence(self):
        with pytest.raises(dowse.InputError, match="must stand in front"):
            InputNoise(Blacklight(TARGET))
        with pytest.raises(dowse.InputError, match="must stand in front"):
            resolve_target("piha+blacklight+torch:tests.victims:target")
        assert Piha(InputNoise(TARGET)).takes_row_seeds

    def test_repeats_would_be_refused(self):
        with pytest.raises(dowse.InputError, match="leave repeats at 1"):
            dowse.attack(watched()[0], X, Y, method="rgf", repeats=2)

    def test_a_white_box_attack_asks_no_service(self):
        with pytest.raises(dowse.InputError, match="attack the net behind it"):
            dowse.attack(watched()[0], X, Y, method="whitebox")

    def test_an_onnx_file_would_lose_it(self, tmp_path):
        with pytest.raises(dowse.InputError, match="in front of onnx:FILE"):
            export_onnx(Blacklight(TARGET), tmp_path / "net.onnx", (3, 4, 4))


@pytest.mark.parametrize(
    ("prefix", "kind", "values"),
    [
        ("blacklight", WindowHashes, {"account": "image", "then": "end", "threshold": 25, "window": None}),
        ("blacklight:account=run,then=refuse", WindowHashes, {"account": "run", "then": "refuse"}),
        ("blacklight:window=50,stride=25,salt=7", WindowHashes, {"window": 50, "stride": 25, "salt": 7}),
        ("piha", HuePatterns, {"account": "image", "then": "end", "threshold": 0.05, "block": 7}),
        ("piha:threshold=0.1,block=8", HuePatterns, {"threshold": 0.1, "block": 8}),
    ],
)
def test_the_prefix_of_a_spec(prefix, kind, values):
    detector = resolve_target(f"{prefix}+torch:tests.victims:target").detector
    assert isinstance(detector, kind)
    assert {name: getattr(detector, name) for name in values} == values


def test_by_itself_it_is_the_classifier():
    assert torch.equal(Blacklight(TARGET)(X[[0, 0]]), TARGET(X[[0, 0]]))


@pytest.mark.parametrize("make", [Blacklight, Piha])
def test_its_cost_in_clean_accuracy_is_its_false_alarms(make):
    net = Tanh(0, shape=(3, 32, 32))
    x = photographs(8)
    y = labels_of(net, x)
    (clean,) = measure_defence(net, make(net), net, x, y, [])
    assert (clean.noise, clean.undefended, clean.defended) == ("clean", 1, 1)
    (again,) = measure_defence(net, make(net), net, x[[0, 1, 0, 0]], y[[0, 1, 0, 0]], [])
    assert (again.undefended, again.defended) == (1, 0.5), "an image that an account shows again is refused"


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), min_size=1, max_size=5))
def test_a_summary_counts_what_was_refused(images):
    """Images by their queries and how many of these were refused, the last ones."""
    outcomes = [
        Outcome(i, str(i), End.BUDGET, queries, queries, 50, 0, X[0], 0.0, 0.0, refused=min(refused, queries),
                queries_until_detected=queries - min(refused, queries) + 1 if refused else None)
        for i, (queries, refused) in enumerate(images)
    ]  # fmt: skip
    summary = summarize(outcomes)
    assert summary.detected == sum(refused > 0 for _, refused in images)
    assert summary.coverage == pytest.approx(sum(min(r, q) for q, r in images) / sum(q for q, _ in images))
    if summary.detected:
        firsts = [q - min(r, q) + 1 for q, r in images if r]
        assert summary.queries_until_detected == pytest.approx(sum(firsts) / len(firsts))
    unknown = summarize([replace(outcomes[0], refused=None), *outcomes[1:]])
    assert math.isnan(unknown.coverage)
