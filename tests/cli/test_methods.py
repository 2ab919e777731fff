"""`dowse methods`: the table has every method, an explanation every option, and a wrong name a hint."""

import pytest
from typer.testing import CliRunner

from dowse.attacks.registry import METHODS
from dowse.cli import app
from dowse.cli.catalogue import about, option_docs

WIDE = {"COLUMNS": "240", "TERM": "dumb", "NO_COLOR": "1"}


def dowse(*words):
    return CliRunner().invoke(app, ["methods", *words], env=WIDE)


def test_the_table_lists_every_method_with_what_it_needs_and_costs():
    result = dowse()
    assert result.exit_code == 0
    lines = result.output.splitlines()
    for word in ("name", "paper", "surrogate", "norms", "targeted", "queries an iteration"):
        assert word in lines[1]
    for method in METHODS.values():
        (line,) = (line for line in lines if line.startswith(f"│ {method.name} "))
        assert method.paper in line
        assert method.cost in line
        assert "l2, linf" in line


def test_a_narrow_terminal_cuts_no_word_off():
    result = CliRunner().invoke(app, ["methods"], env={**WIDE, "COLUMNS": "80"})
    assert "coordinates" in result.output
    assert "…" not in result.output


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_an_explanation_has_every_option_its_default_and_its_meaning(method):
    result = dowse(method.name)
    assert result.exit_code == 0
    assert method.paper in result.output
    assert f"loss: {method.loss}" in result.output
    rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in result.output.splitlines() if "│" in line]
    shown = {option: default for option, default, _ in rows if option}
    assert shown == {option: str(default) for option, default in method.options().items()}
    assert "norm" not in shown
    assert all(words for _, _, words in rows)


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_every_option_is_documented_where_it_is_defined(method):
    said = option_docs(method)
    assert set(method.options()) <= set(said)
    assert all(len(said[option]) > 10 and said[option].endswith(".") for option in method.options())
    assert "Attributes" not in about(method)


def test_docstrings_are_gathered_from_base_classes_and_over_several_lines():
    class Base:
        """One.

        Attributes:
            a: First.
            b: Second
                goes on.
        """

    class Derived(Base):
        """Two.

        Attributes:
            b: Replaced.
        """

    assert option_docs(Derived) == {"a": "First.", "b": "Replaced."}
    assert option_docs(Base)["b"] == "Second goes on."
    assert about(Derived) == "Two."


@pytest.mark.parametrize(("wrong", "right"), [("bandit", "bandits"), ("autozom", "autozoom"), ("RGF", "rgf")])
def test_a_wrong_name_is_refused_with_the_nearest_one(wrong, right):
    result = dowse(wrong)
    assert result.exit_code == 2
    assert right in result.output
