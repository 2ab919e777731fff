"""`dowse run`, `attack`, `status` and `rows`, as a person and as a program use them."""

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import nn
from typer.testing import CliRunner, Result

from dowse.cli import app
from dowse.core.outcome import End
from dowse.store import Store, StoreWriter
from tests.stores import CELL, Made, make_store
from tests.victims import PROJECT, ROWS, SURROGATE, TARGET, image_file, rows_seen, target

TOML = """
target = "{target}"
surrogate = "{surrogate}"
dtype = "float64"
eps = 0.12
budget = {budget}
images = "{images}"
concurrency = 4
[[method]]
name = "prgf"
q = 5
[[method]]
name = "rgf"
q = [3, 4]
"""


def dowse(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def passed(*arguments: object) -> str:
    result = dowse(*arguments)
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.output


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ROWS, str(tmp_path / "rows"))
    monkeypatch.setenv("COLUMNS", "200")
    return written(tmp_path)


def written(folder: Path, budget: int = 30, n: int = 3, more: str = "") -> Path:
    path = folder / "test.toml"
    said = {"target": TARGET, "surrogate": SURROGATE, "images": image_file(folder, n), "budget": budget}
    path.write_text(TOML.format(**said) + more)
    return path


def test_run_then_status_then_rows(tmp_path: Path, file: Path) -> None:
    out = tmp_path / "out"
    told = passed("run", file, "--out", out)
    assert "prgf q=5" in told
    assert "AVG. Q over successes" in told

    status = json.loads(passed("status", out, "--json"))
    assert [(run["done"], run["images"]) for run in status["runs"]] == [(3, 3)] * 3
    assert status["working"] == []
    shown = passed("status", out)
    assert "3/3" in shown
    assert "nobody is at work" in shown

    found = json.loads(passed("rows", out, "--format", "json"))
    assert len(found) == 9
    assert {row["title"] for row in found} == {"prgf q=5", "rgf q=3", "rgf q=4"}
    table = list(csv.DictReader(io.StringIO(passed("rows", out, "--format", "csv"))))
    assert [row["queries"] for row in table] == [str(row["queries"]) for row in found]
    assert {row["target"] for row in table} == {TARGET}
    run = found[0]["run"]
    assert len(json.loads(passed("rows", out, "--format", "json", "--run", run[:6]))) == 3
    unknown = dowse("rows", out, "--run", "xyz")
    assert unknown.exit_code == 2
    assert "begins with 'xyz'" in unknown.stderr
    assert f"{run} (prgf q=5)" in unknown.stderr


def test_detected_queries_are_told_everywhere(tmp_path: Path, file: Path) -> None:
    out, guard = tmp_path / "out", "blacklight:window=3,threshold=16"
    file.write_text(
        f'''target = "{TARGET}"\ndefence = "{guard}"\nimages = "{image_file(tmp_path, 3)}"\ndtype = "float64"
        budget = 20\nmethod = {{name = "nes", q = 6}}'''
    )
    said = passed("run", file, "--out", out)
    assert "3 detected after 2.0 queries on average" in " ".join(said.split())
    found = json.loads(passed("rows", out, "--format", "json"))
    assert [(row["end"], row["queries"], row["refused"], row["queries_until_detected"], row["refused_share"])
            for row in found] == [("detected", 2, 1, 2, 0.5)] * 3  # fmt: skip
    (line,) = csv.DictReader(io.StringIO(passed("report", out, "--format", "csv")))
    assert (line["detected"], float(line["queries_until_detected"]), float(line["coverage"])) == ("3", 2.0, 0.5)
    page = Path(out, "report.html")
    passed("report", out, "--out", page)
    assert "Queries until detected" in page.read_text()
    assert End.DETECTED.sentence in page.read_text()


def test_a_misspelt_option_of_a_detector_is_refused_before_any_query(tmp_path: Path, file: Path) -> None:
    words = ("--images", image_file(tmp_path, 2), "--method", "square", "--out", tmp_path / "out")
    refused = dowse("attack", "--target", f"blacklight:treshold=3+{TARGET}", *words)
    assert refused.exit_code == 2
    assert "did you mean 'threshold'?" in " ".join(refused.stderr.split())
    assert not rows_seen(tmp_path / "rows")


def test_rows_of_a_store_without_any_have_a_header(tmp_path: Path) -> None:
    StoreWriter(tmp_path).close()
    assert passed("rows", tmp_path).startswith("run,title,target,")
    assert passed("rows", tmp_path, "--format", "json") == "[]\n"


def test_rows_as_json_have_a_word_for_what_is_infinite(tmp_path: Path) -> None:
    cell = replace(CELL, options={"bounds": [float("inf")]})
    make_store(tmp_path, [Made("P-RGF", [3], cell)])
    with StoreWriter(tmp_path) as store:
        store._database.execute("UPDATE rows SET loss = 9e999")
    text = passed("rows", tmp_path, "--format", "json")
    assert "Infinity" not in text
    (row,) = json.loads(text)
    assert (row["loss"], row["options"]["bounds"]) == ("inf", ["inf"])


def test_brackets_in_a_title_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dowse.cli.dryrun.SECONDS", 0.01)
    title = "P-RGF [ours] [/b]"
    file = written(tmp_path, n=1, more=f'title = "{title}"\n')
    for command in (("run", file, "--dry-run"), ("run", file), ("status",)):
        assert title in passed(*command, *(() if command == ("status",) else ("--out",)), tmp_path / "out")


def test_images_that_the_target_failed_on_are_not_done(tmp_path: Path) -> None:
    ends = [End.ADVERSARIAL, End.TARGET_FAILED, End.BUDGET]
    make_store(tmp_path, [Made("P-RGF", [3, 4, None], ends=ends, cause="OSError: gone")])
    (run,) = json.loads(passed("status", tmp_path, "--json"))["runs"]
    assert (run["done"], run["images"], run["failed"], run["success_rate"]) == (2, 3, 1, 0.5)
    assert run["queries"] == 3 + 4 + 1000
    assert "the target failed on 1 images" in passed("status", tmp_path)


def test_events_for_programs(tmp_path: Path, file: Path) -> None:
    events = [json.loads(line) for line in passed("run", file, "--out", tmp_path / "out", "--json").splitlines()]
    assert sum(event["event"] == "image" for event in events) == 9
    assert [event["title"] for event in events if event["event"] == "finished"] == ["prgf q=5", "rgf q=3", "rgf q=4"]
    assert passed("run", file, "--out", tmp_path / "out", "--quiet") == ""


def test_a_dry_run_says_what_it_would_cost_and_asks_for_nothing_else(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dowse.cli.dryrun.SECONDS", 0.05)
    plan = json.loads(
        passed("run", file, "--out", tmp_path / "out", "--dry-run", "--json", "--images", 2, "--budget", 10)
    )
    assert [(run["images"], run["budget"], run["queries"]) for run in plan["runs"]] == [(2, 10, 20)] * 3
    assert plan["queries"] == 60
    assert plan["seconds"] == pytest.approx(60 / plan["rows_per_second"][TARGET])
    assert not (tmp_path / "out").exists()
    passed("run", file, "--out", tmp_path / "out", "--images", 2, "--budget", 10, "--quiet")
    plan = json.loads(passed("run", file, "--out", tmp_path / "out", "--dry-run", "--json", "--budget", 10))
    assert [(run["done"], run["queries"]) for run in plan["runs"]] == [(2, 10)] * 3
    fewer = ("run", file, "--out", tmp_path / "out", "--dry-run", "--json", "--budget", 10, "--images", 1)
    assert [(run["done"], run["queries"]) for run in json.loads(passed(*fewer))["runs"]] == [(1, 0)] * 3
    shown = passed("run", file, "--out", tmp_path / "out", "--dry-run")
    assert re.search(r"3 runs, at most \d+ queries", shown)
    assert "rows a second" in shown


def with_softmax() -> nn.Module:
    return nn.Sequential(target(), nn.Softmax(1)).eval()


def test_a_softmax_said_to_be_logits_is_told_by_a_dry_run_and_before_a_run(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dowse.cli.dryrun.SECONDS", 0.05)
    file.write_text(file.read_text().replace(TARGET, "torch:tests.cli.test_run:with_softmax"))
    (note,) = [one for one in json.loads(passed("run", file, "--dry-run", "--json"))["notes"] if "outputs" in one]
    assert (
        "probabilities: none is negative, no row sums to more than 1, but outputs='logits'; say outputs='probs'" in note
    )
    (tmp_path / "rows").unlink()

    class HeardError(Exception):
        pass

    def stop(*said: Any) -> None:
        assert "its last step is a softmax" in said[0]
        raise HeardError

    monkeypatch.setattr("dowse.preflight.first_look.warn", stop)
    assert isinstance(dowse("run", file, "--out", tmp_path / "out").exception, HeardError)
    assert not (tmp_path / "rows").exists(), "before the first query"


def test_a_dry_run_without_images_or_target_says_what_it_can(tmp_path: Path) -> None:
    file = tmp_path / "far.toml"
    file.write_text(
        'target = "torchvision:vgg16"\nimages = {path = "nowhere", count = 7}\nmethod = "rgf"\nbudget = 10\n'
    )
    ended = dowse("run", file, "--dry-run", "--json")
    assert ended.exit_code == 2, "as a run of it"
    plan = json.loads(ended.stdout)
    assert plan["queries"] == 70
    assert plan["seconds"] is None
    assert "the images cannot be read" in plan["notes"][0]
    (refused,) = plan["refused"]
    assert refused.startswith("there are no images at nowhere")
    assert refused in ended.stderr

    file.write_text(file.read_text().replace(", count = 7", ""))
    ended = dowse("run", file, "--dry-run")
    assert ended.exit_code == 2
    assert "1 run, how many queries is not known" in ended.stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('defence = "jpg:75"', "no defence is named 'jpg': did you mean 'jpeg'?"),
        ('target = "torch:tests.cli.test_run:nothing"', "has no 'nothing'"),
    ],
)
def test_a_dry_run_ends_with_what_a_run_would_refuse(tmp_path: Path, file: Path, given: str, said: str) -> None:
    word = given.partition(" ")[0]
    kept = [line for line in file.read_text().splitlines() if not line.startswith(f"{word} ")]
    file.write_text("\n".join([given, *kept]))
    ended = dowse("run", file, "--out", tmp_path / "out", "--dry-run")
    assert ended.exit_code == 2
    assert said in ended.stderr


def test_attack_is_a_run_of_one_method_with_the_same_words(tmp_path: Path, file: Path) -> None:
    said = ["--target", TARGET, "--surrogate", SURROGATE, "--images", tmp_path / "images.npz", "--eps", 0.12]
    passed("run", file, "--out", tmp_path / "many", "--quiet")
    passed(
        "attack",
        *said,
        "--method",
        "prgf",
        "--budget",
        30,
        "--q",
        5,
        "--dtype",
        "float64",
        "--out",
        tmp_path / "one",
        "--quiet",
    )
    with Store(tmp_path / "one") as one, Store(tmp_path / "many") as many:
        assert one.runs()[0].id == many.runs()[0].id
        assert [row.queries for row in one.rows()] == [row.queries for row in many.rows(one.runs()[0].id)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--method", "prgf", "--lamda", "1"], "no option 'lamda': did you mean 'lam'?"),
        (["--method", "prg"], "did you mean 'prgf'?"),
        (["--q"], "--q needs a value"),
        (["20"], "write --20 VALUE"),
        (["--norm", "l3"], "got 'l3'"),
        (["--target", "resnet20"], "is not a target"),
        (["--images", "nowhere"], "there are no images at nowhere"),
        (["--save", "jpg"], "save='jpg' is unknown: did you mean 'png'?"),
        (["--engine", "lokal"], "did you mean 'local'?"),
    ],
)
def test_wrong_words_get_an_error_and_no_traceback(tmp_path: Path, file: Path, words: list[str], expected: str) -> None:
    base = [
        "--target",
        TARGET,
        "--surrogate",
        SURROGATE,
        "--images",
        tmp_path / "images.npz",
        "--out",
        tmp_path / "out",
    ]
    result = dowse("attack", *base, *words)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert expected in result.stderr
    assert not rows_seen(tmp_path / "rows")


def test_a_file_that_is_wrong(tmp_path: Path) -> None:
    file = written(tmp_path, more="subspase = 3\n")
    result = dowse("run", file)
    assert result.exit_code == 2
    assert "rgf has no option 'subspase': did you mean 'subspace'?" in result.stderr
    assert dowse("run", tmp_path / "none.toml").exit_code == 2


def test_no_store(tmp_path: Path) -> None:
    for command in ("status", "rows"):
        result = dowse(command, tmp_path)
        assert result.exit_code == 1
        assert "there is no store" in result.stderr


def test_ctrl_c_finishes_the_round_and_says_how_to_go_on(tmp_path: Path) -> None:
    file = written(tmp_path, budget=4000, n=8)
    file.write_text(file.read_text().replace("eps = 0.12", "eps = 0.001"))
    command = [sys.executable, "-m", "dowse", "run", str(file), "--out", str(tmp_path / "out")]
    environment = {**os.environ, ROWS: str(tmp_path / "rows"), "COLUMNS": "200"}
    running = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True)
    while sum(rows_seen(tmp_path / "rows").values()) < 50 and running.poll() is None:
        time.sleep(0.01)
    seen_elsewhere = json.loads(passed("status", tmp_path / "out", "--json"))
    running.send_signal(signal.SIGINT)
    told, _ = running.communicate()
    assert running.returncode == 130
    assert "finishing the round" in told
    resume = re.search(r"Go on with: (.*)", told)
    assert resume is not None
    assert shlex.split(resume[1]) == ["dowse", *command[3:]]
    (worker,) = seen_elsewhere["working"]
    assert 1 <= worker["images"] <= 4, "a slot may be between two images just then"
    with Store(tmp_path / "out") as store:
        (session,) = store.sessions()
        assert session.queries == sum(rows_seen(tmp_path / "rows").values())
        assert session.holds == 0
        assert session.command == ["dowse", *command[3:]]
        sent = {run.id: store.sent(run.id) for run in store.runs()}
    found = json.loads(passed("status", tmp_path / "out", "--json"))
    assert {run["run"]: run["sent"] for run in found["runs"]} == sent
    assert sum(sent.values()) == sum(rows_seen(tmp_path / "rows").values()), "rows of images that have not ended too"
    assert str(max(sent.values())) in passed("status", tmp_path / "out")


def event_files(folder: Path) -> list[Any]:
    return list(folder.rglob("events.out.tfevents.*"))


def test_tensorboard_is_an_extra(tmp_path: Path, file: Path) -> None:
    result = dowse("run", file, "--out", tmp_path / "out", "--tensorboard", "--quiet")
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        assert result.exit_code == 2
        assert "pip install 'dowse[tensorboard]'" in result.stderr
    else:
        assert result.exit_code == 0
        assert len(event_files(tmp_path / "out" / "tensorboard")) == 3
