"""`make test-matrix` itself: which settings it runs, what it says of them, and that it ends."""

import re
from pathlib import Path

import pytest

from tests import matrix

ONE_OF_EACH = """
import os
import pytest

def test_good():
    assert os.environ["OMP_NUM_THREADS"] == "2"

def test_bad():
    assert os.environ["OMP_NUM_THREADS"] == "1"

def test_skipped():
    pytest.skip("as the test of the matrix wants")
"""
ENDLESS = """
import time

def test_endless():
    time.sleep(600)
"""


def names(*said: str) -> list[str]:
    return [one.name for one in matrix.chosen(matrix.settings(0), said)]


def test_settings_are_chosen_by_the_beginning_of_their_names() -> None:
    assert names("rounding", "busy") == ["busy", "rounding-1", "rounding-2"]
    assert names() == [one.name for one in matrix.settings(0)]
    with pytest.raises(SystemExit, match="no setting is named avx3; there are: plain, sse4"):
        names("avx3", "busy")


def test_what_a_setting_says_is_not_left_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("SOMETHING_ELSE", "kept")
    told = matrix.environment_of(matrix.Setting("plain"))
    assert "MKL_CBWR" not in told
    assert (told["OMP_NUM_THREADS"], told["SOMETHING_ELSE"]) == ("1", "kept")


@pytest.mark.slow
def test_the_table_says_what_passed_and_what_did_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "flags", lambda: set())
    (tmp_path / "test_one_of_each.py").write_text(ONE_OF_EACH)
    assert matrix.main(["--only", "two-threads,avx512", str(tmp_path)]) == 1
    said = capfd.readouterr().out.splitlines()
    (line,) = [line for line in said if line.startswith("two-threads ")]
    assert line.split()[1:6] == ["1", "1", "(exit", "1)", "1"]
    assert any(line.startswith("avx512 ") and line.endswith("not run: no avx512f here") for line in said)
    # its folders stand in front where it and the checkout have a parent in common
    assert re.fullmatch(r"two-threads: ([\w.-]+\.)?test_one_of_each::test_bad", said[-1])


@pytest.mark.slow
def test_a_run_that_does_not_end_is_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_endless.py").write_text(ENDLESS)
    assert matrix.main(["--only", "no-workers", "--patience", "2", str(tmp_path)]) == 1
    assert "out of time" in capfd.readouterr().out


@pytest.mark.slow
def test_a_processor_that_is_played_is_seen_in_the_products_alone() -> None:
    plain, played = (matrix.probe(one) for one in matrix.chosen(matrix.settings(0), ["plain", "rounding-1"]))
    differ = {name for name in plain if plain[name] != played[name]}
    assert differ == {"product", "single product", "convolution", "single convolution"}
