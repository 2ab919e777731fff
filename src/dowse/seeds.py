"""Names become numbers: image ids, the random stream of an image, and the seed of each row sent."""

import hashlib

import numpy as np
import torch
from torch import Tensor


def image_id(x: Tensor, label: int | None) -> str:
    """A name for an image from its pixels and label, the same wherever and whenever it is met."""
    pixels = x.detach().cpu().contiguous().numpy()
    digest = hashlib.blake2b(pixels.tobytes(), digest_size=8)
    digest.update(f"{pixels.dtype}{pixels.shape}{label}".encode())
    return digest.hexdigest()


def stream(seed: int, image: str, method: str) -> torch.Generator:
    """The random stream of one image under one method."""
    return torch.Generator().manual_seed(_hash(seed, image, method))


def row_seeds(seed: int, image: str, first: int, n: int, purpose: str = "row") -> Tensor:
    """Seeds of the queries `first`, `first`+1, … of an image, (n,) int64 and not negative: splitmix64 of a counter."""
    with np.errstate(over="ignore"):
        z = np.uint64(_hash(seed, image, purpose)) + np.arange(first, first + n, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return torch.from_numpy((z >> np.uint64(1)).astype(np.int64))


def _hash(*parts: object) -> int:
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
