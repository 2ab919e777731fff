"""A small vision transformer (Dosovitskiy et al. 2021) for 32×32 images, trained adversarially; batch norms, folded."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dowse.models.layers import Normalize

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
WIDTH, HEADS, DEPTH, PATCH = 48, 3, 2, 16
RENAMED = {
    "layers": "blocks",
    "n1": "before_attention",
    "n2": "before_mlp",
    "q": "query",
    "k": "key",
    "v": "value",
    "o": "out",
    "f1": "widen",
    "f2": "narrow",
    "last": "after_blocks",
    "w": "weight",
    "b": "bias",
    "cls": "class_token",
    "pos": "position",
}


class AdversarialViT(nn.Module):
    """RGB pixels in [0, 1] (n, 3, 32, 32) to logits (n, 10), from the mean of four patches and the class token."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = Normalize(MEAN, STD)
        self.proj = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.class_token = nn.Parameter(torch.zeros(WIDTH))
        self.position = nn.Parameter(torch.zeros((32 // PATCH) ** 2 + 1, WIDTH))
        self.blocks = nn.Sequential(*(_Block() for _ in range(DEPTH)))
        self.after_blocks = _Affine()
        self.fc = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, 32, 32) -> (n, 10)."""
        patches = self.proj(self.norm(x)).flatten(2).transpose(1, 2)  # (n, 4, width)
        tokens = torch.cat([self.class_token.expand(len(x), 1, -1), patches], 1) + self.position
        logits: Tensor = self.fc(self.after_blocks(self.blocks(tokens).mean(1)))
        return logits


class _Block(nn.Module):
    """Self-attention, then two layers on each token, each beside a shortcut: (n, tokens, width), unchanged in shape."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = _Affine(), _Affine()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.widen, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before_attention(x)
        query, key, value = (_heads(part(y)) for part in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(query, key, value)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        after: Tensor = x + self.narrow(F.relu(self.widen(self.before_mlp(x))))
        return after


def _heads(tokens: Tensor) -> Tensor:
    """(n, tokens, width) -> (n, heads, tokens, width / heads)."""
    return tokens.view(*tokens.shape[:2], HEADS, -1).transpose(1, 2)


class _Affine(nn.Module):
    """A folded batch norm: a scale and a shift for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.bias


def rename_parameter(name: str) -> str:
    """A parameter's name in the shared weights, such as `layers.0.n1.w`, to its name here."""
    return ".".join(RENAMED.get(part, part) for part in name.split("."))
