"""Torch targets run as ONNX files: exported once, kept in a cache, told apart by their weights."""

from pathlib import Path

import pytest
import torch
from torch import nn

from dowse.errors import InputError
from dowse.targets import resolve_target
from dowse.targets.export_cache import cache_folder, exported_file
from dowse.targets.spec import is_torch_spec
from dowse.targets.weights_digest import weights_digest

pytest.importorskip("onnxruntime")
SPEC = "torch:tests.unit.test_export_cache:tiny_net"


def tiny_net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).eval()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOWSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("name", "torch_spec"),
    [
        ("dowse:imagenet_mobilenetv2", True),
        ("denoiser+dowse:cifar10_resnet20", True),
        ("denoiser:some/file.safetensors+torch:a.b:c", True),
        ("net.onnx", False),
        ("folder/dowse.onnx", False),
        ("/absolute/net.onnx", False),
    ],
)
def test_what_follows_onnx_is_a_file_or_a_torch_spec(name: str, torch_spec: bool) -> None:
    assert is_torch_spec(name) == torch_spec


def test_the_file_is_exported_once_and_answers_like_the_module(cache: Path) -> None:
    points = torch.rand(3, 3, 8, 8)
    first = resolve_target(f"onnx:{SPEC}#size=8")
    (file,) = cache.iterdir()
    written = file.stat().st_mtime_ns
    again = resolve_target(f"onnx:{SPEC}#size=8")
    assert [found.stat().st_mtime_ns for found in cache.iterdir()] == [written]
    with torch.no_grad():
        torch.testing.assert_close(first(points), tiny_net()(points), atol=1e-4, rtol=0)
    torch.testing.assert_close(first(points), again(points))


def test_without_a_size_of_its_own_one_must_be_given() -> None:
    with pytest.raises(InputError, match="#size="):
        resolve_target(f"onnx:{SPEC}")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DOWSE_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match="set DOWSE_CACHE"):
        exported_file(SPEC, 8)


def test_the_cache_is_where_the_user_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOWSE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/dowse")


def test_a_denoisers_file_is_part_of_what_a_target_is(tmp_path: Path) -> None:
    unet, digests = tmp_path / "unet.safetensors", set()
    for content in (b"one", b"other"):
        unet.write_bytes(content)
        weights_digest.cache_clear()
        digests |= {weights_digest(f"denoiser:{unet}+{SPEC}"), weights_digest(f"onnx:denoiser:{unet}+{SPEC}#size=8")}
    assert len(digests) == 2
    assert None not in digests
