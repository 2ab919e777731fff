"""Bad arguments of `dowse.attack`, a line each: refused with the remedy, before any query."""

from typing import Any

import pytest
import torch

import dowse
from tests.nets import Tanh
from tests.support import Counter

X = torch.rand(3, 3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = [0, 1, 2]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"targeted": True}, "target_labels= names the class"),
    ({"target_labels": [0, 2, 1]}, "is its label already|wanted class"),
    ({"y": [0, 1]}, "one for each image"),
    ({"y": [0, 1, 99]}, "label 99 is out of range"),
    ({"y": [0, 1, -1]}, "label -1 is out of range"),
    ({"y": [0, 1, 0.5]}, "y must be integers"),
    ({"x": X[0]}, "shape"),
    ({"x": X * 255}, "divide by 255"),
    ({"x": X - 1}, r"\[0, 1\]"),
    ({"x": X * float("nan")}, "finite|NaN"),
    ({"x": X[:0], "y": []}, "nothing to attack"),
    ({"x": "images"}, "tensor"),
    ({"norm": "l1"}, "norm='l1' is unknown"),
    ({"norm": "linf", "eps": 8}, "write 8/255"),
    ({"eps": 1000.0}, "diameter"),
    ({"eps": -1.0}, "eps must be a finite number above 0"),
    ({"eps": float("nan")}, "eps must be a finite number above 0"),
    ({"eps": "8/255"}, "eps must be a finite number"),
    ({"budget": 0}, "budget counts"),
    ({"budget": 1.5}, "budget counts"),
    ({"budget": True}, "budget counts"),
    ({"budget": 2**70}, "64 bits"),
    ({"seed": 2**70}, "64 bits"),
    ({"seed": "x"}, "64 bits"),
    ({"q": 0}, "q"),
    ({"q": 10**12}, "GiB"),
    ({"repeats": 21}, "more than budget=20"),
    ({"decimals": 400}, "from 1 to 15"),
    ({"reveals": "topk:0"}, "topk"),
    ({"method": "nope"}, "is unknown"),
    ({"method": 3}, "method= takes"),
    ({"method": "os:system"}, "--trust os"),
    ({"nope": 3}, "rgf has no option 'nope'"),
    ({"bugdet": 3}, "rgf has no option 'bugdet': did you mean 'budget'"),
    ({"method": "prgf"}, "needs a surrogate"),
    ({"method": "prgf", "surrogate": 3}, "surrogate must be"),
    ({"method": "prgf", "surrogate": "dowse:nope"}, "nope"),
    ({"method": "prgf", "surrogate": []}, "at least one"),
    ({"method": "prgf", "surrogate": Tanh(1, classes=2)}, "label 2 is none of the surrogate's 2 classes"),
    ({"target": "nope"}, "is not a target"),
    ({"target": 3}, "target"),
]


@pytest.mark.filterwarnings("ignore:the surrogate has")
@pytest.mark.parametrize(("changed", "message"), BAD, ids=[str(sorted(one))[1:-1] for one, _ in BAD])
def test_bad_arguments_are_refused_before_any_query(changed: dict[str, Any], message: str) -> None:
    counter = Counter(Tanh(0))
    said: dict[str, Any] = {"target": counter, "x": X, "y": Y, "method": "rgf", "budget": 20, "q": 3, **changed}
    if "method" in changed:
        del said["q"]
    with pytest.raises(dowse.InputError, match=message):
        dowse.attack(said.pop("target"), said.pop("x"), said.pop("y"), **said)
    assert counter.rows == 0
