"""What a run tells while it goes, and while it stands still."""

import io
import json
from typing import Any

import pytest

from dowse.running.progress import STILL, JsonLines, Lines, Snapshot

MOVING = Snapshot(run="id", title="rgf", total=10, done=4, fooled=2, here=4, queries=400, busy=5.0, seconds=10.0)


def still(silent: float) -> Snapshot:
    from dataclasses import replace

    return replace(MOVING, seconds=10.0 + silent, silent=silent)


def test_a_run_that_moves_says_its_speed_and_its_end() -> None:
    assert str(MOVING) == "4/10 images, 50.0% fooled, 40 queries/s, target busy 50%, 15 s left"
    assert MOVING.left == pytest.approx(15.0)


def test_a_run_that_stands_still_says_so_and_promises_nothing() -> None:
    assert str(still(STILL)) == "4/10 images, 50.0% fooled, no answer for 20 s"
    assert str(still(300.0)) == "4/10 images, 50.0% fooled, no answer for 5 min"
    assert still(STILL).left is None
    assert "left" in str(still(STILL - 1))


def test_both_are_told_to_people_and_to_programs() -> None:
    lines, events = io.StringIO(), io.StringIO()
    for reporter in (Lines(lines, every=0.0), JsonLines(events, every=0.0)):
        reporter.progressed(still(60.0))
    assert lines.getvalue() == "rgf: 4/10 images, 50.0% fooled, no answer for 60 s\n"
    told: dict[str, Any] = json.loads(events.getvalue())
    assert (told["silent"], told["left"]) == (60.0, None)
