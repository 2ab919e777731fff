"""The runner: experiments become rows; what is done is not done again, what is broken is named."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Picture
from rich.console import Console

import dowse
from dowse.core.outcome import End
from dowse.core.seeds import image_id, row_seeds, stream
from dowse.errors import InputError
from dowse.experiment.file import make_experiment
from dowse.experiment.spec import PlannedRun
from dowse.images.sources import open_images
from dowse.report.data.gather import gather, runs_of
from dowse.running.engines import LocalEngine, make_engine
from dowse.running.interrupt import Interrupt, interruptible
from dowse.running.progress import JsonLines, Lines, Reporter, RichBars, Several, Snapshot
from dowse.running.run_experiment import run_experiment
from dowse.running.run_under_way import Finished
from dowse.store import Row, Store
from dowse.store.events import Stopped
from dowse.targets.weights_digest import weights_digest
from dowse.wording import duration
from tests.stores import Made, make_store
from tests.support import Tanh
from tests.victims import ROWS, image_file, rows_seen, surrogate, tables


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ROWS, str(tmp_path / "rows"))
    return tmp_path / "rows"


def run(out: Path, said: dict[str, Any], **more: Any) -> list[Finished]:
    return run_experiment(make_experiment(said, source="test"), out, LocalEngine(), **more)


class Told(Reporter):
    def __init__(self) -> None:
        self.messages: list[str] = []
        self.snapshots: list[Snapshot] = []
        self.images: list[str] = []

    def progressed(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def ended(self, snapshot: Snapshot, row: Row) -> None:
        self.images.append(row.name)

    def message(self, text: str) -> None:
        self.messages.append(text)


def test_rows_are_what_attack_gives(tmp_path: Path, rows: Path) -> None:
    said = tables(image_file(tmp_path, 8))
    (finished,) = run(tmp_path / "out", said)
    source = open_images(said["images"])
    x = torch.stack([source.read(i, None) for i in range(8)])
    expected = dowse.attack(
        Tanh(0), x.double(), method="prgf", q=5, surrogate=surrogate(), eps=0.12, budget=120,
        ids=[image_id(one, None) for one in x],
    )  # fmt: skip
    assert [row.end for row in finished.rows] == expected.end
    assert [row.queries for row in finished.rows] == expected.queries.tolist()
    assert [row.l2 for row in finished.rows] == [outcome.distance for outcome in expected.outcomes]
    assert finished.summary == expected.summary()
    assert len(set(expected.end)) > 1
    assert sum(rows_seen(rows).values()) == int(expected.sent.sum())
    with Store(tmp_path / "out") as store:
        for row, outcome in zip(store.rows(), expected.outcomes, strict=True):
            image = store.adversarial(row)
            assert (image is not None) == outcome.success
            assert image is None or torch.equal(image, outcome.adversarial)
            assert row.sent == outcome.sent
            assert row.checksum == outcome.id


def test_streams_keyed_by_the_target_take_another_path_than_those_of_the_image(tmp_path: Path, rows: Path) -> None:
    said = tables(image_file(tmp_path, 2)) | {"method": {"name": "rgf", "q": 5}}
    ended = [run(tmp_path / "out", said | {"streams": streams}) for streams in ("image", "target", "target")]
    plain, keyed, again = ([row.loss for row in finished.rows] for (finished,) in ended)
    assert plain != keyed == again
    draws = [torch.rand(3, generator=stream(0, "image", "rgf", target)) for target in ("", "a", "b")]
    assert len({tuple(draw.tolist()) for draw in draws}) == 3
    assert torch.equal(draws[0], torch.rand(3, generator=stream(0, "image", "rgf")))
    assert not torch.equal(row_seeds(0, "image", 0, 3), row_seeds(0, "image", 0, 3, target="a"))


@pytest.mark.parametrize("accept", ["iterate", "any"])
def test_a_row_says_what_the_target_sees_and_how_surely(tmp_path: Path, rows: Path, accept: str) -> None:
    (finished,) = run(tmp_path / "out", tables(image_file(tmp_path, 8), accept=accept))
    with torch.no_grad(), Store(tmp_path / "out") as store:
        for row in finished.rows:
            before = Tanh(0)(store.original(row).double().unsqueeze(0)).softmax(1)[0]
            assert row.confidence_before == pytest.approx(float(before.max()), rel=1e-5)
            if (image := store.adversarial(row)) is not None:
                after = Tanh(0)(image.unsqueeze(0)).softmax(1)[0]
                assert row.predicted == int(after.argmax()) != row.label
                assert row.confidence == pytest.approx(float(after.max()), rel=1e-5)
    assert any(row.success for row in finished.rows)


def test_what_is_done_is_not_done_again(tmp_path: Path, rows: Path) -> None:
    said = tables(image_file(tmp_path, 4))
    first = run(tmp_path / "out", said)
    seen = rows_seen(rows)
    assert run(tmp_path / "out", said) == first
    assert rows_seen(rows) == seen


def test_more_images_go_on_and_fewer_are_a_part(tmp_path: Path, rows: Path) -> None:
    said = tables(image_file(tmp_path, 6), budget=20)
    some, all_of_them = (said | {"images": {"path": said["images"], "count": count}} for count in (2, 6))
    (two,) = run(tmp_path / "out", some)
    (six,) = run(tmp_path / "out", all_of_them)
    assert (len(two.rows), len(six.rows)) == (2, 6)
    assert six.rows[:2] == two.rows
    assert run(tmp_path / "out", some) == [two]
    assert sum(rows_seen(rows).values()) == sum(row.queries for row in six.rows)


def test_experiments_that_share_a_cell_share_its_rows(tmp_path: Path, rows: Path) -> None:
    images = image_file(tmp_path, 3)
    run(tmp_path / "out", tables(images, method="rgf", budget=30))
    seen = rows_seen(rows)
    both = run(tmp_path / "out", tables(images, method=["rgf", {"name": "rgf", "q": 3}], budget=30))
    assert len(both) == 2
    assert sum((rows_seen(rows) - seen).values()) == sum(row.queries for row in both[1].rows)
    with Store(tmp_path / "out") as store:
        assert len(store.runs()) == 2


def test_whose_labels_they_are_is_said_once(tmp_path: Path, rows: Path) -> None:
    told = Told()
    run(tmp_path / "out", tables(image_file(tmp_path, 1), method=["square", "signhunter"], budget=3), report=told)
    assert told.snapshots[-1].title == "signhunter"
    assert sum("labels" in message for message in told.messages) == 1


def test_a_smaller_budget_is_a_view_of_a_larger_one(tmp_path: Path, rows: Path) -> None:
    images = image_file(tmp_path, 8)
    (large,) = run(tmp_path / "out", tables(images, budget=120))
    seen = rows_seen(rows)
    (small,) = run(tmp_path / "out", tables(images, budget=30))
    assert rows_seen(rows) == seen
    (alone,) = run(tmp_path / "alone", tables(images, budget=30))
    assert small.summary.successes == alone.summary.successes
    assert small.summary.mean_queries_budget == alone.summary.mean_queries_budget
    assert large.summary.successes >= small.summary.successes


def test_images_that_cannot_be_read_are_named_and_made_up_for(tmp_path: Path, rows: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    levels = np.random.default_rng(0).integers(60, 200, (5, 4, 4, 3), dtype=np.uint8)
    for i, level in enumerate(levels):
        Picture.fromarray(level).save(folder / f"{i}.png")
    (folder / "1.png").write_bytes(b"no picture")
    (folder / "labels.csv").write_text("file,label\n" + "".join(f"{name}.png,\n" for name in (0, 1, "gone", 2, 3, 4)))
    told = Told()
    said = tables(folder, budget=20) | {"images": {"path": str(folder), "count": 3}}
    (finished,) = run(tmp_path / "out", said, report=told)
    assert [row.name for row in finished.rows] == ["0.png", "2.png", "3.png"]
    assert set(finished.skipped) == {"1.png", "gone.png"}
    assert sum("left out" in message for message in told.messages) == 2
    assert told.snapshots[-1].total == 3
    again = Told()
    assert run(tmp_path / "out", said, report=again) == [finished]
    assert not again.images
    fewer = said | {"images": {"path": str(folder), "count": 1}}
    (one,) = run(tmp_path / "out", fewer, report=again)
    assert ([row.name for row in one.rows], one.skipped) == (["0.png"], {})
    assert not again.images


def test_an_image_that_can_be_read_again_takes_its_place(tmp_path: Path, rows: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(3):
        Picture.new("RGB", (4, 4), (90 + i, 120, 150)).save(folder / f"{i}.bmp")
    whole = (folder / "0.bmp").read_bytes()
    (folder / "0.bmp").write_bytes(bytes(len(whole)))  # as many bytes, so the same run
    said = tables(folder, budget=20) | {"images": {"path": str(folder), "count": 2}}
    (without,) = run(tmp_path / "out", said)
    assert ([row.name for row in without.rows], list(without.skipped)) == (["1.bmp", "2.bmp"], ["0.bmp"])
    (folder / "0.bmp").write_bytes(whole)
    told = Told()
    (finished,) = run(tmp_path / "out", said, report=told)
    assert ([row.name for row in finished.rows], finished.skipped) == (["0.bmp", "1.bmp"], {})
    assert told.images == ["0.bmp"]
    assert (told.snapshots[-1].done, told.snapshots[-1].total) == (2, 2)


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        ("ConnectionError: HTTP 503", "Mend the target; the"),
        ("RuntimeError: mat1 and mat2 shapes differ", "Mend the target, or give it images of its own size"),
        ("RuntimeError: expected input to have 3 channels, but got 1", "of its own channels with --channels"),
    ],
)  # fmt: skip
def test_images_of_another_size_are_advised_where_that_may_be_it(tmp_path: Path, cause: str, remedy: str) -> None:
    folder = make_store(tmp_path / "out", [Made("failed", [1, 1], ends=[End.TARGET_FAILED] * 2, cause=cause)])
    with Store(folder) as store:
        (known,) = store.runs()
        counted = store.counted(known.id, known.budget, known.count)
    plan = PlannedRun(spec=None, title="a run", count=2, target_name=None)
    assert remedy in str(Finished(plan, counted.rows, {}, 0, counted.failed).trouble)


def test_an_image_that_the_target_fails_on_is_neither_fooled_nor_robust(tmp_path: Path) -> None:
    (tmp_path / "dead").touch()
    said = tables(image_file(tmp_path, 3), target=f"torch:tests.victims:sometimes_dead#file={tmp_path / 'dead'}")
    told = Told()
    (finished,) = run(tmp_path / "out", said, report=told)
    assert (finished.rows, finished.summary.n, told.snapshots[-1].done) == ([], 0, 0)
    assert any("the target failed on 3 images of" in message for message in told.messages)
    assert "Mend the target; the same command goes on" in str(finished.trouble)
    (tmp_path / "dead").unlink()
    (finished,) = run(tmp_path / "out", said)
    assert finished.summary.n == 3


def test_images_of_several_sizes_need_to_be_told_one(tmp_path: Path) -> None:
    for i, side in enumerate((4, 6)):
        Picture.new("RGB", (side, side), (90, 120, 150)).save(tmp_path / f"{i}.png")
    said = tables(tmp_path, budget=20)
    with pytest.raises(InputError, match=r"1.png is \(3, 6, 6\).*size = 224"):
        run(tmp_path / "out", said)
    (finished,) = run(tmp_path / "out", said | {"images": {"path": str(tmp_path), "size": 4}})
    assert len(finished.rows) == 2


def test_a_picture_is_saved_rounded_and_asked_about_again(tmp_path: Path, rows: Path) -> None:
    said = tables(image_file(tmp_path, 8), eps=0.5, save="png")
    (finished,) = run(tmp_path / "out", said)
    fooled = [row for row in finished.rows if row.success]
    assert len(fooled) >= 4
    assert sum(rows_seen(rows).values()) == sum(row.queries + row.saved_queries for row in finished.rows)
    assert sum(rows_seen(rows).values()) == sum(row.sent for row in finished.rows)
    with Store(tmp_path / "out") as store:
        for row in fooled:
            image = store.adversarial(row)
            assert image is not None
            assert row.saved_queries == 1
            assert row.saved_inside
            assert row.saved_distance is not None
            assert row.saved_distance <= 0.5
            original = store.original(row)
            assert row.saved_distance == pytest.approx(float((image - original).norm()), abs=1e-6)
            verdict = Tanh(0)(image.double().unsqueeze(0)).argmax().item() != row.label
            assert row.saved_adversarial == verdict
    assert {row.saved_adversarial for row in finished.rows if not row.success} <= {None}


def test_nothing_is_saved_if_nothing_shall_be(tmp_path: Path) -> None:
    (finished,) = run(tmp_path / "out", tables(image_file(tmp_path, 3), save="none"))
    assert all(row.file is None for row in finished.rows)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["dowse.sqlite"]


def test_without_a_log_an_interrupted_image_starts_anew_and_keeps_what_was_sent(tmp_path: Path, rows: Path) -> None:
    images = image_file(tmp_path, 4)
    (first,) = run(tmp_path / "out", tables(images, budget=30))
    (second,) = run(tmp_path / "out", tables(images, budget=120), log_answers=False)
    (alone,) = run(tmp_path / "alone", tables(images, budget=120), log_answers=False)
    assert [row.queries for row in second.rows] == [row.queries for row in alone.rows]
    for before, after, fresh in zip(first.rows, second.rows, alone.rows, strict=True):
        went_on = before.end is End.BUDGET
        assert after.sent == fresh.sent + (before.sent if went_on else 0)
    with Store(tmp_path / "out") as store:
        assert store.logged(store.runs()[0].id) == (0, 0)


def test_an_image_that_changed_starts_anew(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for color in ((90, 120, 150), (91, 120, 150)):
        Picture.new("RGB", (4, 4), color).save(folder / "a.bmp")  # as many bytes, so the same run
        told = Told()
        said = tables(folder, budget=20 if color[0] == 90 else 60, eps=0.01)
        (finished,) = run(tmp_path / "out", said, report=told)
    assert "a.bmp is not the image it was: its attack starts anew" in told.messages
    assert finished.rows[0].sent > finished.rows[0].queries


def test_targeted_runs_take_the_classes_of_the_set(tmp_path: Path) -> None:
    images = np.load(image_file(tmp_path, 4))["images"]
    labels = Tanh(0)(torch.from_numpy(images).permute(0, 3, 1, 2).double() / 255).argmax(1).numpy()
    np.savez(tmp_path / "t.npz", images=images, labels=labels, target_labels=(labels + 1) % 4)
    (finished,) = run(tmp_path / "out", tables(tmp_path / "t.npz", targeted=True, eps=1.0, budget=200))
    assert any(row.success for row in finished.rows)
    for row in finished.rows:
        assert row.target_label == (row.label + 1) % 4
        assert not row.success or row.predicted == row.target_label


def test_a_wish_to_stop_is_met_after_the_round(tmp_path: Path, rows: Path) -> None:
    said = tables(image_file(tmp_path, 8))
    interrupt, told = Interrupt(), Told()
    told.progressed = lambda snapshot: setattr(interrupt, "wanted", snapshot.queries > 60)  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        run(tmp_path / "out", said, report=told, interrupt=interrupt)
    with Store(tmp_path / "out") as store:
        (session,) = store.sessions()
        assert session.ended is not None
        assert session.holds == 0
        assert session.queries == sum(rows_seen(rows).values())
    (finished,) = run(tmp_path / "out", said)
    asked = rows_seen(rows)
    rows.unlink()
    (whole,) = run(tmp_path / "whole", said)
    assert [row.queries for row in finished.rows] == [row.queries for row in whole.rows]
    assert asked == rows_seen(rows)


def test_two_wishes_to_stop_are_met_at_once() -> None:
    import signal

    wishes, before = [], signal.getsignal(signal.SIGINT)
    with interruptible(lambda: wishes.append(1)) as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert interrupt.wanted
        assert wishes == [1]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_what_reporters_tell(tmp_path: Path) -> None:
    text, events = io.StringIO(), io.StringIO()
    both = Several([Lines(text, every=0.0), JsonLines(events, every=0.0)])
    run(tmp_path / "out", tables(image_file(tmp_path, 3), budget=20), report=both)
    lines = text.getvalue().splitlines()
    assert lines[0].endswith("0 of 3 images done")
    assert "attacked as what the target itself takes it for" in lines[1]  # the file has no labels
    assert "queries/s, target busy" in lines[2]
    assert "fooled (ASR" in lines[-1]
    told = [json.loads(line) for line in events.getvalue().splitlines()]
    assert [event["event"] for event in told if event["event"] != "progress"] == [
        "began", "message", *3 * ["image"], "finished",
    ]  # fmt: skip
    assert told[-1]["n"] == 3
    progress = [event for event in told if event["event"] == "progress"]
    assert progress[-1]["done"] == 3
    assert 0 < progress[-1]["busy"] <= progress[-1]["seconds"]


NOTHING = Snapshot(run="r", title="A [/b] [ours]", total=5)


def test_snapshots_before_anything_happened() -> None:
    assert str(NOTHING) == "0/5 images, – fooled, 0 queries/s, target busy 0%, – left"
    assert [duration(s) for s in (42, 150, 7200)] == ["42 s", "2 min", "2.0 h"]


def test_brackets_in_a_title_are_shown_beside_its_bar() -> None:
    terminal = io.StringIO()
    bars = RichBars(Console(file=terminal, force_terminal=True, width=120))
    bars.began(NOTHING)
    bars.close()
    assert "A [/b] [ours]" in terminal.getvalue()


def test_an_unknown_engine_is_named() -> None:
    with pytest.raises(InputError, match="did you mean 'local'"):
        make_engine("lokal")


def test_another_file_of_weights_is_another_run(tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"
    digests = []
    for content in (b"one", b"other", b"one"):
        file.write_bytes(content)
        weights_digest.cache_clear()
        digests.append(weights_digest(f"jpeg:75+onnx:{file}"))
    assert digests[0] == digests[2] != digests[1]
    assert weights_digest("torch:tests.victims:target") is None
    with pytest.raises(InputError, match="cannot read what"):
        weights_digest(f"onnx:{tmp_path}/none.onnx")


def test_the_runs_of_an_experiment_are_its_cells_as_it_says_them(tmp_path: Path, rows: Path) -> None:
    images = image_file(tmp_path, 4)
    said = {**tables(images), "method": [{"name": "rgf", "title": "A", "q": 4}, {"name": "nes", "title": "B", "q": 4}]}
    run(tmp_path / "out", said)
    file = tmp_path / "part.toml"
    words = "\n".join(
        f"{word} = {json.dumps(value)}" for word, value in said.items() if word not in ("images", "method")
    )
    file.write_text(
        f"{words}\nimages = {{ path = {json.dumps(str(images))}, count = 2 }}\n"
        '[[method]]\nname = "rgf"\ntitle = "never run"\nq = 7\n[[method]]\nname = "nes"\ntitle = "mine"\nq = 4\n'
    )
    with Store(tmp_path / "out") as store:
        assert [one.title for one in runs_of(store)] == ["A", "B"]
        (mine,) = runs_of(store, file)
        assert (mine.id, mine.title, mine.count) == (store.runs()[1].id, "mine", 2)
        (group,) = gather(store, experiment=file).tables[0].groups
        assert [(entry.method, len(entry.counted.rows)) for entry in group.entries] == [("mine", 2)]
        file.write_text(file.read_text().replace("q = 4", "q = 8"))
        with pytest.raises(InputError, match=r"has nothing of .*part\.toml: `dowse run"):
            runs_of(store, file)
