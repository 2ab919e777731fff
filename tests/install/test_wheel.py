"""The package as others get it: sdist and wheel are built, and the wheel works alone, with no checkout around it."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import dowse

pytestmark = [pytest.mark.install, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
OURS = ("PYTHON", "DOWSE", "VIRTUAL_ENV", "COV")  # what the tests set, and an empty environment does not have


def outside() -> dict[str, str]:
    """The environment of somebody who has neither a checkout nor a shared folder."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OURS)}


def called(*command: str | Path, cwd: Path) -> str:
    ended = subprocess.run(command, cwd=cwd, env=outside(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("build") is None or find_spec("hatchling") is None:
        pytest.skip("build and hatchling are not installed; `make dist` installs them")
    folder = tmp_path_factory.mktemp("dist")
    called(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def environment(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an empty environment that got the wheel, and what that needs, from the package index."""
    home = tmp_path_factory.mktemp("empty")
    venv.create(home / "env", with_pip=True)
    programs = home / "env" / "bin"
    (wheel,) = dist.glob("*.whl")
    quickly = ("--quiet", "--no-compile", "--disable-pip-version-check")
    called(programs / "python", "-m", "pip", "install", *quickly, "-c", ROOT / "constraints.txt", wheel, cwd=home)
    return programs


def test_the_version_is_that_of_the_code(dist: Path) -> None:
    assert {path.name for path in dist.iterdir()} == {
        f"dowse-{dowse.__version__}.tar.gz",
        f"dowse-{dowse.__version__}-py3-none-any.whl",
    }


def test_the_wheel_has_every_file_of_the_package_and_no_other(dist: Path) -> None:
    package = ROOT / "src"
    wanted = {
        path.relative_to(package).as_posix()
        for path in (package / "dowse").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    (wheel,) = dist.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == wanted


def test_the_sdist_has_what_it_takes_to_test_and_document_it(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "Makefile", "mkdocs.yml", "constraints.txt"} <= held
    assert {"tests/conftest.py", "examples/own_model.py", "website/hooks.py", "docs/getting-started.md"} <= held
    assert not any(name.startswith(("out/", "site/", ".venv")) for name in held)


def test_it_works_alone(environment: Path, tmp_path: Path) -> None:
    where = called(environment / "python", "-c", "import dowse; print(dowse.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(environment.parent)
    assert called(environment / "dowse", "--version", cwd=tmp_path).strip() == dowse.__version__
    assert called(environment / "python", "-m", "dowse", "--version", cwd=tmp_path).strip() == dowse.__version__
    assert "signhunter" in called(environment / "dowse", "methods", cwd=tmp_path)
    assert "_DOWSE_COMPLETE" in called(environment / "dowse", "completion", "zsh", cwd=tmp_path)
    told = called(environment / "dowse", "demo", "--quick", "--threads", "1", cwd=tmp_path)
    assert "Dowse" in told
    assert (tmp_path / "out" / "demo" / "demo.png").stat().st_size > 10_000
    assert "How few queries" in (tmp_path / "out" / "demo" / "report.html").read_text(encoding="utf-8")
