"""Dowse measures how few queries it takes to fool an image classifier that shows nothing but its scores."""

from dowse.api import Estimate, attack, estimate, stream
from dowse.errors import InputError
from dowse.inputs import Image
from dowse.observers import Observer, Progress
from dowse.priors import Surrogate
from dowse.result import End, Outcome, Result, Summary

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
