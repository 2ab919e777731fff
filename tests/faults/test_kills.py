"""Kills at random moments on a network of convolutions in float32: the short form of `python -m tests.faults.kills`."""

from pathlib import Path

import pytest

from tests.faults.kills import SMALL, Found, find
from tests.victims import Victims


def check(found: Found, kills: int) -> None:
    assert found.kills == kills
    assert (found.differing, found.restarted, found.over_budget) == (0, 0, 0)
    assert found.asked_twice <= found.in_flight
    assert found.surplus >= 0
    assert found.least_surplus >= 0
    assert found.surplus == found.in_flight - found.asked_twice, "sent is what was received, and what was in flight"


@pytest.mark.parametrize("engine", ["local", "http"])
def test_a_runner_killed_a_few_times(engine: str, server: Victims, tmp_path: Path) -> None:
    check(find(server, engine, SMALL, tmp_path, 5), 5)


@pytest.mark.slow
def test_workers_and_runners_killed_a_few_times(server: Victims, tmp_path: Path) -> None:
    check(find(server, "processes", SMALL, tmp_path, 4), 4)


@pytest.mark.cluster
def test_ray_workers_and_runners_killed_a_few_times(server: Victims, tmp_path: Path) -> None:
    check(find(server, "ray", SMALL, tmp_path, 4), 4)
