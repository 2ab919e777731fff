"""Names become numbers: image ids, the random stream of an image, and the seed of each row sent."""

import hashlib
import math
import random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def image_id(x: Tensor, label: int | None) -> str:
    """A name for an image from its pixels and label, the same wherever and whenever it is met."""
    pixels = x.detach().cpu().contiguous().numpy()
    digest = hashlib.blake2b(pixels.tobytes(), digest_size=8)
    digest.update(f"{pixels.dtype}{pixels.shape}{label}".encode())
    return digest.hexdigest()


def global_randomness() -> int:
    """A number that changes when anybody draws from the global generators of torch, numpy or Python."""
    of_numpy: Any = np.random.get_state()  # noqa: NPY002 not to draw, but to see whether somebody did
    return hash((torch.get_rng_state().numpy().tobytes(), of_numpy[1].tobytes(), of_numpy[2], random.getstate()))


def stream(seed: int, image: str, method: str, target: str = "") -> torch.Generator:
    """The random stream of one image under one method, on one target where that is named."""
    return torch.Generator().manual_seed(_hash(seed, image, method, *_named(target)))


def row_seeds(seed: int, image: str, first: int, n: int, purpose: str = "row", target: str = "") -> Tensor:
    """Seeds of the queries `first`, `first`+1, … of an image, (n,) int64 and not negative: splitmix64 of a counter."""
    start = np.uint64(_hash(seed, image, purpose, *_named(target)))
    return torch.from_numpy((_splitmix(start, np.arange(first, first + n)) >> np.uint64(1)).astype(np.int64))


def uniform_of(seeds: Tensor, n: int) -> Tensor:
    """n numbers of each seed, uniform in [0, 1): (rows,) int64 -> (rows, n) float64, the same whoever asks."""
    starts = seeds.cpu().numpy().astype(np.uint64)[:, None]
    return torch.from_numpy((_splitmix(starts, np.arange(1, n + 1)) >> np.uint64(11)) * 2.0**-53)


def normal_of(seeds: Tensor, n: int) -> Tensor:
    """n numbers of each seed, standard normal: (rows,) int64 -> (rows, n) float64, Box and Muller's of `uniform_of`."""
    radius, angle = uniform_of(seeds, n + n % 2).view(len(seeds), (n + 1) // 2, 2).unbind(2)
    r = (-2 * torch.log1p(-radius)).sqrt()
    turn = 2 * math.pi * angle
    return torch.stack([r * turn.cos(), r * turn.sin()], 2).flatten(1)[:, :n]


def _splitmix(start: np.uint64 | NDArray[np.uint64], counter: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The numbers `counter` of the splitmix64 generators that begin at `start`."""
    with np.errstate(over="ignore"):
        z = start + counter.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def _named(target: str) -> tuple[str, ...]:
    """A part of a key, none for no name: streams that were keyed without a target stay what they were."""
    return (target,) if target else ()


def _hash(*parts: object) -> int:
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
