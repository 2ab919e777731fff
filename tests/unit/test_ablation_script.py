"""experiments/ablation.py: every variant takes out what it says, and a table says what that costs."""

import json
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest

from dowse.attacks import arms
from dowse.attacks.dowse import Dowse
from tests.scripts import experiment_script


@pytest.fixture(scope="module")
def ablation() -> ModuleType:
    return experiment_script("ablation")


def test_every_variant_changes_something_that_is_there(ablation: ModuleType) -> None:
    for title, variant in ablation.VARIANTS.items():
        assert bool(variant.options or variant.instead) == (title != "all of it")
        Dowse(**variant.options)
        with ExitStack() as patches:
            for where, what in variant.instead.items():
                patches.enter_context(patch(where, what))  # raises where there is no such name


@pytest.mark.parametrize("arm", arms.ARMS)
def test_an_attack_without_an_arm_has_all_others(ablation: ModuleType, arm: str) -> None:
    whole = arms.Arms.fresh(True, "linf", -1.0, 4).gain
    with patch(*next(iter(ablation.without(arm).instead.items()))):
        assert arms.Arms.fresh(True, "linf", -1.0, 4).gain.keys() == whole.keys() - {arm}
    assert arms.Arms.fresh(True, "linf", -1.0, 4).gain == whole


def test_a_part_is_left_out_only_where_it_takes_part(ablation: ModuleType) -> None:
    alone, helped = ablation.SETTINGS["ResNet-20 alone, l2 1.2"], ablation.SETTINGS["MobileNetV2, l2 1.2"]
    assert not ablation.applies("no views", alone)
    assert not ablation.applies("no slope", alone)
    assert ablation.applies("no views", helped)
    assert not ablation.applies("no slope", helped)


def test_a_table_has_means_of_the_whole_and_ratios_of_the_rest(ablation: ModuleType) -> None:
    found = {"MobileNetV2, l2 1.2": {"all of it": [2, 4, 6, 150], "no views": [4, 8, 12, 150]}}
    heads, _, *rows = ablation.lines(found)
    assert heads == "|  | MobileNetV2, l2 1.2 |"
    assert rows[0] == "| all of it | 40.5, 75% (4 images) |"
    assert rows[1].startswith("| no views | 1.07 ± ")
    assert rows[1].endswith(", 75% |")
    assert rows[2] == "| climbs' gradients not soft | – |"


def test_what_the_file_holds_is_not_run_again(ablation: ModuleType, tmp_path: Path) -> None:
    found = {
        name: {title: [2] for title in ablation.VARIANTS if ablation.applies(title, setting)}
        for name, setting in ablation.SETTINGS.items()
    }
    file = tmp_path / "ablation.json"
    file.write_text(json.dumps(found))
    assert ablation.run(file, "", "") == found
