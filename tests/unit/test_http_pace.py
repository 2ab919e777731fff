"""When requests go out: waits between attempts, Retry-After, and the rate limit; all with made-up clocks."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dowse.targets.http.pacing import Backoff, Failure, RateLimit, read_retry_after

PASSING = Failure("busy", transient=True)


@given(st.integers(0, 8), st.floats(0.01, 10), st.floats(0.01, 100), st.floats(0, 1, exclude_max=True))
def test_waits_grow_are_bounded_and_end(retries: int, first: float, longest: float, draw: float) -> None:
    backoff = Backoff(retries, first, longest)
    waits = [backoff.wait(failures, PASSING, lambda: draw) for failures in range(1, retries + 3)]
    assert waits[retries:] == [None, None]
    real = [wait for wait in waits[:retries] if wait is not None]
    assert len(real) == retries
    assert real == sorted(real)
    for i, wait in enumerate(real):
        full = min(longest, first * 2**i)
        assert full / 2 <= wait <= full


def test_only_what_passes_is_tried_again() -> None:
    assert Backoff().wait(1, Failure("HTTP 400", status=400), lambda: 0.0) is None


def test_a_server_is_given_the_time_it_asks_for_within_reason() -> None:
    backoff = Backoff(5, first=0.5, longest=60)
    assert backoff.wait(1, Failure("429", transient=True, retry_after=7), lambda: 0.0) == 7
    assert backoff.wait(1, Failure("429", transient=True, retry_after=0), lambda: 0.0) == 0.25
    assert backoff.wait(1, Failure("429", transient=True, retry_after=61), lambda: 0.0) is None


def test_retry_after_is_seconds_or_a_date() -> None:
    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    assert read_retry_after("7") == 7
    assert read_retry_after("1.5") == 1.5
    assert read_retry_after("-3") == 0
    assert read_retry_after("Thu, 01 Jan 2026 12:00:30 GMT", now) == 30
    assert read_retry_after("Thu, 01 Jan 2026 11:00:30 GMT", now) == 0
    for nothing in (None, "soon", "", "nan", "inf"):
        assert read_retry_after(nothing) is None


@given(
    st.floats(0.1, 1000),
    st.lists(st.tuples(st.integers(1, 64), st.floats(0, 10)), min_size=1, max_size=20),
)
def test_rows_never_go_faster_than_the_rate(rate: float, requests: list[tuple[int, float]]) -> None:
    """Between two requests lie the seconds that the rows from the first on, up to the second, take at that rate."""
    now = 0.0
    limit = RateLimit(rate, lambda: now)
    starts = []
    for rows, idle in requests:
        now += idle
        wait = limit.reserve(rows)
        assert wait >= 0
        now += wait
        starts.append((now, rows))
    for i, (begin, _) in enumerate(starts):
        for j in range(i + 1, len(starts)):
            between = sum(rows for _, rows in starts[i:j])
            assert starts[j][0] - begin >= between / rate * (1 - 1e-9)


def test_threads_that_ask_at_once_queue_up() -> None:
    limit = RateLimit(10, lambda: 0.0)
    assert [limit.reserve(5) for _ in range(4)] == pytest.approx([0, 0.5, 1, 1.5])


def test_no_rate_is_no_wait_and_a_hold_is_one_for_all() -> None:
    limit = RateLimit(None, lambda: 3.0)
    assert [limit.reserve(1000) for _ in range(3)] == [0, 0, 0]
    limit.hold(7)
    assert [limit.reserve(1) for _ in range(2)] == [7, 7]
