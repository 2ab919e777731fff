"""Seeded runs give the numbers they gave before."""

import json

import pytest

from tests.golden.traces import FILE, VARIANTS, trace

REMEDY = (
    "This trace changed. If that was not meant, it is a bug. If it was, run `python -m tests.golden.traces` and give "
    "the reason in CHANGELOG.md: every user's seeded results change with it."
)


@pytest.fixture(scope="module")
def golden() -> dict[str, list]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def same(got, expected) -> bool:
    """Equal up to rounding that another processor may do otherwise."""
    if isinstance(expected, dict):
        return got.keys() == expected.keys() and all(same(got[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(got) == len(expected) and all(map(same, got, expected))
    return got == pytest.approx(expected, rel=1e-7, abs=1e-9) if isinstance(expected, float) else got == expected


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("title", VARIANTS)
def test_golden(title, norm, golden):
    name = f"{title}, {norm}"
    assert name in golden, f"{name} has no golden trace yet: run `python -m tests.golden.traces`"
    got = trace(title, norm)
    assert same(got, golden[name]), f"{REMEDY}\ngot      {got}\nexpected {golden[name]}"


def test_no_trace_is_of_a_method_that_is_gone(golden):
    assert set(golden) == {f"{title}, {norm}" for title in VARIANTS for norm in ("l2", "linf")}
