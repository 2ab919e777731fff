"""Targets of Hugging Face's transformers: an image classifier with its processor's normalisation and size."""

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dowse.core.target import Shape
from dowse.errors import InputError, in_a_line
from dowse.machine.importing import needed

CONFIG = "config.json"
BEGIN_OF_A_FOLDER = (".", "/", "~")  # no name of the hub begins so
NO_NAME = "LABEL_"  # what transformers calls a class that has no name


class HuggingFace(nn.Module):
    """A classifier of transformers behind what its image processor does to pixels, resizing aside: points in [0, 1],
    (n, C, H, W), -> logits (n, K).

    Args:
        net: Answers with an object that has `.logits`.
        processor: The content of its preprocessor_config.json.

    Attributes:
        input_shape: (C, H, W) of the images it was made for.
        class_names: What its classes are called; empty where they have no names.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, processor: Mapping[str, Any]) -> None:
        super().__init__()
        config: Any = net.config
        self.net = net
        self.input_shape = shape_of(config, processor)
        self.class_names = names_in(config)
        scale, offset = _rescaling(processor)
        mean, std = _normalisation(processor, self.input_shape[0])
        # (x·scale + offset − mean) / std as one subtraction and one division
        self.register_buffer("mean", ((mean - offset) / scale).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", (std / scale).view(-1, 1, 1), persistent=False)

    def forward(self, points: Tensor) -> Tensor:
        logits: Tensor = self.net(pixel_values=(points - self.mean) / self.std).logits
        return logits


def load(name: str) -> HuggingFace:
    """The classifier in a folder that `save_pretrained` wrote or, where there is no such folder, of the hub's name."""
    transformers = _transformers()
    with _explained(name), _silent(transformers):
        net, found = transformers.AutoModelForImageClassification.from_pretrained(
            name, output_loading_info=True, **_where(name)
        )
    if missing := sorted(found["missing_keys"]):
        raise InputError(
            f"hf:{name} holds no weights of {', '.join(missing[:3])}, so it is no trained classifier: give one that "
            "was fine-tuned and saved with save_pretrained"
        )
    return HuggingFace(net, processor_of(name))


@lru_cache(maxsize=16)
def declared_shape(name: str) -> Shape:
    """(C, H, W) of the images that a classifier takes; no weights are read for it."""
    with _explained(name):
        config = _transformers().AutoConfig.from_pretrained(name, **_where(name))
    return shape_of(config, processor_of(name))


@lru_cache(maxsize=16)
def declared_names(name: str) -> tuple[str, ...]:
    """What the classes of a classifier are called, as its configuration says; no weights are read for it."""
    with _explained(name):
        return names_in(_transformers().AutoConfig.from_pretrained(name, **_where(name)))


def names_in(config: Any) -> tuple[str, ...]:
    """The names of id2label; none where transformers only numbered the classes."""
    named = [str(config.id2label[i]) for i in range(len(config.id2label))]
    return () if all(name.startswith(NO_NAME) for name in named) else tuple(named)


def processor_of(name: str) -> dict[str, Any]:
    """What is done to pixels before they go in, as its preprocessor_config.json says."""
    _transformers()
    utils = importlib.import_module("transformers.image_processing_utils")
    with _explained(name):
        said: dict[str, Any] = utils.BaseImageProcessor.get_image_processor_dict(name, **_where(name))[0]
    return said


def files_of(name: str) -> list[Path]:
    """The files in a folder that decide its answers; none for a name of the hub."""
    folder = Path(name)
    if not folder.is_dir():
        return []
    kinds = (".safetensors", ".bin")
    return sorted(p for p in folder.iterdir() if p.suffix in kinds or p.name in (CONFIG, "preprocessor_config.json"))


def shape_of(config: Any, processor: Mapping[str, Any]) -> Shape:
    """(C, H, W) of what leaves an image processor, or of what the network's configuration says."""
    channels = getattr(config, "num_channels", None) or 3
    crops = processor.get("do_center_crop") and processor.get("crop_size") is not None
    size = processor["crop_size"] if crops else processor.get("size")
    if isinstance(size, Mapping):
        side = size.get("shortest_edge")
        height, width = size.get("height", side), size.get("width", side)
        if height and width:
            return channels, height, width
    size = size if isinstance(size, int | list | tuple) else getattr(config, "image_size", None)
    if isinstance(size, int):
        return channels, size, size
    if isinstance(size, list | tuple) and len(size) == 2:
        return channels, int(size[0]), int(size[1])
    raise InputError(
        "its image processor says no size, nor does its configuration: add size to preprocessor_config.json"
    )


def _rescaling(processor: Mapping[str, Any]) -> tuple[float, float]:
    """What pixels in [0, 1] are multiplied by, and what is added, for the network to get what its processor makes."""
    if not processor.get("do_rescale", True):
        return 255.0, 0.0
    factor = 255.0 * float(processor.get("rescale_factor", 1 / 255))
    return factor, -1.0 if processor.get("rescale_offset", processor.get("offset")) else 0.0


def _normalisation(processor: Mapping[str, Any], channels: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, (C,)."""
    if not processor.get("do_normalize", "image_mean" in processor):
        return torch.zeros(channels), torch.ones(channels)
    pair = [torch.tensor(processor.get(word, other)) for word, other in (("image_mean", 0.0), ("image_std", 1.0))]
    if any(values.numel() not in (1, channels) for values in pair):
        raise InputError(
            f"its image_mean and image_std are not those of {channels} channels: mend preprocessor_config.json"
        )
    mean, std = (values.float().flatten().expand(channels).clone() for values in pair)
    return mean, std


def _where(name: str) -> dict[str, Any]:
    """A folder is never looked for anywhere else; a name that is none must be known elsewhere, or is an InputError."""
    if Path(name).is_dir():
        return {"local_files_only": True}
    if not _is_cached(name):
        _check_hub_has(name)
    return {}


def _is_cached(name: str) -> bool:
    """Whether transformers has fetched a model of the hub's name before."""
    try:
        return not name.startswith(BEGIN_OF_A_FOLDER) and bool(
            _transformers().utils.cached_file(name, CONFIG, local_files_only=True)
        )
    except (OSError, ValueError):
        return False


def _check_hub_has(name: str) -> None:
    """Raise InputError for a mistyped folder, and unless the hub has a model: it is asked once, with no second try."""
    nothing = f"hf:{name}: there is no such folder here"
    place = Path(name)
    if meant := get_close_matches(place.name, _folders_in(place.parent), n=1):
        raise InputError(f"{nothing}; did you mean {f'hf:{place.parent / meant[0]}'!r}?")
    if name.startswith(BEGIN_OF_A_FOLDER):
        raise InputError(f"{nothing}: give one that save_pretrained wrote")
    try:
        has = needed("huggingface_hub", "names of the hub need huggingface_hub", "hf").file_exists(name, CONFIG)
    except Exception as error:  # no connection, no leave to read it, no name that a model can have
        raise InputError(
            f"{nothing}, and asking the hub failed ({in_a_line(error)}): fetch it where the hub is, give its path"
        ) from error
    if not has:
        raise InputError(
            f"{nothing}, nor has the hub a model of that name, or it wants a login: look there for its name"
        )


def _folders_in(place: Path) -> list[str]:
    """The names of folders with a model in them."""
    return [config.parent.name for config in place.glob(f"*/{CONFIG}")]


def _transformers() -> Any:
    return needed("transformers", "hf: targets need transformers", "hf")


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    """What transformers raises, as an InputError with cause and remedy."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        cause = " ".join(str(error).split())
        there = "the folder must be one that save_pretrained wrote, of a model and of its image processor"
        remedy = (
            there if Path(name).is_dir() else "there is no such folder here; fetch it where the hub is, give its path"
        )
        raise InputError(f"hf:{name} cannot be loaded ({type(error).__name__}: {cause}): {remedy}") from error


@contextlib.contextmanager
def _silent(transformers: Any) -> Iterator[None]:
    """No bars and no advice while weights are read."""
    said = transformers.utils.logging
    bars, level = said.is_progress_bar_enabled(), said.get_verbosity()
    said.disable_progress_bar()
    said.set_verbosity_error()
    try:
        yield
    finally:
        said.set_verbosity(level)
        if bars:
            said.enable_progress_bar()
