"""Killed at any moment, any number of times: rows come out as if nothing had happened, and nothing is paid twice."""

import itertools
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dowse.core.outcome import End
from dowse.store import Store
from tests.crews import rows_sent
from tests.support import Tanh
from tests.v2server import serving
from tests.victims import Victims, calls_seen, image_file, rows_seen, tables, victims

KILLS = 28
MOMENTS = (
    "at any time",
    "in the target",
    "before a commit",
    "after a commit",
    "inside a transaction",
    "after a claim",
    "before a row",
    "after an image file",
)
NOT_COMPARED = ("task", "seconds", "finished", "session")
NOR_AFTER_KILLS = (*NOT_COMPARED, "sent")  # it counts what was in flight, too


def everything(
    folder: Path, *, but: tuple[str, ...] = NOT_COMPARED
) -> list[tuple[dict[str, Any], bytes | None, dict[str, Any]]]:
    """All rows of a store with their images and traces, without what a clock tells."""
    with Store(folder) as store:
        found = []
        for row in store.rows():
            image = store.adversarial(row)
            values = {name: value for name, value in vars(row).items() if name not in but}
            found.append((values, None if image is None else image.numpy().tobytes(), store.trace(row.task)))
        return found


def wait_for_lines(path: Path, lines: int, pid: int) -> None:
    """Wait until the target was called so often, or the process is gone."""
    while len(calls_seen(path)) < lines and Path(f"/proc/{pid}").exists():
        time.sleep(0.001)


@pytest.mark.parametrize("stochastic", [False, True])
def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(
    tmp_path: Path, server: Victims, stochastic: bool
) -> None:
    said = tables(image_file(tmp_path, 24), **({"target": "torch:tests.victims:noisy"} if stochastic else {}))
    whole, whole_rows = tmp_path / "whole", tmp_path / "whole.rows"
    server.start(said, str(whole), str(whole_rows), "never", 0)
    assert server.wait() == 0
    rounds = len(calls_seen(whole_rows))

    rng = random.Random(7 + stochastic)
    broken, broken_rows = tmp_path / "broken", tmp_path / "broken.rows"
    killed: dict[int, str] = {}
    while len(killed) < KILLS:
        moment = MOMENTS[len(killed) % len(MOMENTS)]
        rare = moment in ("before a row", "after an image file", "after a claim")
        number = 0 if rare else rng.randrange(1, rounds // KILLS)
        before = len(calls_seen(broken_rows))
        pid = server.start(said, str(broken), str(broken_rows), moment, number)
        if moment == "at any time":
            wait_for_lines(broken_rows, before + number, pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        status = server.wait()
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed[pid] = moment
        assert moment == "after a claim" or rows_sent(broken) >= rows_seen(broken_rows).total(), moment
    server.start(said, str(broken), str(broken_rows), "never", 0)
    assert server.wait() == 0

    assert len(killed) >= 20, f"only {len(killed)} kills before the run was done: {rounds} rounds are too few"
    assert everything(broken, but=NOR_AFTER_KILLS) == everything(whole, but=NOR_AFTER_KILLS)
    assert rows_sent(whole) == rows_seen(whole_rows).total()
    largest = max(len(rows) for _, rows in calls_seen(broken_rows))
    assert 0 <= rows_sent(broken) - rows_seen(broken_rows).total() <= len(killed) * largest
    ends = Counter(row["end"] for row, _, _ in everything(whole))
    assert ends[End.ADVERSARIAL] >= 3
    assert ends[End.BUDGET] >= 3

    missing = rows_seen(whole_rows) - rows_seen(broken_rows)
    assert not missing
    twice = rows_seen(broken_rows) - rows_seen(whole_rows)
    last_call = {pid: rows for pid, rows in calls_seen(broken_rows) if pid in killed}
    in_flight = Counter(row for rows in last_call.values() for row in rows)
    assert twice <= in_flight, "a row was asked about twice that was not in the round in flight"
    print(  # noqa: T201 shown with -s
        f"{len(killed)} kills in {rounds} rounds of {sum(rows_seen(whole_rows).values())} rows: "
        f"{sum(twice.values())} rows asked twice, {sum(in_flight.values())} were in flight; ends {dict(ends)}"
    )


def test_a_server_never_receives_more_rows_than_are_counted_as_sent(tmp_path: Path, server: Victims) -> None:
    """Killed while a request is under way for the third time, the server's own count is no more than the store's."""
    victim: list[int] = []
    answers = itertools.count(1)

    def kill() -> None:
        if next(answers) == 6:
            os.kill(victim[0], signal.SIGKILL)

    script = [*["ok"] * 5, "500", "500"]
    out, rows = tmp_path / "out", str(tmp_path / "rows")
    with serving(Tanh(0), script, before_answer=kill, datatype="FP64") as served:
        said = tables(image_file(tmp_path, 4), target=f"{served.url}#rows=3&connections=1")
        victim.append(server.start(said, str(out), rows, "never", 0))
        assert server.wait() == -signal.SIGKILL
        assert 0 <= rows_sent(out) - served.rows_seen <= 4 * 10, "more than a round was in flight"
        server.start(said, str(out), rows, "never", 0)
        assert server.wait() == 0
        assert 0 <= rows_sent(out) - served.rows_seen <= 4 * 10, "more than a round was in flight"
        with Store(out) as store:
            answered = sum(row.queries for row in store.rows())
        assert rows_sent(out) >= answered + 3 * 3, "a request of three rows went three times"


def test_an_image_is_sent_no_more_than_its_budget_and_what_was_in_flight_at_kills(
    tmp_path: Path, server: Victims
) -> None:
    budget, largest_question, at_a_time = 40, 10, 4
    said = tables(image_file(tmp_path, 8), budget=budget, concurrency=at_a_time, eps=0.05)
    out, rows = tmp_path / "out", tmp_path / "rows"
    for number in (2, 5, 9):
        server.start(said, str(out), str(rows), "in the target", number)
        assert server.wait() == -signal.SIGKILL
    server.start(said, str(out), str(rows), "never", 0)
    assert server.wait() == 0
    with Store(out) as store:
        found = list(store.rows())
    assert max(row.queries for row in found) > budget - largest_question, "no image came near its budget"
    assert all(row.queries <= budget for row in found)
    assert all(row.sent <= budget + 3 * largest_question for row in found)
    in_flight = sum(row.sent - row.queries for row in found)
    assert 0 < in_flight <= 3 * at_a_time * largest_question
    assert rows_sent(out) == rows_seen(rows).total(), "each of the rounds in flight was received"


def test_a_larger_budget_goes_on_where_each_image_stopped(tmp_path: Path, server: Victims) -> None:
    images = image_file(tmp_path)
    whole, part = tmp_path / "whole", tmp_path / "part"
    server.start(tables(images, budget=120), str(whole), str(tmp_path / "whole.rows"), "never", 0)
    assert server.wait() == 0
    for budget in (30, 70, 120):
        server.start(tables(images, budget=budget), str(part), str(tmp_path / "part.rows"), "never", 0)
        assert server.wait() == 0
    assert everything(part) == everything(whole)
    assert rows_seen(tmp_path / "part.rows") == rows_seen(tmp_path / "whole.rows")


def test_two_processes_share_the_work_of_one_store(tmp_path: Path, server: Victims) -> None:
    said = tables(image_file(tmp_path, 16))
    rows = {name: tmp_path / f"{name}.rows" for name in ("whole", "shared")}
    server.start(said, str(tmp_path / "whole"), str(rows["whole"]), "never", 0)
    assert server.wait() == 0
    with victims() as other:
        both = (other, server)
        pids = [one.start(said, str(tmp_path / "shared"), str(rows["shared"]), "never", 0) for one in both]
        assert [one.wait() for one in both] == [0, 0]
    assert everything(tmp_path / "shared") == everything(tmp_path / "whole")
    assert rows_seen(rows["shared"]) == rows_seen(rows["whole"])
    assert {pid for pid, _ in calls_seen(rows["shared"])} <= set(pids)


def test_what_a_killed_process_had_claimed_is_taken_over_by_another(tmp_path: Path, server: Victims) -> None:
    said = tables(image_file(tmp_path, 6))
    out, rows = tmp_path / "out", tmp_path / "rows"
    server.start(said, str(out), str(rows), "before a commit", 9)
    assert server.wait() == -signal.SIGKILL
    with Store(out) as store:
        (dead,) = store.sessions()
        assert dead.holds == 4
        assert not dead.alive
        assert dead.ended is None
    server.start(said, str(out), str(rows), "never", 0)
    assert server.wait() == 0
    with Store(out) as store:
        assert [row.position for row in store.rows()] == list(range(6))
        assert all(session.holds == 0 for session in store.sessions())
