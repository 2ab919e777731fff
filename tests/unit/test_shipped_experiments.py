"""The experiments that ship: every table of the paper, its rows, and that each resolves without its models."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from dowse.cli import app
from dowse.experiment.file import load_experiment
from dowse.experiment.grid import expand
from dowse.targets.spec import resolve_surrogate

FOLDER = Path(__file__).parents[2] / "experiments"
FILES = sorted(FOLDER.glob("*/*.toml"))
NORMAL = [
    "NES", "Bandits_T", "Bandits_T, the paper's step", "Bandits_TD", "Bandits_TD, the paper's step", "AutoZOOM",
    "RGF", "P-RGF (λ = 0.5)", "P-RGF (λ = 0.05)", "P-RGF (λ*)",
    "Averaging (μ = 0.5)", "Averaging (μ = 0.05)", "Averaging (μ*)",
    "RGF_D", "P-RGF_D (λ = 0.5)", "P-RGF_D (λ = 0.05)", "P-RGF_D (λ*)",
    "Averaging_D (μ = 0.5)", "Averaging_D (μ = 0.05)", "Averaging_D (μ*)",
]  # fmt: skip
DEFENDED = [
    "NES", "SPSA", "RGF", "P-RGF (λ*)", "Averaging (μ*)", "RGF_D", "P-RGF_D (λ*)", "Averaging_D (μ*)",
]  # fmt: skip
ROWS = {
    "table1": [row for row in NORMAL if "Averaging" not in row],
    "table2": [row for row in DEFENDED if "Averaging" not in row],
    "table3": NORMAL,
    "table4": DEFENDED,
    "table5": ["NES", "NES, its own step", *(row for row in NORMAL[1:] if row != "AutoZOOM")],
    "table6": ["NES", "NES, its own step", "SPSA", "SPSA, the paper's step", *DEFENDED[2:]],
}


@pytest.mark.parametrize("where", ["here", "paper"])
@pytest.mark.parametrize("table", ROWS)
def test_every_table_has_the_papers_rows_those_of_other_steps_and_three_targets(where: str, table: str) -> None:
    plans = expand(load_experiment(FOLDER / where / f"{table}.toml"), lambda target: "")
    targets = dict.fromkeys(plan.spec.target for plan in plans)
    assert len(targets) == 3
    for target in targets:
        rows = [plan.title for plan in plans if plan.spec.target == target and plan.spec.seed == 0]
        assert [row for row in rows if not row.endswith(", smoothed")] == ROWS[table]
        smoothed = [row for row in rows if row.endswith(", smoothed")]
        randomized = [f"{row}, smoothed" for row in ROWS[table] if row.startswith(("P-RGF", "Averaging"))]
        assert smoothed == (randomized if "randomization" in target else [])
    for plan in plans:
        spec = plan.spec
        assert spec.norm == ("linf" if table in ("table5", "table6") else "l2")
        assert spec.options.get("subspace") == (50 if "_D" in plan.title or "_TD" in plan.title else None)
        defended = table in ("table2", "table4", "table6")
        if spec.method in ("rgf", "prgf", "averaging"):
            assert spec.options["sigma"] == (1e-3 if defended and "denoiser" not in spec.target else 1e-4)
        smooth = defended and spec.method in ("prgf", "averaging")
        smooth = smooth and ("randomization" not in spec.target or plan.title.endswith(", smoothed"))
        assert spec.smooth == (15 if smooth else None)
        assert spec.streams == "target"
        assert spec.surrogate_size == (299 if where == "paper" and spec.surrogate else None)
        assert plan.budget == (1000 if where == "here" else 10_000)


@pytest.mark.parametrize("where", ["here", "paper"])
def test_tables_share_the_cells_they_have_in_common(where: str) -> None:
    ids = {
        table: {plan.spec.id for plan in expand(load_experiment(FOLDER / where / f"{table}.toml"), lambda target: "")}
        for table in ROWS
    }
    assert ids["table1"] < ids["table3"]
    assert ids["table2"] < ids["table4"]
    assert not ids["table3"] & ids["table5"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_each_resolves_with_a_dry_run(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOWSE_IMAGENET", str(tmp_path / "none"))
    monkeypatch.setattr("dowse.cli.dryrun.SECONDS", 0.0)
    if file.parent.name in (
        "here",
        "beyond",
        "defences",
    ):  # its images may be here; what it costs is then asked of real models, elsewhere
        monkeypatch.setattr("dowse.images.sources.open_images", _no_images)
    ended = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "out"), "--dry-run", "--json"])
    found = json.loads(ended.stdout)
    assert ended.exit_code == (2 if found["refused"] else 0), ended.output
    assert all("images" in why or "ImageNet" in why for why in found["refused"]), found["refused"]
    assert len(found["runs"]) == len(expand(load_experiment(file), lambda target: ""))
    assert found["queries"] > 0


def test_beyond_the_paper_ours_leads_every_file_and_only_the_robust_target_has_a_smaller_budget() -> None:
    for file in sorted((FOLDER / "beyond").glob("*.toml")):
        plans = expand(load_experiment(file), lambda target: "")
        assert plans[0].spec.method == "dowse", file
        assert plans[0].budget == (2_500 if file.stem == "robust" else 10_000), file
        if plans[0].spec.surrogate and file.stem != "useless":
            assert plans[0].spec.surrogate[0] == "dowse:imagenet_efficientnet_lite0", file


def test_the_useless_surrogate_can_be_opened_from_the_projects_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER.parent)
    (surrogate,) = {
        plan.spec.surrogate for plan in expand(load_experiment(FOLDER / "beyond" / "useless.toml"), lambda target: "")
    }
    assert surrogate is not None
    first, second = (resolve_surrogate(surrogate[0]) for _ in range(2))
    assert torch.equal(*(next(net.parameters()) for net in (first, second)))


def _no_images(path: str, labels: str = "auto") -> None:
    from dowse.errors import InputError

    raise InputError(f"there are no images at {path}")
