"""Image sets: folders, tables, arrays; each image read when its turn comes, broken ones named."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from dowse.errors import InputError
from dowse.images.class_names import CIFAR10, names_of, with_names
from dowse.images.image_set import UNREADABLE, in_channels, parse_size, to_channels
from dowse.images.sources import open_images
from dowse.targets import input_size


def picture(path: Path, size: tuple[int, int] = (8, 6), color: tuple[int, int, int] = (255, 0, 51)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)


def test_labels_from_the_names_of_subfolders(tmp_path: Path) -> None:
    for name in ("dog/a.png", "cat/b.png", "cat/deep/c.jpg"):
        picture(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").touch()
    source = open_images(tmp_path)
    assert [(entry.name, entry.label) for entry in source.entries] == [
        ("cat/b.png", 0),
        ("cat/deep/c.jpg", 0),
        ("dog/a.png", 1),
    ]
    for number in ("7", "12"):
        picture(tmp_path / "numbers" / number / "x.png")
    assert [entry.label for entry in open_images(tmp_path / "numbers").entries] == [12, 7]


def test_labels_from_a_table(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "labels.csv").write_text("file,label,target_label\na.png,3,5\nb.png,,\n")
    source = open_images(tmp_path)
    assert [(entry.label, entry.target_label) for entry in source.entries] == [(3, 5), (None, None)]
    assert [entry.label for entry in open_images(tmp_path, "target").entries] == [None, None]
    other = tmp_path / "other.csv"
    other.write_text("file,label\na.png,9\n")
    assert [entry.label for entry in open_images(tmp_path, str(other)).entries] == [9]
    other.write_text("file,label\na.png,nine\n")
    with pytest.raises(InputError, match=r"line 2 .* label 'nine'"):
        open_images(tmp_path, str(other))
    other.write_text("name,label\na.png,9\n")
    with pytest.raises(InputError, match="expected file and label"):
        open_images(tmp_path, str(other))
    with pytest.raises(InputError, match="no table of labels"):
        open_images(tmp_path, "none.csv")


def test_pictures_that_are_left_out_are_said(tmp_path: Path) -> None:
    for name in ("some/a.png", "some/b.png", "some/c.png", "classes/x.png", "classes/cat/a.png", "classes/dog/a.png"):
        picture(tmp_path / name)
    (tmp_path / "some" / "labels.csv").write_text("file,label\na.png,3\n")
    assert open_images(tmp_path / "some").labels_from == (
        "the table labels.csv; left out: 2 pictures without a line in it"
    )
    classes = open_images(tmp_path / "classes")
    assert [entry.name for entry in classes.entries] == ["cat/a.png", "dog/a.png"]
    assert classes.labels_from.endswith("; left out: 1 picture beside the subfolders")


def test_a_table_of_labels_is_for_folders(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((1, 2, 2, 3), np.uint8))
    with pytest.raises(InputError, match=r"a table for a folder of images"):
        open_images(tmp_path / "a.npz", "labels.csv")


def test_without_any_labels_they_are_the_targets_own(tmp_path: Path) -> None:
    picture(tmp_path / "b.png")
    picture(tmp_path / "a.png")
    assert [(entry.name, entry.label) for entry in open_images(tmp_path).entries] == [("a.png", None), ("b.png", None)]
    assert [entry.name for entry in open_images(tmp_path / "b.png").entries] == ["b.png"]


def test_images_are_scaled_and_cropped_to_size_when_read(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", (8, 6))
    read = open_images(tmp_path).read
    assert read(0, None).shape == (3, 6, 8)
    x = read(0, 4)
    assert x.shape == (3, 4, 4)
    assert x.dtype == torch.float32
    assert torch.allclose(x[:, 0, 0], torch.tensor([1.0, 0.0, 0.2]))


def test_a_pgm_of_sixteen_bits_is_brought_to_eight(tmp_path: Path) -> None:
    levels = np.array([[0, 257, 65535], [40 * 257, 128, 129]], dtype=">u2")
    (tmp_path / "a.pgm").write_bytes(b"P5 3 2 65535\n" + levels.tobytes())
    (tmp_path / "labels.csv").write_text("file,label\na.pgm,0\n")
    x = open_images(tmp_path).read(0, None)
    assert (x * 255).round().tolist() == [[[0, 1, 255], [40, 0, 1]]] * 3


def test_a_broken_file_is_noticed_only_when_it_is_read(tmp_path: Path) -> None:
    picture(tmp_path / "good.png")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    (tmp_path / "labels.csv").write_text("file,label\nbad.png,1\ngone.png,1\ngood.png,1\n")
    source = open_images(tmp_path)
    for broken in (0, 1):
        with pytest.raises(UNREADABLE):
            source.read(broken, None)
    assert source.read(2, None).shape == (3, 6, 8)


@pytest.mark.parametrize("channels", [1, 3])
def test_arrays(tmp_path: Path, channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 6, 6, channels), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.array([2, 0, 1]), target_labels=np.array([0, 1, 2]))
    save_file({"images": torch.from_numpy(images), "labels": torch.tensor([2, 0, 1])}, tmp_path / "a.safetensors")
    for name in ("a.npz", "a.safetensors"):
        source = open_images(tmp_path / name)
        assert [entry.label for entry in source.entries] == [2, 0, 1]
        expected = torch.from_numpy(images[1]).permute(2, 0, 1).float() / 255
        assert torch.equal(source.read(1, None), expected)
        assert source.read(1, 4).shape == (channels, 4, 4)
    assert [entry.target_label for entry in open_images(tmp_path / "a.npz").entries] == [0, 1, 2]


def test_floats_keep_their_bits(tmp_path: Path) -> None:
    images = torch.rand(2, 3, 6, 8)
    save_file({"images": images}, tmp_path / "a.safetensors")
    source = open_images(tmp_path / "a.safetensors")
    assert torch.equal(source.read(1, None), images[1])
    assert source.read(1, 5).shape == (3, 5, 5)
    assert source.entries[0].label is None


def test_the_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    for where in ("one", "two"):
        picture(tmp_path / where / "cat" / "a.png")
    one, two = open_images(tmp_path / "one"), open_images(tmp_path / "two")
    assert one.fingerprint == two.fingerprint
    assert one.fingerprint != open_images(tmp_path / "one", "target").fingerprint
    picture(tmp_path / "two" / "cat" / "a.png", (40, 30))
    assert one.fingerprint != open_images(tmp_path / "two").fingerprint


def test_a_misspelt_image_set_of_the_demo() -> None:
    with pytest.raises(InputError, match="'demo:photos': did you mean 'demo:photographs'"):
        open_images("demo:photos")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda p: None, "there are no images"),
        (lambda p: p.mkdir(), r"holds no image: a folder's images are its files in \.png, "),
        (lambda p: p.write_text("x"), "is no image set"),
    ],
)
def test_no_images(tmp_path: Path, make: object, expected: str) -> None:
    make(tmp_path / "set")  # type: ignore[operator]
    with pytest.raises(InputError, match=expected):
        open_images(tmp_path / "set")


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"pictures": np.zeros((1, 2, 2, 3), np.uint8)}, "no array named images"),
        ({"images": np.zeros((1, 2, 2), np.uint8)}, r"expected uint8 \(n, H, W, C\)"),
        ({"images": np.zeros((1, 2, 2, 3), np.int64)}, r"expected uint8 \(n, H, W, C\)"),
        ({"images": np.zeros((1, 2, 2, 3), np.uint8), "labels": np.zeros(2, np.int64)}, r"expected integers \(1,\)"),
        ({"images": np.zeros((1, 2, 2, 3), np.uint8), "labels": np.zeros(1)}, r"expected integers \(1,\)"),
        ({"images": np.array([{"a": 1}], dtype=object)}, "cannot read"),
    ],
)
def test_arrays_that_are_no_image_set(tmp_path: Path, arrays: dict[str, np.ndarray], expected: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=expected):
        open_images(tmp_path / "a.npz")


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((1, 2, 2, 3), np.uint8))
    whole = (tmp_path / "a.npz").read_bytes()
    for name in ("a.npz", "a.safetensors"):
        (tmp_path / name).write_bytes(whole[:50])
        with pytest.raises(InputError, match="cannot read"):
            open_images(tmp_path / name)


def test_what_is_no_archive_is_not_said_to_be_a_pickle(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_text("none")
    with pytest.raises(InputError, match=r"it is no \.npz file") as told:
        open_images(tmp_path / "a.npz")
    assert "pickle" not in str(told.value)


@pytest.mark.parametrize(
    ("given", "size"),
    [(28, 28), ("28", 28), ("28x28", 28), ("28x20", (28, 20)), ("28×20", (28, 20)), ([28, 20], (28, 20)), ((4, 4), 4)],
)
def test_a_size_as_people_write_it(given: object, size: object) -> None:
    assert parse_size(given) == size


@pytest.mark.parametrize("given", ["", "28x", "x", "28x20x3", "0", "5000", -3, 2.5, True, [], [1, 2, 3], "28 20"])
def test_what_is_no_size(given: object) -> None:
    with pytest.raises(InputError, match="a size is a side such as 224, or HEIGHTxWIDTH such as 28x20"):
        parse_size(given)


def test_grey_and_colour_become_each_other() -> None:
    levels = torch.arange(256).view(1, 16, 16) / 255
    colour = to_channels(levels, 3)
    assert colour.shape == (3, 16, 16)
    assert torch.equal(to_channels(colour, 1), levels), "a grey picture stays what it is"
    assert torch.equal(to_channels(levels, 1), levels)
    red = torch.tensor([1.0, 0.0, 0.0]).view(3, 1, 1)
    assert to_channels(red, 1).item() == pytest.approx(round(0.299 * 255) / 255)
    assert to_channels(red * 0.5001, 1).item() == pytest.approx(0.299 * 0.5001)
    with pytest.raises(InputError, match="4 channels cannot have 1"):
        to_channels(torch.zeros(4, 2, 2), 1)


def folders(folder: Path, *names: str) -> Path:
    for name in names:
        picture(folder / name / "a.png")
    return folder


def test_names_of_subfolders_are_the_targets_classes(tmp_path: Path) -> None:
    source = open_images(folders(tmp_path, "Great_White-shark", "goldfish", "tench"))
    assert [entry.label for entry in source.entries] == [0, 1, 2]
    assert source.labels_from == "the places of the subfolders in alphabetical order"
    named = with_names(source, names_of("jpeg:75+dowse:imagenet_resnet18"))
    assert [(entry.name, entry.label) for entry in named.entries] == [
        ("Great_White-shark/a.png", 2), ("goldfish/a.png", 1), ("tench/a.png", 0),
    ]  # fmt: skip
    assert named.labels_from == "the subfolders' names, which are the target's classes"
    assert named.fingerprint != source.fingerprint
    assert torch.equal(named.read(0, None), source.read(0, None))


def test_names_that_say_the_same_as_their_order_make_the_same_image_set(tmp_path: Path) -> None:
    """So that runs on all classes of a set keep their ids."""
    source = open_images(folders(tmp_path, *CIFAR10))
    assert with_names(source, names_of("dowse:cifar10_resnet20")).fingerprint == source.fingerprint


def test_names_that_are_not_all_known_change_nothing_and_are_said(tmp_path: Path) -> None:
    source = open_images(folders(tmp_path, "goldfish", "crane", "unicorn"))
    named = with_names(source, names_of("torchvision:resnet18"))
    assert named.fingerprint == source.fingerprint
    assert "for 'crane', 'unicorn' names no class of the target, or several" in named.labels_from
    assert with_names(source, ["a", "b"]) is source
    assert with_names(source, ()) is source


def test_a_class_of_several_names(tmp_path: Path) -> None:
    source = open_images(folders(tmp_path, "tabby cat"))
    assert with_names(source, ["dog", "tabby, tabby cat"]).entries[0].label == 1


def test_other_sources_of_labels_are_left_alone(tmp_path: Path) -> None:
    numbered = open_images(folders(tmp_path / "n", "7", "12"))
    assert with_names(numbered, ["7", "12"]) is numbered
    assert numbered.labels_from == "the numbers that the subfolders are named by"
    (tmp_path / "n" / "labels.csv").write_text("file,label\n7/a.png,3\n")
    assert open_images(tmp_path / "n").labels_from.startswith("the table labels.csv")
    own = open_images(folders(tmp_path / "o", "goldfish"), labels="target")
    assert with_names(own, names_of("torchvision:resnet18")) is own


@pytest.mark.parametrize("spec", ["torch:a:b", "http://h/v2/models/n", "nonsense", "hf:/there/is/none", "timm:vit"])
def test_targets_without_names(spec: str) -> None:
    assert names_of(spec) == ()


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_grey_of_16_bits_keeps_its_range(tmp_path: Path, name: str) -> None:
    """X-rays and microscopes write it; Pillow's conversion to RGB cuts it at 255, which is nearly all white."""
    levels = np.array([[0, 257, 32896, 65535]], dtype=np.uint16)
    Image.fromarray(levels).save(tmp_path / name)
    x = open_images(tmp_path).read(0, None)
    assert torch.equal(x, torch.tensor([0, 1, 128, 255]).div(255).expand(3, 1, 4))


def test_pixels_without_a_range_are_not_read(tmp_path: Path) -> None:
    Image.fromarray(np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4)).save(tmp_path / "a.tif")
    with pytest.raises(ValueError, match="mode F have no agreed range: save them as 8 or 16 bits"):
        open_images(tmp_path).read(0, None)


def test_a_folder_in_grey(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", color=(10, 10, 10))
    source = in_channels(open_images(tmp_path), 1)
    assert torch.equal(source.read(0, (3, 5)), torch.full((1, 3, 5), 10 / 255))
    assert in_channels(source, None) is source


def test_the_size_that_a_built_in_target_takes_is_known() -> None:
    assert input_size("dowse:cifar10_resnet20") == 32
    assert input_size("torch:package.module:factory") is None
