"""Seeded runs give the numbers they gave before."""

import json

import pytest

from tests.golden.traces import FILE, VARIANTS, trace
from tests.rounding import another_processor

REMEDY = (
    "This trace changed. If that was not meant, it is a bug. If it was, run `python -m tests.golden.traces` and give "
    "the reason in CHANGELOG.md: every user's seeded results change with it."
)


@pytest.fixture(scope="module")
def golden() -> dict[str, list]:
    return json.loads(FILE.read_text(encoding="utf-8"))


norms = pytest.mark.parametrize("norm", ["l2", "linf"])
variants = pytest.mark.parametrize("title", VARIANTS)


def same(got, expected) -> bool:
    """Equal up to rounding that another processor may do otherwise."""
    if isinstance(expected, dict):
        return got.keys() == expected.keys() and all(same(got[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(got) == len(expected) and all(map(same, got, expected))
    return got == pytest.approx(expected, rel=1e-7, abs=1e-9) if isinstance(expected, float) else got == expected


@norms
@variants
def test_golden(title, norm, golden):
    name = f"{title}, {norm}"
    assert name in golden, f"{name} has no golden trace yet: run `python -m tests.golden.traces`"
    got = trace(title, norm)
    assert same(got, golden[name]), f"{REMEDY}\ngot      {got}\nexpected {golden[name]}"


@norms
@variants
def test_no_decision_hangs_on_the_last_bits(title, norm, golden):
    """The trace is the same where every score and every matrix product is off by more than any processor's rounding."""
    with another_processor(ulps=64):
        got = trace(title, norm, shaken=True)
    assert same(got, golden[f"{title}, {norm}"]), f"got      {got}\nexpected {golden[f'{title}, {norm}']}"


def test_no_trace_is_of_a_method_that_is_gone(golden):
    assert set(golden) == {f"{title}, {norm}" for title in VARIANTS for norm in ("l2", "linf")}
