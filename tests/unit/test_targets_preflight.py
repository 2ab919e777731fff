"""The preflight finds each defect that is put into a target, says what to do, and finds none in a sound one."""

import math

import pytest
import torch
from torch import nn

from dowse.preflight import Verdict, as_record, preflight, reading
from dowse.targets.http.target import HttpTarget
from dowse.targets.options import HttpOptions
from tests.support import Counter, Tanh, generator, labels_of, pictures
from tests.v2server import serving

NET = Tanh(0, classes=6, dtype=torch.float32)
X = pictures(8, dtype=torch.float32)
Y = [int(label) for label in labels_of(NET, X)]


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock that only slow targets move."""
    now = [0.0]
    monkeypatch.setattr("dowse.preflight.asking.perf_counter", lambda: now[0])
    return now


def report_on(target, images=X, labels=Y, **more):
    return preflight(target, images, labels, seconds=0, **more)


def finding(target, check, **more):
    (found,) = [f for f in report_on(target, **more).findings if f.check == check]
    return found


def of_net(change):
    """A target that changes the network's scores."""
    return lambda x: change(NET(x))


def test_a_sound_target_has_nothing_wrong():
    counter = Counter(NET)
    report = report_on(counter)
    assert report.ok
    assert [f.verdict for f in report.findings] == [Verdict.GOOD] * 10
    assert all(not f.remedy for f in report.findings)
    assert report.labels == tuple(Y)
    assert report.queries == report.sent == counter.rows


def test_every_finding_that_is_not_good_has_a_remedy():
    for target in (of_net(lambda s: s.softmax(1)), of_net(lambda s: s.round(decimals=2)), of_net(lambda s: s * 0)):
        for found in report_on(target).findings:
            assert (found.verdict is Verdict.GOOD) == (not found.remedy)


@pytest.mark.parametrize(
    ("images", "remedy"),
    [(X * 255, "divide by 255"), (X - 1, "divide by 255"), (X / 255, "twice"), (X * math.nan, "divide by 255")],
)
def test_pixels_out_of_range(images, remedy):
    found = finding(NET, "pixels", images=images)
    assert found.verdict is Verdict.WRONG
    assert remedy in found.remedy


def test_training_mode():
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(48), nn.Linear(48, 3)).train()
    report = report_on(net, labels=None)
    wrong = [f.check for f in report.findings if f.verdict is Verdict.WRONG]
    assert "mode" in wrong
    assert "batch" in wrong or "answer" in wrong


def refuse(x):
    raise ValueError("expected 3×8×8")


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (refuse, "ValueError: expected 3×8×8"),
        (of_net(lambda s: s[0]), "must answer 8 rows"),
        (of_net(lambda s: s[:-1]), "must answer 8 rows"),
        (of_net(lambda s: s.argmax(1).tolist()), "got list"),
        (of_net(lambda s: s * math.nan), "NaN or infinity"),
        (of_net(lambda s: s / 0), "NaN or infinity"),
        (of_net(lambda s: s * 0), "the same scores for 8 different images"),
    ],
)
def test_answers_that_cannot_be_used_end_it(target, found):
    report = report_on(target)
    assert not report.ok
    assert report.findings[-1].check == "answer"
    assert found in report.findings[-1].found


@pytest.mark.parametrize(("step", "said"), [(1 / 256, "1/256"), (1 / 255, "1/255"), (32 / 255, "0.1255")])
def test_the_step_of_quantised_scores_is_named(step, said):
    scores = torch.randint(-120, 120, (8, 6), generator=generator(0)) * step
    assert reading.rounding(scores.double()).found == f"scores come in steps of {said}"
    assert reading.rounding(scores.float().double()).found == f"scores come in steps of {said}"
    other = scores + torch.rand(8, 6, generator=generator(1)) * step
    assert reading.rounding(other.double()).verdict is Verdict.GOOD
    assert reading.step_of(torch.tensor([[0.1, 0.7], [0.3, 0.2]])) is None, "so few may be multiples by chance"


def test_what_the_scores_are_and_what_they_are_said_to_be():
    probs = of_net(lambda s: s.softmax(1))
    assert finding(probs, "outputs", outputs="probs").verdict is Verdict.GOOD
    assert finding(probs, "outputs").remedy == "say outputs='probs' (--outputs probs)"
    assert finding(NET, "outputs", outputs="probs").remedy == "say outputs='logits' (--outputs logits)"
    assert finding(of_net(lambda s: s.log_softmax(1)), "outputs").verdict is Verdict.GOOD
    sigmoids = finding(of_net(lambda s: s.sigmoid()), "outputs", outputs="probs")
    assert sigmoids.remedy == "say outputs='logits' (--outputs logits)"
    assert "as sigmoids do" in sigmoids.found


def test_a_remedy_serves_python_and_the_command_line():
    assert "quantize=True (--quantize)" in reading.form("numpy uint8 NHWC in, logits out").remedy
    assert "#scale=255 behind a spec" in reading.difference(torch.ones(4, 3), 4).remedy
    assert "--size" in finding(of_net(lambda s: s[:1]), "answer").remedy
    (noisy,) = [f for f in report_on(of_net(lambda s: s + torch.rand(()))).findings if f.check == "determinism"]
    assert "repeats=4 (--repeats 4)" in noisy.remedy
    assert "verify=3 (--verify 3)" in noisy.remedy


@pytest.mark.parametrize("decimals", [1, 2, 4, 6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_is_seen_in_either_precision(decimals, dtype):
    target = of_net(lambda s: s.double().softmax(1).round(decimals=decimals).to(dtype))
    found = finding(target, "rounding", outputs="probs")
    assert found.verdict is Verdict.NOTE
    assert f"to {decimals} decimals" in found.found


def test_classes_that_are_not_shown():
    def best_two(scores):
        p = scores.softmax(1)
        return torch.zeros_like(p).scatter(1, p.topk(2).indices, p.topk(2).values)

    found = finding(of_net(best_two), "classes shown", outputs="probs")
    assert found.verdict is Verdict.NOTE
    assert "at most 3 different scores of 6 classes" in found.found


def test_noise_of_its_own():
    rng = generator(0)
    noisy = of_net(lambda s: s + 0.01 * torch.randn(s.shape, generator=rng))
    report = report_on(noisy)
    by_check = {f.check: f for f in report.findings}
    assert by_check["determinism"].verdict is Verdict.NOTE
    assert "repeats=" in by_check["determinism"].remedy
    assert by_check["batch"].verdict is Verdict.GOOD


def test_answers_by_chance():
    rng = generator(0)
    report = report_on(lambda x: torch.randn(len(x), 6, generator=rng))
    by_check = {f.check: f for f in report.findings}
    assert not report.ok
    assert by_check["determinism"].verdict is Verdict.WRONG
    assert "of 8 have another label" in by_check["determinism"].found
    assert "succeeds by chance" in by_check["determinism"].remedy


def test_noise_by_seed():
    class Seeded(nn.Module):
        takes_row_seeds = True

        def forward(self, x, seeds):
            draws = [torch.randn(6, generator=generator(int(seed))) for seed in seeds]
            return NET(x) + 0.01 * torch.stack([*draws, torch.zeros(6)])[: len(x)]

    by_check = {f.check: f for f in report_on(Seeded().eval()).findings}
    assert by_check["determinism"].verdict is Verdict.NOTE
    assert "drawn per row by seed" in by_check["determinism"].found
    assert by_check["batch"].verdict is Verdict.GOOD


def test_scores_that_depend_on_the_neighbours():
    assert finding(of_net(lambda s: s - s.mean(0)), "batch").verdict is Verdict.WRONG
    rounding = finding(of_net(lambda s: s + 1e-6 * len(s)), "batch")
    assert rounding.verdict is Verdict.GOOD
    assert "rounding only" in rounding.found


def test_an_input_in_bytes_is_flat_for_small_steps():
    found = finding(lambda x: NET((x * 255).round() / 255), "sensitivity", images=(X * 255).round() / 255)
    assert found.verdict is Verdict.NOTE
    assert found.remedy.startswith("sigma=0.01")


def test_an_input_in_few_levels_is_flat_for_any_step():
    steps = finding(lambda x: NET((x * 8).round() / 8), "sensitivity", images=(X * 8).round() / 8)
    assert "rounds its input" in steps.remedy


def test_labels_that_disagree():
    shifted = finding(NET, "labels", labels=[y + 1 for y in Y])
    assert shifted.verdict is Verdict.WRONG
    assert "off by -1" in shifted.remedy
    mixed = finding(NET, "labels", labels=[(3 * y + i + 1) % 6 for i, y in enumerate(Y)])
    assert mixed.verdict is Verdict.WRONG
    assert "colour channels" in mixed.remedy
    some = finding(NET, "labels", labels=[*Y[:4], None, None, None, None])
    assert "4 of 4" in some.found
    assert "none to compare with" in finding(NET, "labels", labels=None).found


def test_a_target_that_fails_on_the_way_is_a_finding():
    class Tiring:
        rows = 0

        def __call__(self, x):
            self.rows += len(x)
            if self.rows > 20:
                raise ConnectionError("gone")
            return NET(x)

    report = report_on(Tiring())
    wrong = {f.check: f.found for f in report.findings if f.verdict is Verdict.WRONG}
    assert {"batch", "sensitivity", "speed"} <= set(wrong)
    assert all("ConnectionError: gone" in found for found in wrong.values())
    assert report.sent > report.queries


def slow(clock, seconds):
    """A target that takes so long for a call."""

    def answer(x):
        clock[0] += seconds
        return NET(x)

    return Counter(answer)


@pytest.mark.parametrize(
    ("seconds", "found", "verdict"),
    [
        (0.5, "16 rows a second; 10,000 take 10 min", Verdict.GOOD),
        (4.0, "2 rows a second; 10,000 take 83 min", Verdict.NOTE),
        (0.01, "800 rows a second; 10,000 take 12 s", Verdict.GOOD),
        (0.001, "8,000 rows a second; 10,000 take 1 s", Verdict.GOOD),
    ],
)
def test_the_speed_and_what_to_do_about_a_slow_one(clock, seconds, found, verdict):
    speed = finding(slow(clock, seconds), "speed")
    assert (speed.found, speed.verdict) == (found, verdict)
    assert ("dowse export" in speed.remedy) is (verdict is Verdict.NOTE)


def test_measuring_the_speed_ends_by_time_and_by_rows(clock):
    short, long = slow(clock, 1.0), slow(clock, 1.0)
    preflight(short, X, Y, seconds=3.5)
    preflight(long, X, Y, seconds=1e9)
    assert long.rows - short.rows == 256 - 4 * 8, "four calls, and at most 256 rows"


def test_a_server_that_dies_on_the_way_is_a_finding_and_what_it_answered_is_counted():
    net = Tanh(1)
    with serving(net, [*["ok"] * 2, "die"]) as server:
        target = HttpTarget(server.url, HttpOptions(timeout=600, connections=1), sleep=lambda _: None)
        report = report_on(target, labels=None)
        target.close()
    assert not report.ok
    wrong = {f.check: f for f in report.findings if f.verdict is Verdict.WRONG}
    assert {"batch", "sensitivity", "speed"} <= set(wrong)
    assert all(f"{server.url} did not answer" in f.found and "server" in f.remedy for f in wrong.values())
    assert report.queries == server.rows_answered
    assert report.sent == server.rows_seen


def test_a_server_that_is_dead_from_the_start_leaves_one_finding():
    with serving(Tanh(1)) as server:
        target = HttpTarget(server.url, HttpOptions(timeout=600), sleep=lambda _: None)
        server.die()
        report = report_on(target, labels=None)
        target.close()
    assert [f.check for f in report.findings] == ["pixels", "answer"]
    assert "did not answer after 6 attempts" in report.findings[1].found
    assert (report.queries, report.labels) == (0, ())


def test_the_record_holds_all_of_it():
    record = as_record(report_on(of_net(lambda s: s.softmax(1))))
    assert record["ok"] is False
    assert record["labels"] == Y
    assert {"check": "outputs", "verdict": "wrong"}.items() <= record["findings"][2].items()
    assert record["queries"] == record["sent"] > 0
