"""Dowse measures how few queries it takes to fool an image classifier that shows nothing but its scores."""

from dowse.api import Estimate, attack, estimate, stream
from dowse.core.inputs import Image
from dowse.core.observers import Observer, Progress
from dowse.core.result import End, Outcome, Result, Summary
from dowse.errors import InputError
from dowse.surrogates.prior import Surrogate

__version__ = "0.1.0"

__all__ = [
    "End",
    "Estimate",
    "Image",
    "InputError",
    "Observer",
    "Outcome",
    "Progress",
    "Result",
    "Summary",
    "Surrogate",
    "attack",
    "estimate",
    "stream",
]
