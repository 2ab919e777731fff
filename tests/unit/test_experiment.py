"""Experiments: every word checked, lists that become grids, and ids that depend on the content alone."""

import re
from pathlib import Path
from typing import Any

import pytest

from dowse.attacks.registry import METHODS
from dowse.errors import InputError
from dowse.experiment.file import load_experiment, make_experiment
from dowse.experiment.grid import expand
from dowse.experiment.spec import RunSpec
from dowse.experiment.tables import GRID, Experiment

BASE: dict[str, Any] = {"target": "dowse:a", "surrogate": "dowse:s", "images": "x.npz", "method": "prgf"}


def made(**more: Any) -> Experiment:
    return make_experiment(BASE | more, source="test.toml")


def specs(**more: Any) -> list[RunSpec]:
    return [plan.spec for plan in expand(made(**more), lambda target: "images")]


def test_a_value_is_one_cell_and_lists_multiply() -> None:
    assert len(specs()) == 1
    grid = specs(target=["dowse:a", "dowse:b"], defence=["none", "jpeg:75"], norm=["l2", "linf"], seed=[1, 2, 3])
    assert len(grid) == 24
    assert len({spec.id for spec in grid}) == 24
    assert {spec.target for spec in grid} == {"dowse:a", "dowse:b", "jpeg:75+dowse:a", "jpeg:75+dowse:b"}


def test_lists_of_options_multiply_and_a_list_inside_a_list_is_one_value() -> None:
    grid = specs(method={"name": "prgf", "lam": [0.5, 0.05], "subspace": [2, [3, 4]]})
    assert [(spec.options["lam"], spec.options["subspace"]) for spec in grid] == [
        (0.5, 2), (0.5, (3, 4)), (0.05, 2), (0.05, (3, 4)),
    ]  # fmt: skip


def test_surrogates_multiply_only_where_they_are_used() -> None:
    grid = specs(surrogate=["dowse:s", "dowse:t"], smooth=[3, 15], method=["rgf", "prgf"])
    assert [spec.method for spec in grid] == ["rgf"] + 4 * ["prgf"]
    assert grid[0].surrogate == ()
    assert grid[0].smooth is None
    together = specs(surrogate=[["dowse:s", "dowse:t"]], combine="cycle")
    assert [(spec.surrogate, spec.combine) for spec in together] == [(("dowse:s", "dowse:t"), "cycle")]


def test_a_method_says_words_for_itself() -> None:
    grid = specs(seed=3, method=["rgf", {"name": "prgf", "smooth": 15, "seed": 4, "loss": "margin", "title": "ours"}])
    assert [(spec.seed, spec.loss, spec.smooth) for spec in grid] == [(3, "ce", None), (4, "margin", 15)]
    titles = [plan.title for plan in expand(made(method=["rgf", {"name": "prgf", "q": 7}]), lambda target: "")]
    assert titles == ["rgf", "prgf q=7"]


def test_eps_can_depend_on_the_norm() -> None:
    grid = specs(norm=["l2", "linf"], eps={"l2": 1.5})
    assert [(spec.norm, spec.eps) for spec in grid] == [("l2", 1.5), ("linf", None)]


def test_radii_none_of_which_is_for_a_norm_that_is_run_are_refused() -> None:
    with pytest.raises(InputError, match="eps has a radius for linf only, and the run is in l2: add --norm linf"):
        specs(eps={"linf": 0.03})
    with pytest.raises(InputError, match="or a radius for linf"):
        specs(eps={"l2": 1.0}, method={"name": "rgf", "norm": "linf"})
    assert [spec.eps for spec in specs(eps={"l2": 1.0, "linf": 0.03})] == [1.0]


@pytest.mark.parametrize("word", [{"smooth": 4}, {"class_offset": 1}, {"surrogate_size": 7}, {"combine": "cycle"}])
def test_words_about_surrogates_say_nothing_where_there_is_none(word: dict[str, Any]) -> None:
    alone = {name: value for name, value in BASE.items() if name != "surrogate"} | {"method": "dowse"}
    plain, said = (
        expand(make_experiment(alone | more, source="test.toml"), lambda target: "")[0].spec.id for more in ({}, word)
    )
    assert plain == said
    if word != {"smooth": 4}:
        assert len({specs(method="dowse", **more)[0].id for more in ({}, word)}) == 2, "with one, they say something"


def test_a_methods_own_loss_holds_unless_one_is_said() -> None:
    own = [method.name for method in METHODS.values() if method.loss != "ce"]
    assert own
    assert {spec.loss for spec in specs(method=own)} == {"margin"}
    assert {spec.loss for spec in specs(method=own, loss="ce")} == {"ce"}


def test_cells_that_say_the_same_are_one() -> None:
    default_q = METHODS["rgf"].options()["q"]
    assert len(specs(method=["rgf", {"name": "rgf", "q": default_q}, {"name": "rgf", "norm": "l2"}])) == 1


def test_an_id_depends_on_the_content_and_on_nothing_else() -> None:
    (one,) = specs()
    assert re.fullmatch(r"[0-9a-f]{12}", one.id)
    for same in ({"budget": 5}, {"name": "other"}, {"concurrency": 2}, {"images": {"path": "y.npz", "count": 3}}):
        assert [spec.id for spec in specs(**same)] == [one.id]
    for other in (
        {"seed": 1},
        {"eps": 1.0},
        {"loss": "margin"},
        {"quantize": True},
        {"method": {"name": "prgf", "q": 7}},
    ):
        assert one.id not in [spec.id for spec in specs(**other)]
    assert one.id != expand(made(), lambda target: "other images")[0].spec.id


def test_an_option_that_came_later_is_no_part_of_an_id_while_it_changes_nothing() -> None:
    (plain,) = specs(method="nes", seed=3)
    assert "check_every" not in plain.options
    assert plain.id == "840dca221b23"  # what it was before the option came
    assert [spec.id for spec in specs(method={"name": "nes", "check_every": 1}, seed=3)] == [plain.id]
    (rare,) = specs(method={"name": "nes", "check_every": 2}, seed=3)
    assert rare.id != plain.id
    assert rare.attack.estimator.check_every == 2  # type: ignore[attr-defined]


def test_streams_keyed_by_the_target_are_another_run_and_the_old_ones_keep_their_id() -> None:
    (plain,), (keyed,) = specs(), specs(streams="target")
    assert "streams" not in plain.content()
    assert plain.stream_target == ""
    assert [spec.id for spec in specs(streams="image")] == [plain.id]
    assert keyed.content()["streams"] == "target"
    assert keyed.id != plain.id
    paced = specs(streams="target", method="rgf", target="http://me:pw@host/v2/models/net#rate=3")
    assert paced[0].stream_target == "http://***@host/v2/models/net"


def test_a_row_may_have_other_options_on_another_target() -> None:
    two = [{"name": "rgf", "title": "RGF", "on": "dowse:a"}, {"name": "rgf", "title": "RGF", "on": ["dowse:b"], "q": 7}]
    plans = expand(made(target=["dowse:a", "dowse:b"], method=two), lambda target: "images")
    assert [(plan.title, plan.spec.target, plan.spec.options["q"]) for plan in plans] == [
        ("RGF", "dowse:a", 50), ("RGF", "dowse:b", 7),
    ]  # fmt: skip
    with pytest.raises(InputError, match="on of rgf is for 'dowse:c', which is no target"):
        made(method={"name": "rgf", "on": "dowse:c"})


def test_a_password_in_a_url_is_neither_kept_nor_part_of_the_id() -> None:
    secret, open_one = (specs(target=f"http://{who}host/v2/models/net", method="rgf")[0] for who in ("me:pw@", "***@"))
    assert "pw" not in str(secret.content())
    assert secret.id == open_one.id


def test_quantize_starts_probes_at_one_level_unless_told() -> None:
    (spec,) = specs(quantize=True, method="rgf")
    assert spec.options["sigma"] == 1 / 255
    (spec,) = specs(quantize=True, method={"name": "rgf", "sigma": 0.01})
    assert spec.options["sigma"] == 0.01


def test_cutting_down() -> None:
    experiment = made(images={"path": "x", "count": 10}, method=["rgf", {"name": "prgf", "count": 4}])
    assert [plan.count for plan in expand(experiment, lambda target: "")] == [10, 4]
    cut = experiment.changed(images=6, budget=50, save="png")
    assert [(plan.count, plan.budget) for plan in expand(cut, lambda target: "")] == [(6, 50), (4, 50)]
    assert cut.save == "png"
    assert [plan.count for plan in expand(made().changed(images=6), lambda target: "")] == [6]


def test_a_method_may_have_another_count_on_each_target() -> None:
    experiment = made(
        target=["dowse:a", "dowse:b"], images={"path": "x", "count": 3}, defence=["none", "jpeg:75"],
        method=["rgf", {"name": "nes", "count": {"dowse:b": 8}}],
    )  # fmt: skip
    counts = {(plan.spec.target, plan.spec.method): plan.count for plan in expand(experiment, lambda target: "")}
    assert counts["dowse:b", "nes"] == counts["jpeg:75+dowse:b", "nes"] == 8
    assert {count for key, count in counts.items() if key not in {("dowse:b", "nes"), ("jpeg:75+dowse:b", "nes")}} == {
        3
    }
    cut = {plan.count for plan in expand(experiment.changed(images=5), lambda target: "")}
    assert cut == {3, 5}
    with pytest.raises(InputError, match="is no target: did you mean 'dowse:b'"):
        made(target=["dowse:b"], method={"name": "nes", "count": {"dowse:bb": 8}})
    with pytest.raises(InputError, match="did you mean 'png'"):
        experiment.changed(save="pgn")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"targt": "x"}, "'targt' is unknown: did you mean 'target'?"),
        ({"images": {"path": "x", "cuont": 1}}, "'images.cuont' is unknown: did you mean 'count'?"),
        ({"method": {"name": "prgf", "lamda": 1}}, "prgf has no option 'lamda': did you mean 'lam'?"),
        ({"method": {"name": "square", "bugdet": 3}}, "square has no option 'bugdet': did you mean 'budget'?"),
        ({"method": {"name": "square", "budget": 3}}, "'budget' is for the whole experiment: write it above"),
        ({"method": "prg"}, "method 'prg' is unknown: did you mean 'prgf'?"),
        ({"method": {"name": "prgf", "q": 0}}, "q counts"),
        ({"norm": "l3"}, "'l2' or 'linf', got 'l3'"),
        ({"budget": "many"}, "got 'many'"),
        ({"budget": 0}, "budget counts and must be a whole number of at least 1, got 0"),
        ({"budget": True}, "got True"),
        ({"seed": []}, "an empty list leaves nothing to run"),
        ({"surrogate": []}, "an empty list leaves nothing to run"),
        ({"accept": "never"}, "got 'never'"),
        ({"eps": "big"}, "got 'big'"),
        ({"eps": "8/0"}, "eps is a number such as 3.0 or 8/255, or {l2 = 3.0, linf = 0.03}, got '8/0'"),
        ({"eps": [1.0, "big"]}, "test.toml: eps.1 is a number such as"),
        ({"eps": {"l2": 1.0, "lnf": 0.03}}, "linf = 0.03}, got {'l2': 1.0, 'lnf': 0.03}"),
        ({"surrogate": 5}, "test.toml: surrogate is a spec such as"),
        ({"norm": "l3"}, "test.toml: norm: input should be"),
        ({"norm": ["l2", "l3"]}, "test.toml: norm.1: input should be"),
        ({"images": 5}, "images is a path, or a table {path = PATH, count = NUMBER}, got 5"),
        ({"method": {"q": 3}}, "'method.name' is missing"),
        ({"method": [{"name": "rgf"}, {"q": 3}]}, "'method.1.name' is missing"),
        ({"method": {"name": "rgf", "on": "x"}}, "test.toml: on of rgf is for 'x'"),
        ({"defence": "jpg:75"}, "no defence is named 'jpg': did you mean 'jpeg'?"),
        ({"target": "jpeg:175+dowse:a"}, "a JPEG quality lies between 1 and 95, got 175"),
        ({"target": "jpeg+blacklight+dowse:a"}, "must stand in front of every other defence"),
        ({"target": "onnx:net.onnx#layout=nhcw"}, "layout='NHCW' is unknown"),
        ({"smooth": 4}, "must be odd, got 4"),
        ({"reveals": "top5"}, "reveals='top5' is unknown"),
        ({"decimals": -1}, "decimals must be a whole number from 1 to 15"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(more: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=re.escape(expected)) as caught:
        expand(made(**more), lambda target: "")
    assert "; eps" not in str(caught.value), "once is enough, however many forms a value may have"


def test_a_surrogate_that_is_needed_is_asked_for() -> None:
    tables = {name: value for name, value in BASE.items() if name != "surrogate"}
    experiment = make_experiment(tables, source="test.toml")
    with pytest.raises(InputError, match="needs a surrogate"):
        expand(experiment, lambda target: "")


def test_no_option_of_a_method_hides_behind_a_word_of_the_experiment() -> None:
    for method in METHODS.values():
        hidden = set(method.options()) & {*GRID, "name", "title", "count"}
        assert hidden <= {"step"}, f"{method.name} has options that [[method]] cannot set: {hidden}"


def test_files_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "set.npz").touch()
    file = tmp_path / "night run.toml"
    file.write_text('target = "dowse:a"\nimages = "set.npz"\nmethod = "rgf"\n')
    experiment = load_experiment(file)
    assert experiment.name == "night run"
    assert experiment.images.path == str(tmp_path / "set.npz")
    monkeypatch.setenv("WHERE", str(tmp_path))
    file.write_text('target = "dowse:a"\nimages = "$WHERE/set.npz"\nmethod = "rgf"\n')
    assert load_experiment(file).images.path == str(tmp_path / "set.npz")
    (tmp_path / "mine.csv").touch()
    file.write_text('target = "dowse:a"\nmethod = "rgf"\n[images]\npath = "$DOWSE_SHARED/set"\nlabels = "mine.csv"\n')
    monkeypatch.delenv("DOWSE_SHARED", raising=False)
    images = load_experiment(file).images
    assert (images.path, images.labels) == ("../shared/set", str(tmp_path / "mine.csv"))
    file.write_text('target = "dowse:a\n')
    with pytest.raises(InputError, match=r"cannot read the experiment .*line 1"):
        load_experiment(file)
    with pytest.raises(InputError, match="cannot read the experiment"):
        load_experiment(tmp_path / "none.toml")


def test_the_example_is_an_experiment() -> None:
    project = Path(__file__).resolve().parents[2]
    plans = expand(load_experiment(project / "experiments" / "example.toml"), lambda target: "")
    assert len(plans) == len({plan.spec.id for plan in plans}) > 1
