"""One request's share of a call: what became of its rows, and the account of all requests together."""

from typing import NamedTuple

import numpy as np
import torch

from dowse.core.target import Delivery
from dowse.targets.declared_form import Array


class Parcel(NamedTuple):
    """What became of one request: rows sent in all its attempts, and their scores or the cause why there are none."""

    rows: int
    sent: int
    scores: Array | None = None
    cause: Exception | None = None


def account(parcels: list[Parcel]) -> Delivery:
    """The account of a call, row by row."""
    if len(parcels) == 1:
        (only,) = parcels
        scores = None if only.scores is None else torch.from_numpy(only.scores)
        times = torch.full((only.rows,), only.sent // only.rows)
        return Delivery(scores, times, torch.full((only.rows,), scores is not None), only.cause)
    answered = [parcel.scores is not None for parcel in parcels]
    sizes = torch.tensor([parcel.rows for parcel in parcels])
    times = torch.tensor([parcel.sent // parcel.rows for parcel in parcels])
    scores = None
    if classes := [parcel.scores.shape[1] for parcel in parcels if parcel.scores is not None]:
        nothing = [np.full((parcel.rows, classes[0]), np.nan) for parcel in parcels]
        parts = [n if parcel.scores is None else parcel.scores for parcel, n in zip(parcels, nothing, strict=True)]
        scores = torch.from_numpy(np.concatenate(parts))
    cause = next((parcel.cause for parcel in parcels if parcel.cause is not None), None)
    return Delivery(scores, times.repeat_interleave(sizes), torch.tensor(answered).repeat_interleave(sizes), cause)
